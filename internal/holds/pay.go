package holds

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"time"

	"oversell/internal/guard"
	"oversell/internal/payment"
	"oversell/internal/stock"
)

// The errors of payments, wrapped, besides the errors of package payment.
var (
	// ErrRefunded means that the buyer was charged and got the money back, because the hold had ended,
	// or because the payment had a wrong amount. The error that wraps it says which.
	ErrRefunded = errors.New("the payment was refunded")
	// ErrPending means that it is not known yet whether the payment leads to an order or is
	// refunded. The provider's webhook, Settle, or a request with the same key will settle it.
	ErrPending = errors.New("the payment is pending")
	// ErrAmount means that a payment does not have the amount and currency of its hold.
	ErrAmount = errors.New("the payment is not for the hold's price")
	// ErrNotCaptured means that a payment was not captured, so that there is nothing to settle.
	ErrNotCaptured = errors.New("the payment is not captured")
	// errNotRefunded means that the refund or cancellation of a payment is not final yet.
	errNotRefunded = errors.New("the refund is not final")
	// ErrNoPayments means that the Service has no payment provider.
	ErrNoPayments = errors.New("there is no payment provider")
)

const (
	// payTimeout limits a payment once it has begun. The payment does not end with its caller's
	// context: a buyer who leaves is still charged and gets the order.
	payTimeout = 20 * time.Second
	// payTries is how many times the provider is asked if it does not answer. All tries have the
	// same idempotency key.
	payTries = 3
	// maxRefunds is how many refunds of a payment may fail before an operator has to look at it.
	maxRefunds = 3
	// payPause is the time between two tries.
	payPause = 200 * time.Millisecond
)

// Pay charges the buyer and turns the hold into an order. The key is the buyer's idempotency key:
// requests with the same key charge once. Pay returns ErrUnknownHold, ErrToken or ErrNotHeld before
// it charges; ErrRefunded, if the hold ended while the payment was under way; payment.ErrDeclined;
// or ErrPending.
//
// The buyer is charged first: the order is written when the capture is certain. If the process dies
// in between, the webhook payment.captured settles the payment (see Captured). Without a webhook
// any shop settles it (see Settle).
func (s *Service) Pay(ctx context.Context, id string, token int64, key string) (Order, error) {
	order, err := s.pay(ctx, id, token, key)
	if err != nil {
		return Order{}, fmt.Errorf("paying for hold %s: %w", id, err)
	}
	return order, nil
}

func (s *Service) pay(ctx context.Context, id string, token int64, key string) (Order, error) {
	if s.cfg.Payments == nil {
		return Order{}, ErrNoPayments
	}
	if err := stock.CheckKey(key); err != nil {
		return Order{}, err
	}
	h, stage, err := s.lookUpHold(ctx, id)
	if err != nil {
		return Order{}, err
	}
	if h.Token != token {
		return Order{}, ErrToken
	}
	ctx, cancel := untilDone(ctx)
	defer cancel()
	if h.Status != Held && h.Status != Paid {
		return Order{}, s.tooLate(ctx, h, key)
	}
	b, err := s.begin(ctx, h, key)
	if err != nil {
		return Order{}, err
	}
	p, err := s.find(ctx, b)
	if err != nil && (b.PaymentID != "" || h.Status == Paid && errors.Is(err, payment.ErrUnavailable)) {
		err = fmt.Errorf("%w: %w", ErrPending, err) // an earlier request may have charged the buyer
	}
	if err != nil {
		return Order{}, err
	}
	if h.Status == Paid && h.PaymentID != p.ID { // paid with another key: do not capture again
		err := s.cancelPayment(ctx, b, p.ID)
		if err != nil && p.Status == payment.Captured {
			err = fmt.Errorf("%w: %w", ErrPending, err)
		}
		return Order{}, errors.Join(s.paidBefore(ctx, h), err)
	}
	if err := s.authorised(ctx, b, p.ID); err != nil {
		return Order{}, err
	}
	switch p.Status {
	case payment.Refunded:
		if h.Status != Held { // see finish
			s.settled(ctx, b, p.ID)
		}
		return Order{}, ErrRefunded
	case payment.Refunding:
		return Order{}, fmt.Errorf("%w: %w", ErrPending, errNotRefunded)
	case payment.Captured:
	default:
		if err := s.capture(ctx, p.ID); err != nil {
			return Order{}, err
		}
	}
	order, err := s.settle(ctx, stage, h, p)
	if err == nil || errors.Is(err, ErrRefunded) {
		s.settled(ctx, b, p.ID)
	}
	return order, err
}

// paidBefore returns the error for a hold that was paid with another payment. If this shop's
// provider does not know that payment, this request may repeat one that made the payment at another
// shop.
func (s *Service) paidBefore(ctx context.Context, h Hold) error {
	if _, err := s.cfg.Payments.Payment(ctx, h.PaymentID); errors.Is(err, payment.ErrUnknownPayment) {
		s.log.Warn("a hold was paid at another provider; several shops must share one, with -provider URL",
			"hold", h.ID, "payment", h.PaymentID)
		return fmt.Errorf("%w, at another provider", NotHeldError{Paid})
	}
	return NotHeldError{Paid}
}

// tooLate returns the error for a payment whose hold has ended. If the payment had begun before and
// was interrupted, it is settled first: the buyer may have been charged.
func (s *Service) tooLate(ctx context.Context, h Hold, key string) error {
	b, found, err := s.begun(ctx, h.ID, key)
	if err == nil && found {
		err = s.conclude(ctx, b)
	}
	switch {
	case err == nil:
		return NotHeldError{h.Status}
	case errors.Is(err, ErrRefunded), errors.Is(err, ErrPending):
		return err
	}
	return fmt.Errorf("%w: %w", ErrPending, err)
}

// authorise reserves the amount of a payment that has begun. If the provider refuses, the payment
// is settled.
func (s *Service) authorise(ctx context.Context, b begunRow) (p payment.Payment, err error) {
	r := payment.Request{Key: "hold/" + b.HoldID + "/" + b.Key, Reference: b.reference(), Amount: b.Amount,
		Currency: b.Currency, Group: b.SaleID}
	err = untilAnswered(ctx, func() error {
		p, err = s.cfg.Payments.Authorise(ctx, r)
		return err
	})
	if err == nil {
		return p, nil
	}
	if errors.Is(err, payment.ErrDeclined) || errors.Is(err, payment.ErrInvalid) ||
		errors.Is(err, payment.ErrKeyReused) {
		s.settled(ctx, b, "")
	}
	return payment.Payment{}, err
}

func (s *Service) cancelPayment(ctx context.Context, b begunRow, paymentID string) error {
	err := s.refund(ctx, b.HoldID, paymentID)
	if err == nil {
		s.settled(ctx, b, paymentID)
	}
	return err
}

// capture charges the buyer. The idempotency key is made from the payment's id, because a payment is
// captured only once.
func (s *Service) capture(ctx context.Context, paymentID string) error {
	err := untilAnswered(ctx, func() error {
		_, err := s.cfg.Payments.Capture(ctx, paymentID, "capture/"+paymentID)
		return err
	})
	if errors.Is(err, payment.ErrUnavailable) {
		return fmt.Errorf("%w: %w", ErrPending, err)
	}
	return err
}

// settle turns the hold of a captured payment into its order, or refunds the payment. It may be
// called any number of times, even by several processes at the same time.
func (s *Service) settle(ctx context.Context, stage Stage, h Hold, p payment.Payment) (Order, error) {
	err := s.checkAmount(ctx, stage, h, p)
	if err == nil {
		var order Order
		if order, err = stage.Claim(ctx, h.ID, h.Token, p.ID); err == nil {
			return order, nil
		}
	}
	if !ended(err) { // the order may have been written: do not refund
		return Order{}, fmt.Errorf("%w: claiming the hold: %w", ErrPending, err)
	}
	if refundErr := s.refund(ctx, h.ID, p.ID); refundErr != nil {
		return Order{}, fmt.Errorf("%w: %w: %w", ErrPending, err, refundErr)
	}
	level := slog.LevelInfo
	if errors.Is(err, ErrAmount) {
		level = slog.LevelWarn
	}
	s.log.Log(ctx, level, "a payment was refunded", "hold", h.ID, "payment", p.ID, "because", err)
	return Order{}, fmt.Errorf("%w: %w", ErrRefunded, err)
}

// ended reports whether err means that the hold can never be claimed by this payment.
func ended(err error) bool {
	return errors.Is(err, ErrNotHeld) || errors.Is(err, ErrUnknownHold) || errors.Is(err, ErrToken) ||
		errors.Is(err, ErrAmount)
}

func (s *Service) price(quantity int64) (payment.Money, error) {
	if s.cfg.Price < 1 || quantity > math.MaxInt64/s.cfg.Price {
		return payment.Money{}, fmt.Errorf("%w: the price of %d units at %d each is out of range",
			payment.ErrInvalid, quantity, s.cfg.Price)
	}
	return payment.Money{Amount: s.cfg.Price * quantity, Currency: s.cfg.Currency}, nil
}

// checkAmount returns ErrAmount unless the payment has the price of the hold. This is needed
// because anybody with access to the account at the provider can make a payment that refers to a
// hold.
//
// The shop may have asked for the payment at an earlier price. Such a payment is on record until
// its order is written. So the record is read first, and then the hold once more.
func (s *Service) checkAmount(ctx context.Context, stage Stage, h Hold, p payment.Payment) error {
	if h.Quantity == 0 { // the hold is not known, and nothing can claim it
		return nil
	}
	due, dueErr := s.price(h.Quantity)
	if dueErr == nil && due == p.Money() {
		return nil
	}
	if asked, err := s.asked(ctx, h.ID, p); err != nil || asked {
		return err
	}
	now, err := stage.Look(ctx, h.ID)
	switch {
	case err != nil:
		return fmt.Errorf("looking up the hold: %w", err)
	case now.Status == Paid && now.PaymentID == p.ID:
		return nil
	}
	return fmt.Errorf("%w: it is %d %s instead of %d %s", ErrAmount, p.Amount, p.Currency, due.Amount, s.cfg.Currency)
}

// refund returns the money, or cancels a payment that was not captured. It returns nil when that is
// final. After a failed refund it uses another key, so that the provider tries again. The money
// cannot be refunded twice, because the provider refuses to refund more than was charged.
func (s *Service) refund(ctx context.Context, holdID, paymentID string) error {
	b, _, err := s.recordOf(ctx, holdID, paymentID)
	if err != nil {
		return err
	}
	if b.RefundsFailed >= maxRefunds {
		p, err := s.cfg.Payments.Payment(ctx, paymentID)
		if err == nil && (p.Status == payment.Refunded || p.Status == payment.Cancelled) { // it was refunded by hand
			return nil
		}
		return fmt.Errorf("%w: %d refunds have failed", errNotRefunded, b.RefundsFailed)
	}
	var p payment.Payment
	err = untilAnswered(ctx, func() error {
		p, err = s.cfg.Payments.Refund(ctx, paymentID, b.refundKey(paymentID))
		return err
	})
	if errors.Is(err, payment.ErrConflict) { // it was refunded with another key
		if now, lookErr := s.cfg.Payments.Payment(ctx, paymentID); lookErr == nil {
			p = now
		}
	}
	switch {
	case p.Status == payment.Refunded || p.Status == payment.Cancelled:
		return nil
	case err != nil:
		return fmt.Errorf("%w: %w", errNotRefunded, err)
	}
	return fmt.Errorf("%w: the payment is %s", errNotRefunded, p.Status)
}

// untilAnswered repeats f while the provider does not answer, up to payTries times.
func untilAnswered(ctx context.Context, f func() error) (err error) {
	for try := 1; ; try++ {
		if err = f(); try == payTries || !errors.Is(err, payment.ErrUnavailable) || guard.Sleep(ctx, payPause) != nil {
			return err
		}
	}
}

// Reference returns the reference of payments for the hold: its id and its fencing token. So the
// webhook of a payment claims only the hold that the payment was authorised for.
func (h Hold) Reference() string { return h.ID + "/" + strconv.FormatInt(h.Token, 10) }

func (b begunRow) reference() string { return Hold{ID: b.HoldID, Token: b.Token}.Reference() }

// Captured settles a payment that the provider reports as captured: its hold becomes an order, or
// the payment is refunded. It handles the webhook payment.captured, whose signature the caller has
// checked, and completes the payment of a process that died after the capture. It may be called for
// the same payment any number of times.
//
// It returns nil if the payment is settled, ErrNotCaptured if the payment is no longer captured,
// ErrUnknownHold if the payment is not for a hold of this shop, and otherwise an error after which
// the provider must send the webhook again.
func (s *Service) Captured(ctx context.Context, paymentID string) error {
	ctx, cancel := untilDone(ctx)
	defer cancel()
	p, h, stage, err := s.paid(ctx, paymentID)
	switch {
	case err != nil:
		return err
	case p.Status == payment.Refunded:
		return nil
	case p.Status != payment.Captured:
		return fmt.Errorf("payment %s: %w: it is %s", paymentID, ErrNotCaptured, p.Status)
	}
	_, err = s.settle(ctx, stage, h, p)
	if err != nil && !errors.Is(err, ErrRefunded) {
		return err
	}
	s.settledByID(ctx, h.ID, p.ID)
	return nil
}

// paid returns a payment and its hold. It reads the payment's current state, because webhooks may
// arrive out of order.
func (s *Service) paid(ctx context.Context, paymentID string) (payment.Payment, Hold, Stage, error) {
	if s.cfg.Payments == nil {
		return payment.Payment{}, Hold{}, nil, ErrNoPayments
	}
	p, err := s.cfg.Payments.Payment(ctx, paymentID)
	if err != nil {
		return p, Hold{}, nil, err
	}
	id, number, _ := strings.Cut(p.Reference, "/")
	token, err := strconv.ParseInt(number, 10, 64)
	stage, stageErr := s.stageOf(id)
	if err != nil || stageErr != nil {
		return p, Hold{}, nil, fmt.Errorf("payment %s is for %q: %w", paymentID, p.Reference, ErrUnknownHold)
	}
	// A stage with tokens remembers ended holds. If it does not know the hold, the hold and the
	// money belong to another shop. A stage without tokens cannot tell.
	h, err := stage.Look(ctx, id)
	h.ID, h.Token = id, token
	if err != nil && (token != 0 || !errors.Is(err, ErrUnknownHold)) {
		return p, h, nil, fmt.Errorf("payment %s is for %q: %w", paymentID, p.Reference, err)
	}
	return p, h, stage, nil
}

// RefundFailed handles the webhook refund.failed, whose signature the caller has checked: a refund
// that the provider had accepted has failed. The argument event is the id of the webhook's event.
// The settlement refunds the payment again, with another idempotency key. RefundFailed may be
// called for the same event any number of times. The errors are those of Captured.
func (s *Service) RefundFailed(ctx context.Context, paymentID, event string) error {
	ctx, cancel := untilDone(ctx)
	defer cancel()
	p, h, _, unknown := s.paid(ctx, paymentID)
	if unknown != nil && !errors.Is(unknown, ErrUnknownHold) {
		return unknown
	}
	if p.Status != payment.Captured { // it has been refunded since
		return fmt.Errorf("payment %s: %w: it is %s", paymentID, ErrNotCaptured, p.Status)
	}
	for range authorisedTries {
		b, found, err := s.recordOf(ctx, h.ID, p.ID)
		switch {
		case err != nil:
			return err
		case found:
			if noted, err := s.refundFailed(ctx, b, event); err != nil || noted {
				return err
			}
			continue
		case unknown != nil:
			return unknown
		}
		// There is no record, because the refund was final.
		if _, err := s.insertBegun(ctx, s.recordFor(h, p.ID, p.Currency)); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: the record of payment %s keeps changing", ErrPending, paymentID)
}
