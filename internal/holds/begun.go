package holds

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"gorm.io/gorm"

	"oversell/internal/payment"
)

// begunRow is a payment that has begun and is not settled. It is written before the provider is
// called, and deleted when the payment has led to an order, or was refunded, cancelled or declined.
// So a payment whose process dies in between is on record. A row with a failed refund stays; see
// remove.
type begunRow struct {
	HoldID string `gorm:"primaryKey;size:36"`
	// Key is the buyer's idempotency key, or "".
	Key      string `gorm:"column:idempotency_key;primaryKey;size:128"`
	SKU      string `gorm:"size:64;not null;index:idx_hold_payments_sku"`
	SaleID   string `gorm:"size:36;not null;default:''"`
	Token    int64  `gorm:"not null"`
	Amount   int64  `gorm:"not null"`
	Currency string `gorm:"size:3;not null"`
	// PaymentID is "" until the payment is authorised. It is written before the capture, so that no
	// money moves for a payment that is not on record.
	PaymentID string `gorm:"size:128;not null;default:''"`
	// DueAt is when any shop may begin to settle the payment, in milliseconds since 1970 by the
	// database's clock. Tries counts how many times a shop has begun to settle it.
	DueAt int64 `gorm:"not null;index:idx_hold_payments_due"`
	Tries int   `gorm:"not null;default:0"`
	// Failures counts how many times the payment could not be settled. The column has an older
	// name.
	Failures int `gorm:"column:times_unknown;not null;default:0"`
	// Ledger is Config.Ledger of the shop where the payment began: only that provider knows the
	// payment. Rows older than this column have "", and any shop may settle them.
	Ledger string `gorm:"size:255;not null;default:''"`
	// RefundKey lists the events of failed refunds, each after a slash, followed by tryMark and a
	// number if the last key was abandoned. Its last part is the end of the next refund's
	// idempotency key; see refundKey.
	RefundKey string `gorm:"size:128;not null;default:''"`
	// RefundsFailed counts the refunds that the provider accepted and that then failed.
	RefundsFailed int `gorm:"not null;default:0"`
	// Cancelling says that the order of the payment is being cancelled. Until that is done,
	// settling the payment does not delete the row.
	Cancelling bool `gorm:"not null;default:false"`
	// Alarm says why an operator has to look at the payment; see the alarms below. It is "" if
	// there is no alarm.
	Alarm string `gorm:"size:32;not null;default:''"`
}

// The alarms of payments. The shop still tries to settle a payment with an alarm, and deletes its
// row when it is settled.
const (
	// alarmUnknown: the provider does not know a payment that it has given an id. It has lost its
	// ledger, or is another provider.
	alarmUnknown = "unknown_payment"
	// alarmOther: the provider has made two payments for one idempotency key. It has forgotten the
	// key.
	alarmOther = "other_payment"
	// alarmRefund: maxRefunds refunds have failed, and the buyer has neither the order nor the money.
	alarmRefund = "refund_failed"
	// alarmUnsettled: the payment could not be settled maxFailures times.
	alarmUnsettled = "unsettled"
)

// OwnLedger begins the name of a ledger that is lost when its process ends, because the provider
// runs inside it. The rest of the name must be unique.
const OwnLedger = "process:"

func (begunRow) TableName() string { return "oversell_hold_payments" }

// begin records that a payment for a hold begins. If one with the same key has already begun, it
// returns that one.
func (s *Service) begin(ctx context.Context, h Hold, key string) (begunRow, error) {
	due, err := s.price(h.Quantity)
	if err != nil {
		return begunRow{}, err
	}
	b := begunRow{HoldID: h.ID, Key: key, SKU: h.SKU, SaleID: h.SaleID, Token: h.Token, Amount: due.Amount,
		Currency: due.Currency, Ledger: s.cfg.Ledger}
	written, err := s.insertBegun(ctx, b)
	if err != nil || written {
		return b, err
	}
	earlier, found, err := s.begun(ctx, h.ID, key)
	if found {
		b = earlier
		err = s.checkLedger(b)
	}
	return b, err // if it is not found, it has just been settled
}

// insertBegun inserts a payment's row unless it exists. It reports whether it inserted one.
func (s *Service) insertBegun(ctx context.Context, b begunRow) (written bool, err error) {
	rows, err := s.exec(ctx,
		s.sql.Ignore+" INTO oversell_hold_payments (hold_id, idempotency_key, sku, sale_id, token, amount, "+
			"currency, payment_id, ledger, due_at, tries) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, "+s.sql.Clock+" + ?, 0)",
		b.HoldID, b.Key, b.SKU, b.SaleID, b.Token, b.Amount, b.Currency, b.PaymentID, b.Ledger,
		s.cfg.Settle.Milliseconds())
	return rows > 0, err
}

// first reads the given columns of one payment that meets a condition, if there is any. If columns
// is nil, it reads all columns.
func (s *Service) first(
	ctx context.Context, columns []string, where string, args ...any,
) (b begunRow, found bool, err error) {
	err = s.query(ctx, func(db *gorm.DB) *gorm.DB {
		done := db.Select(columns).Where(where, args...).Limit(1).Find(&b)
		found = done.RowsAffected > 0
		return done
	}, "reading a payment on record")
	return b, found && err == nil, err
}

// count counts the payments that meet a condition.
func (s *Service) count(ctx context.Context, where string, args ...any) (rows int64, err error) {
	err = s.query(ctx, func(db *gorm.DB) *gorm.DB {
		return db.Model(&begunRow{}).Where(where, args...).Count(&rows)
	}, "counting the payments on record")
	return rows, err
}

// begun returns the payment that has begun for a hold with a key, if it is not settled.
func (s *Service) begun(ctx context.Context, holdID, key string) (b begunRow, found bool, err error) {
	return s.first(ctx, nil, "hold_id = ? AND idempotency_key = ?", holdID, key)
}

// asked reports whether the payment is on record with its amount and currency.
func (s *Service) asked(ctx context.Context, holdID string, p payment.Payment) (bool, error) {
	rows, err := s.count(ctx, "hold_id = ? AND payment_id = ? AND amount = ? AND currency = ?",
		holdID, p.ID, p.Amount, p.Currency)
	return rows > 0, err
}

// authorised records the id of a payment before it is captured. If the row was deleted, because
// another process has settled the payment, it is written again, and the process that continues the
// payment deletes it. An id on record is never replaced: its payment may have been captured.
func (s *Service) authorised(ctx context.Context, b begunRow, paymentID string) error {
	if b.PaymentID == paymentID {
		return nil
	}
	b.PaymentID = paymentID
	for range authorisedTries {
		rows, err := s.exec(ctx,
			"UPDATE oversell_hold_payments SET payment_id = ? WHERE hold_id = ? AND idempotency_key = ? AND "+
				"payment_id = ''",
			paymentID, b.HoldID, b.Key)
		if err != nil || rows > 0 {
			return err
		}
		now, found, err := s.begun(ctx, b.HoldID, b.Key)
		switch {
		case err != nil:
			return err
		case found && now.PaymentID == paymentID: // written by a request with the same key
			return nil
		case found && now.PaymentID != "":
			return s.otherPayment(ctx, now, paymentID)
		}
		if written, err := s.insertBegun(ctx, b); err != nil || written {
			return err
		}
	}
	return fmt.Errorf("%w: other requests with the key keep changing it", ErrPending)
}

// authorisedTries is how many times a request tries to record the id if others with its key keep
// writing and deleting the row.
const authorisedTries = 5

// otherPayment handles a second payment that the provider has made for one request. The first
// payment, which is on record, is settled as usual. The second is recorded and cancelled.
func (s *Service) otherPayment(ctx context.Context, b begunRow, paymentID string) error {
	s.alarm(ctx, b, alarmOther, "the provider has made a second payment for one idempotency key", "second", paymentID)
	second := b
	second.Key, second.PaymentID = ownKey(paymentID), paymentID
	if _, err := s.insertBegun(ctx, second); err != nil {
		return err
	}
	return errors.Join(
		fmt.Errorf("%w: another payment for it is on record", ErrPending),
		s.cancelPayment(ctx, second, paymentID))
}

// ownKey returns the key for the row of a payment whose buyer's key is not known. No buyer's key
// contains a space.
func ownKey(paymentID string) string { return "payment " + paymentID }

// alarm records that an operator has to look at a payment. The alarm appears in the log, in the
// metrics and in the audit of the item. Each payment gets one alarm, except that alarmRefund
// replaces any other.
func (s *Service) alarm(ctx context.Context, b begunRow, alarm, text string, more ...any) {
	replaced := ""
	if alarm == alarmRefund {
		replaced = " OR alarm <> '" + alarmRefund + "'"
	}
	rows, err := s.exec(ctx,
		"UPDATE oversell_hold_payments SET alarm = ? "+
			"WHERE hold_id = ? AND idempotency_key = ? AND (alarm = ''"+replaced+")",
		alarm, b.HoldID, b.Key)
	if rows == 0 && err == nil {
		return
	}
	about := []any{"alarm", alarm, "hold", b.HoldID, "payment", b.PaymentID, "amount", b.Amount, "currency", b.Currency}
	s.log.Error(text, append(about, more...)...)
	if err != nil {
		s.log.Warn("an alarm of a payment is not on record", "hold", b.HoldID, "error", err)
	}
}

// OpenPayments counts the payments for holds of an item that an operator has to look at, and those
// that have a failed refund, and no final refund yet.
func (s *Service) OpenPayments(ctx context.Context, sku string) (alarms, refunds int64, err error) {
	if alarms, err = s.count(ctx, "alarm <> '' AND sku = ?", sku); err == nil {
		refunds, err = s.count(ctx, "refunds_failed > 0 AND due_at < ? AND sku = ?", int64(neverDue), sku)
	}
	return alarms, refunds, err
}

// Alarms counts the payments that an operator has to look at, including those of deleted items.
func (s *Service) Alarms(ctx context.Context) (int64, error) { return s.count(ctx, "alarm <> ''") }

// recordOf returns the record of the payment with the given id.
func (s *Service) recordOf(ctx context.Context, holdID, paymentID string) (b begunRow, found bool, err error) {
	// Times are left out, so that two runs of the lab produce the same output.
	columns := []string{
		"hold_id", "idempotency_key", "payment_id", "amount", "currency", "refund_key", "refunds_failed",
	}
	return s.first(ctx, columns, "hold_id = ? AND payment_id = ?", holdID, paymentID)
}

// settled deletes the row of a settled payment, if the row has this id, or no id because the
// payment was not made. A row with another id belongs to another payment. If the deletion fails,
// the payment is settled again later, which changes nothing.
func (s *Service) settled(ctx context.Context, b begunRow, paymentID string) {
	err := s.remove(ctx, "hold_id = ? AND idempotency_key = ? AND payment_id IN ('', ?)", b.HoldID, b.Key, paymentID)
	if err != nil {
		s.log.Warn("a payment is settled, and will be checked once more", "hold", b.HoldID, "error", err)
	}
}

// settledByID is like settled, for a payment whose key is unknown.
func (s *Service) settledByID(ctx context.Context, holdID, paymentID string) {
	if err := s.remove(ctx, "hold_id = ? AND payment_id = ?", holdID, paymentID); err != nil {
		s.log.Warn("a payment is settled, and will be checked once more",
			"hold", holdID, "payment", paymentID, "error", err)
	}
}

// remove deletes the rows of settled payments whose order is not being cancelled. A row with a
// failed refund stays, but is never due: the latest refund is final now, but may still fail, and
// has to be counted then.
func (s *Service) remove(ctx context.Context, which string, args ...any) error {
	which += " AND cancelling = 0"
	rows, err := s.exec(ctx, "DELETE FROM oversell_hold_payments WHERE "+which+" AND refunds_failed = 0", args...)
	if err == nil && rows == 0 {
		_, err = s.exec(ctx,
			"UPDATE oversell_hold_payments SET due_at = ?, alarm = '' WHERE "+which+" AND refunds_failed > 0",
			append([]any{neverDue}, args...)...)
	}
	return err
}

// neverDue is the due_at of a settled payment that stays on record. If a refund fails, the payment
// becomes due again.
const neverDue = math.MaxInt64

// checkLedger returns an error that wraps ErrPending if a payment began at another provider.
func (s *Service) checkLedger(b begunRow) error {
	if b.Ledger == "" || b.Ledger == s.cfg.Ledger {
		return nil
	}
	return fmt.Errorf("%w: it began at another provider", ErrPending) // buyers must not see its address
}

// abandoned is how long a payment whose ledger ends with its process must be due before it is
// forgotten. A live process reads its payments more often than that; see lookPause.
const abandoned = 2 * maxSettlePause

// errUnread means that the table of payments cannot be read.
var errUnread = errors.New("the payments that are not settled cannot be read")

// ForgetAbandoned deletes payments at a provider inside another shop that have been due for over 20
// minutes: their ledger ended with that shop, so their outcome cannot be known any more.
//
// A Service calls it only after it has read the table for that long without a gap. So after an
// outage of the database, or after machines slept, live shops have time to settle their payments
// first.
func (s *Service) ForgetAbandoned(ctx context.Context) error {
	rows, err := s.exec(ctx,
		"DELETE FROM oversell_hold_payments WHERE ledger <> ? AND ledger LIKE '"+OwnLedger+"%' AND "+
			"due_at <= "+s.sql.Clock+" - ?",
		s.cfg.Ledger, abandoned.Milliseconds())
	if rows > 0 {
		s.log.Warn("payments were forgotten, because their provider ended with its shop", "payments", rows)
	}
	return err
}

// due returns payments that this shop may settle now: the least tried first, and among these the
// newest. So a payment that becomes due does not wait for those that cannot be settled.
func (s *Service) due(ctx context.Context, limit int) (all []begunRow, err error) {
	err = s.query(ctx, func(db *gorm.DB) *gorm.DB {
		return db.Where("due_at <= "+s.sql.Clock+" AND ledger IN (?)", []string{"", s.cfg.Ledger}).
			Order("tries, due_at DESC").Limit(limit).Find(&all)
	}, "%w", errUnread)
	return all, err
}

// refundFailed records, once for each event, that the refund of a payment on record has failed. It
// makes the payment due, so that the next refund is tried soon, with another key. After maxRefunds
// it raises an alarm. It reports false if the record has changed since it was read.
func (s *Service) refundFailed(ctx context.Context, b begunRow, event string) (noted bool, err error) {
	events, _, _ := strings.Cut(b.RefundKey, tryMark)
	if strings.Contains(events+"/", "/"+event+"/") {
		return true, nil
	}
	events += "/" + event
	rows, err := s.exec(ctx,
		"UPDATE oversell_hold_payments SET refund_key = ?, refunds_failed = refunds_failed + 1, due_at = "+s.sql.Clock+
			" WHERE hold_id = ? AND idempotency_key = ? AND payment_id = ? AND refund_key = ? AND refunds_failed = ?",
		events[max(0, len(events)-maxEvents):], b.HoldID, b.Key, b.PaymentID, b.RefundKey, b.RefundsFailed)
	if err != nil || rows == 0 {
		return false, err
	}
	s.log.Warn("a refund has failed after it was accepted",
		"hold", b.HoldID, "payment", b.PaymentID, "failed", b.RefundsFailed+1)
	if b.RefundsFailed+1 >= maxRefunds {
		s.alarm(ctx, b, alarmRefund, "the refunds of a payment have failed, and the buyer has neither the order "+
			"nor the money")
	}
	return true, nil
}

// nextRefundKey makes the next refund of a payment use another key, because the provider may always
// answer this one with an error.
func (s *Service) nextRefundKey(ctx context.Context, b begunRow) error {
	events, _, _ := strings.Cut(b.RefundKey, tryMark)
	_, err := s.exec(ctx,
		"UPDATE oversell_hold_payments SET refund_key = ? WHERE hold_id = ? AND idempotency_key = ? AND refund_key = ?",
		events+tryMark+strconv.Itoa(b.Failures+1), b.HoldID, b.Key, b.RefundKey)
	return err
}

// refundKey returns the idempotency key of the next refund of a payment.
func (b begunRow) refundKey(paymentID string) string {
	return "refund/" + paymentID + b.RefundKey[max(0, strings.LastIndex(b.RefundKey, "/")):]
}

const (
	// tryMark begins the suffix that nextRefundKey adds to a key.
	tryMark = "~"
	// maxEvents is the maximum length of the events in RefundKey, in bytes. It leaves room for a
	// number after them.
	maxEvents = 112
)

// takeDue takes a payment that is due, so that no other process tries it before the pause is over.
// It reports false if another process was faster.
func (s *Service) takeDue(ctx context.Context, b begunRow, pause time.Duration) (bool, error) {
	rows, err := s.exec(ctx,
		"UPDATE oversell_hold_payments SET due_at = "+s.sql.Clock+" + ?, tries = tries + 1 WHERE hold_id = ? AND "+
			"idempotency_key = ? AND tries = ?",
		pause.Milliseconds(), b.HoldID, b.Key, b.Tries)
	return rows > 0, err
}

// execTries is how many times a statement is tried if it conflicts with others.
const execTries = 3

// exec runs one statement on the table, and returns how many rows it changed.
func (s *Service) exec(ctx context.Context, statement string, args ...any) (rows int64, err error) {
	for range execTries {
		err = s.query(ctx, func(db *gorm.DB) *gorm.DB {
			done := db.Exec(statement, args...)
			rows = done.RowsAffected
			return done
		}, "recording a payment")
		if !s.sql.Conflict(err) {
			break
		}
	}
	return rows, err
}
