package holds_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"gorm.io/gorm"

	"oversell/internal/backend/backendtest"
	"oversell/internal/catalog"
	"oversell/internal/holds"
	"oversell/internal/payment"
	"oversell/internal/stock"
)

// interrupt makes a payment in which the provider's reply to one call is lost, as if the process
// had died during that call.
func (s *shop) interrupt(t *testing.T, h holds.Hold, at *func() error) {
	t.Helper()
	*at = func() error { return payment.ErrUnavailable }
	_, err := s.Pay(t.Context(), h.ID, h.Token, "key")
	if !errors.Is(err, payment.ErrUnavailable) {
		t.Fatalf("the payment is not interrupted: %v", err)
	}
	*at = nil
}

// settle settles interrupted payments, as if a long time had passed.
func (s *shop) settle(t *testing.T) {
	t.Helper()
	err := s.db.Exec("UPDATE oversell_hold_payments SET due_at = 0").Error
	must(t, errors.Join(err, s.Settle(t.Context())))
}

// settleAll settles interrupted payments, and fails unless all are settled: each capture has an
// order or a refund.
func (s *shop) settleAll(t *testing.T) {
	t.Helper()
	s.settle(t)
	s.wantUnsettled(t, 0)
	s.books(t, 0)
}

// settleFails settles interrupted payments after a while, and fails unless the error is want.
func (s *shop) settleFails(t *testing.T, want error) {
	t.Helper()
	s.due(t, time.Second)
	if err := s.Settle(t.Context()); !errors.Is(err, want) {
		t.Errorf("settling: got %v, want %v", err, want)
	}
}

// wantUnsettled checks how many payments are on record as unsettled. Payments that are not due ever
// again count as settled.
func (s *shop) wantUnsettled(t *testing.T, want int64) {
	t.Helper()
	var n int64
	if err := s.db.Table("oversell_hold_payments").Where("due_at < ?", int64(math.MaxInt64)).
		Count(&n).Error; err != nil || n != want {
		t.Errorf("%d payments are not settled, %v; want %d", n, err, want)
	}
}

// A payment that is not interrupted leaves nothing to settle, whether it succeeds or fails.
func TestPaymentsLeaveNothingToSettle(t *testing.T) {
	each(t, 4, func(t *testing.T, s *shop) {
		bought, late := s.hold(t, h3, "a"), s.hold(t, h3, "b")
		for range 2 {
			s.pay(t, bought, nil)
		}
		if _, err := s.Pay(t.Context(), bought.ID, bought.Token, "another"); !errors.Is(err, holds.ErrNotHeld) {
			t.Errorf("got %v, want %v", err, holds.ErrNotHeld)
		}
		s.bank.afterCapture = func() error { s.expire(t, late); return nil }
		if _, err := s.Pay(t.Context(), late.ID, late.Token, "key"); !errors.Is(err, holds.ErrRefunded) ||
			!errors.Is(err, holds.ErrNotHeld) {
			t.Errorf("got %v, want %v and %v", err, holds.ErrRefunded, holds.ErrNotHeld)
		}
		s.bank.afterCapture = nil
		must(t, s.bank.SetFaults(t.Context(), payment.Faults{DeclineEvery: 1}))
		declined := s.hold(t, h3, "c")
		s.pay(t, declined, payment.ErrDeclined)
		s.wantUnsettled(t, 0)
	})
}

// The process dies between the capture and the order, and no webhook comes. In every stage, the
// settlement writes the order, or refunds the payment if its hold has ended.
func TestSettlesACaptureWithoutWebhooks(t *testing.T) {
	for _, stage := range catalog.HoldStages() {
		t.Run(stage.Name, func(t *testing.T) {
			each(t, 2, func(t *testing.T, s *shop) {
				inTime, late := s.hold(t, stage.Name, "a"), s.hold(t, stage.Name, "b")
				s.interrupt(t, inTime, &s.bank.afterCapture)
				s.interrupt(t, late, &s.bank.afterCapture)
				s.release(t, late)
				s.books(t, 2)
				s.wantUnsettled(t, 2)
				s.settleAll(t)
				s.wantMoney(t, money{authorised: 2, captured: 2, refunded: 1})
				if _, err := s.Order(t.Context(), inTime.ID); err != nil {
					t.Error(err)
				}
				s.want(t, 1, 0, 1)
			})
		})
	}
}

// An authorisation is cancelled only when its hold has ended: until then the buyer may still
// complete the payment.
func TestCancelsWhatWasNeverCaptured(t *testing.T) {
	each(t, 2, func(t *testing.T, s *shop) {
		left, resumed := s.hold(t, h3, "a"), s.hold(t, h3, "b")
		s.interrupt(t, left, &s.bank.afterAuthorise)
		s.interrupt(t, resumed, &s.bank.afterAuthorise)
		s.settle(t)
		s.wantUnsettled(t, 2)
		s.wantMoney(t, money{authorised: 2})
		s.pay(t, resumed, nil)
		s.expire(t, left)
		s.settleAll(t)
		s.wantMoney(t, money{authorised: 2, captured: 1, cancelled: 1})
	})
}

// The shop is killed after it has asked for a capture, which the provider never does. The
// authorisation is cancelled.
func TestCancelsACaptureThatNeverWas(t *testing.T) {
	each(t, 1, func(t *testing.T, s *shop) {
		h := s.hold(t, h3, "a")
		s.bank.afterAuthorise = func() error {
			return s.bank.SetFaults(t.Context(), payment.Faults{FailEvery: 1})
		}
		s.pay(t, h, holds.ErrPending)
		must(t, s.bank.SetFaults(t.Context(), payment.Faults{}))
		s.expire(t, h)
		s.settleAll(t)
		s.wantMoney(t, money{authorised: 1, cancelled: 1})
	})
}

// A process that is paused for a long time before it asks for the authorisation charges nothing
// when it resumes.
func TestStoppedPayerChargesNothing(t *testing.T) {
	each(t, 1, func(t *testing.T, s *shop) {
		h := s.hold(t, h3, "a")
		s.bank.away = payment.ErrUnavailable // the request has not left the process yet
		s.pay(t, h, payment.ErrUnavailable)
		s.bank.away = nil
		s.expire(t, h)
		s.settleAll(t)
		p, err := s.bank.Authorise(t.Context(),
			payment.Request{Key: "hold/" + h.ID + "/key", Reference: reference(h), Amount: holds.DefaultPrice,
				Currency: "EUR", Group: h.SaleID})
		must(t, err)
		if _, err := s.bank.Client.Capture(t.Context(), p.ID, "capture/"+p.ID); !errors.Is(err, payment.ErrConflict) {
			t.Errorf("the late capture: got %v, want %v", err, payment.ErrConflict)
		}
		s.wantMoney(t, money{authorised: 1, cancelled: 1})
	})
}

// A buyer who repeats the payment after the hold has ended learns its outcome immediately.
func TestBuyerAsksAgainTooLate(t *testing.T) {
	each(t, 1, func(t *testing.T, s *shop) {
		h := s.hold(t, h3, "a")
		s.interrupt(t, h, &s.bank.afterCapture)
		s.expire(t, h)
		s.pay(t, h, holds.ErrRefunded)
		s.wantUnsettled(t, 0)
		s.books(t, 0)
		if _, err := s.Pay(t.Context(), h.ID, h.Token, "key"); !errors.Is(err, holds.ErrNotHeld) ||
			errors.Is(err, holds.ErrRefunded) {
			t.Errorf("the third time: got %v, want %v", err, holds.ErrNotHeld)
		}
	})
}

// Several shops settle, webhooks arrive, and buyers repeat their requests, all at the same time.
// Each payment still ends exactly once, with an order or a refund.
func TestEverybodySettlesAtOnce(t *testing.T) {
	const units = 6 // sold; the payments for as many others are refunded
	each(t, 2*units, func(t *testing.T, s *shop) {
		second := s.another(t)
		var bought, late []holds.Hold
		var paid []string
		for range units {
			bought, late = append(bought, s.hold(t, h3, "a")), append(late, s.hold(t, h3, "b"))
		}
		for _, h := range append(bought, late...) {
			s.interrupt(t, h, &s.bank.afterCapture)
		}
		for _, account := range s.books(t, 2*units).Wrong {
			paid = append(paid, account.PaymentID)
		}
		for _, h := range late {
			s.expire(t, h)
		}
		must(t, s.db.Exec("UPDATE oversell_hold_payments SET due_at = 0").Error)
		var all sync.WaitGroup
		for _, till := range []*holds.Service{s.Service, second} {
			for range 2 {
				all.Go(func() {
					if err := till.Settle(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			all.Go(func() {
				for _, id := range paid {
					if err := till.Captured(t.Context(), id); err != nil {
						t.Error(err)
					}
				}
			})
			for _, h := range bought {
				all.Go(func() {
					if _, err := till.Pay(t.Context(), h.ID, h.Token, "key"); err != nil {
						t.Error(err)
					}
				})
			}
		}
		all.Wait()
		s.settle(t) // deletes the records that repeated requests have written again
		s.wantUnsettled(t, 0)
		s.wantMoney(t, money{authorised: 2 * units, captured: 2 * units, refunded: units})
		s.want(t, units, 0, units)
	})
}

// While the provider is unavailable, a round makes a bounded number of calls. When the provider is
// back, all payments are settled.
func TestSettlesWhenTheProviderIsBack(t *testing.T) {
	each(t, 6, func(t *testing.T, s *shop) {
		for range 6 {
			s.interrupt(t, s.hold(t, h3, "a"), &s.bank.afterCapture)
		}
		must(t, s.db.Exec("UPDATE oversell_hold_payments SET due_at = 0").Error)
		s.bank.away = payment.ErrUnavailable
		asked := s.bank.asked.Load()
		if err := s.Settle(t.Context()); !errors.Is(err, payment.ErrUnavailable) {
			t.Errorf("got %v, want %v", err, payment.ErrUnavailable)
		}
		if n := s.bank.asked.Load() - asked; n > 15 { // three calls for each of four payments, and a margin
			t.Errorf("the provider was asked %d times in one round", n)
		}
		s.books(t, 6)
		s.bank.away = nil
		s.settleAll(t)
		s.want(t, 0, 0, 6)
	})
}

// putPayment inserts the row of a payment that began some time ago.
const putPayment = "INSERT INTO oversell_hold_payments (hold_id, idempotency_key, sku, token, amount, currency, " +
	"payment_id, due_at, tries) VALUES (?, 'key', 'hot', 1, 1, 'EUR', 'pay_none', ?, 0)"

// Payments that cannot be settled do not block the others, even if many of them come first.
func TestSettlesTheOthers(t *testing.T) {
	each(t, 1, func(t *testing.T, s *shop) {
		const poison = 30
		for i := range poison { // the provider does not know the payment, or the shop does not know the stage
			must(t, s.db.Exec(putPayment, fmt.Sprintf("h%d-%d", 3+i%2*6, i), i).Error)
		}
		h := s.hold(t, h3, "a")
		s.interrupt(t, h, &s.bank.afterCapture)
		if err := s.db.Exec("UPDATE oversell_hold_payments SET due_at = 1000 WHERE hold_id = ?",
			h.ID).Error; err != nil {
			t.Fatal(err)
		}
		if err := s.Settle(t.Context()); err == nil {
			t.Error("payments that cannot be settled are no error")
		}
		s.books(t, 0)
		s.wantUnsettled(t, poison)
		if err := s.Settle(t.Context()); err != nil {
			t.Errorf("they are tried again at once: %v", err)
		}
	})
}

// Payments with fewer tries come first, and of those with equal tries the one that became due last.
func TestSettlesFirstWhatWasTriedLeast(t *testing.T) {
	each(t, 1, func(t *testing.T, s *shop) {
		h := s.hold(t, h3, "a")
		s.interrupt(t, h, &s.bank.afterCapture)
		var order []string
		s.bank.looked = func(id string) { order = append(order, id) }
		for i := range 8 {
			err := s.db.Exec(putPayment, fmt.Sprintf("h3-%d", i), i).Error
			if i >= 4 && err == nil {
				err = s.db.Exec("UPDATE oversell_hold_payments SET tries = 1, due_at = 2000 WHERE hold_id = ?",
					fmt.Sprintf("h3-%d", i)).Error
			}
			must(t, err)
		}
		if err := s.db.Exec("UPDATE oversell_hold_payments SET due_at = 1000 WHERE hold_id = ?",
			h.ID).Error; err != nil {
			t.Fatal(err)
		}
		if err := s.Settle(t.Context()); !errors.Is(err, payment.ErrUnknownPayment) {
			t.Errorf("got %v, want %v", err, payment.ErrUnknownPayment)
		}
		if i := slices.IndexFunc(order, func(id string) bool { return id != "pay_none" }); i < 0 || i > 3 {
			t.Errorf("it is number %d of %d", i, len(order))
		}
		s.books(t, 0)
	})
}

// The provider answers every authorisation request with this key with an error. When the hold has
// ended, the shop looks for payments by their reference, and here finds none. The buyer learns that
// the payment failed, and the item can be deleted.
func TestAuthorisationThatIsNeverAnswered(t *testing.T) {
	each(t, 1, func(t *testing.T, s *shop) {
		h := s.hold(t, h3, "a")
		s.bank.stuck = payment.ErrUnavailable
		if _, err := s.Pay(t.Context(), h.ID, h.Token, "key"); errors.Is(err, holds.ErrPending) ||
			!errors.Is(err, payment.ErrUnavailable) {
			t.Errorf("got %v, want %v, and not pending", err, payment.ErrUnavailable)
		}
		s.expire(t, h)
		s.pay(t, h, holds.ErrPending)
		for range 2 {
			s.due(t, time.Second)
			_ = s.Settle(t.Context()) // the first round fails
		}
		s.wantUnsettled(t, 0)
		s.wantAlarms(t, 0)
		if _, err := s.Pay(t.Context(), h.ID, h.Token, "key"); !errors.Is(err, holds.ErrNotHeld) ||
			errors.Is(err, holds.ErrPending) {
			t.Errorf("at last: got %v, want %v", err, holds.ErrNotHeld)
		}
		s.delete(t, nil)
	})
}

// The provider answers every authorisation request with an error, but has made the payments. They are found by
// their reference, and cancelled or refunded. A payment with another key that has become an order stays.
func TestAuthorisationThatIsFoundByItsReference(t *testing.T) {
	each(t, 3, func(t *testing.T, s *shop) {
		made, charged, bought := s.hold(t, h3, "a"), s.hold(t, h3, "b"), s.hold(t, h3, "c")
		s.bank.afterAuthorise = func() error { return payment.ErrUnavailable }
		for _, h := range []holds.Hold{made, charged, bought} {
			s.pay(t, h, payment.ErrUnavailable)
		}
		s.bank.afterAuthorise, s.bank.stuck = nil, payment.ErrUnavailable
		found, err := s.bank.Find(t.Context(), reference(charged))
		if err != nil || len(found) != 1 {
			t.Fatalf("found %+v, %v", found, err)
		}
		if _, err := s.bank.Capture(t.Context(), found[0].ID, "somebody"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Pay(t.Context(), bought.ID, bought.Token, "second"); err != nil {
			t.Error(err)
		}
		s.expire(t, made)
		s.expire(t, charged)
		for range 2 {
			s.due(t, time.Second)
			_ = s.Settle(t.Context()) // the first round fails
		}
		s.wantUnsettled(t, 0)
		s.wantMoney(t, money{authorised: 4, captured: 2, cancelled: 2, refunded: 1})
		s.want(t, 2, 0, 1)
	})
}

// A payment that cannot be settled for a long time gets an alarm, and does not block its item's
// deletion. It is still settled when the provider answers again.
func TestPaymentThatCannotBeSettledHasAnAlarm(t *testing.T) {
	each(t, 1, func(t *testing.T, s *shop) {
		h := s.hold(t, h3, "a")
		s.interrupt(t, h, &s.bank.afterCapture)
		s.expire(t, h)
		s.bank.away = payment.ErrUnavailable
		for range 5 {
			s.wantAlarms(t, 0)
			s.delete(t, stock.ErrHoldsOpen)
			s.settleFails(t, payment.ErrUnavailable)
		}
		s.wantAlarms(t, 1)
		s.delete(t, nil)
		s.wantUnsettled(t, 1)
		if n, err := s.Alarms(t.Context()); err != nil || n != 1 {
			t.Errorf("without the item: %d alarms, %v; want 1", n, err)
		}
		s.bank.away = nil
		s.settleAll(t)
	})
}

// The buyer gets the order even without a webhook, a repeated request, or a call to Settle.
func TestSettlerNeedsNoRequests(t *testing.T) {
	backendtest.Each(t, func(t *testing.T, rdb redis.UniversalClient, db *gorm.DB) {
		s := newShop(t, rdb, db, 1, holds.Config{Sweep: time.Hour, Settle: 50 * time.Millisecond})
		h := s.hold(t, h3, "a")
		s.interrupt(t, h, &s.bank.afterCapture)
		for {
			if _, err := s.Order(t.Context(), h.ID); err == nil {
				break
			} else if !errors.Is(err, holds.ErrUnknownOrder) {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Millisecond)
		}
		s.books(t, 0)
	})
}

// wantAlarms checks how many payments have an alarm.
func (s *shop) wantAlarms(t *testing.T, want int64) {
	t.Helper()
	a, err := s.stock.Audit(t.Context(), "hot")
	if err != nil || a.PaymentAlarms != want {
		t.Errorf("%d payments have an alarm, %v; want %d", a.PaymentAlarms, err, want)
	}
	if n, err := s.Alarms(t.Context()); err != nil || n != want {
		t.Errorf("%d payments of all items have an alarm, %v; want %d", n, err, want)
	}
}

// The reply to a capture is lost, and the provider has forgotten the idempotency keys when the
// buyer asks again. The payment on record becomes the order, and no other payment is made.
func TestProviderHasForgottenTheKey(t *testing.T) {
	each(t, 1, func(t *testing.T, s *shop) {
		h := s.hold(t, h3, "a")
		s.interrupt(t, h, &s.bank.afterCapture)
		s.bank.forgotten = true
		s.pay(t, h, nil)
		s.wantUnsettled(t, 0)
		s.wantAlarms(t, 0)
		s.wantMoney(t, money{authorised: 1, captured: 1})
	})
}

// The reply to a capture is lost, and the buyer asks again while the provider's address leads to
// another ledger. No payment is made in that ledger. The payment is completed when the first ledger
// is back.
func TestProviderHasAnotherLedgerForAWhile(t *testing.T) {
	each(t, 1, func(t *testing.T, s *shop) {
		h := s.hold(t, h3, "a")
		s.interrupt(t, h, &s.bank.afterCapture)
		right, other := s.bank.Client, newBank(t)
		s.bank.Client = other.Client
		s.pay(t, h, holds.ErrPending)
		s.wantAlarms(t, 1)
		if ledger, err := other.Ledger(t.Context()); err != nil || len(ledger) > 0 {
			t.Errorf("the other ledger has %+v, %v; want nothing", ledger, err)
		}
		s.bank.Client = right
		s.settleAll(t)
		s.wantAlarms(t, 0)
		s.books(t, 0)
		if _, err := s.Order(t.Context(), h.ID); err != nil {
			t.Error(err)
		}
	})
}

// The provider makes two payments for two requests with the same key. The payment on record
// continues, and the other is cancelled and never captured.
func TestProviderMakesTwoPaymentsForOneKey(t *testing.T) {
	each(t, 1, func(t *testing.T, s *shop) {
		h := s.hold(t, h3, "a")
		s.bank.afterAuthorise = func() error {
			s.bank.afterAuthorise, s.bank.forgotten = nil, true
			s.pay(t, h, holds.ErrPending) // the other request gets as far as its capture
			return nil
		}
		s.bank.afterCapture = func() error { return payment.ErrUnavailable }
		s.pay(t, h, holds.ErrPending)
		s.bank.afterCapture = nil
		s.wantAlarms(t, 1)
		s.settleAll(t)
		s.wantMoney(t, money{authorised: 2, captured: 1, cancelled: 1})
		if _, err := s.Order(t.Context(), h.ID); err != nil {
			t.Error(err)
		}
	})
}

// late makes a payment during which the hold ends, and returns the payment's id.
func (s *shop) late(t *testing.T, want error) (id string) {
	t.Helper()
	h := s.hold(t, h3, "a")
	s.bank.afterCapture = func() error { s.expire(t, h); return nil }
	s.pay(t, h, want)
	s.bank.afterCapture = nil
	found, err := s.bank.Find(t.Context(), reference(h))
	if err != nil || len(found) != 1 {
		t.Fatalf("found %+v, %v", found, err)
	}
	return found[0].ID
}

// refundFails sends the shop the same webhook of a failed refund twice.
func (s *shop) refundFails(t *testing.T, id, event string) {
	t.Helper()
	for range 2 {
		if err := s.RefundFailed(t.Context(), id, event); err != nil {
			t.Error(err)
		}
	}
}

// A refund that was accepted and fails later is tried again with another key, whether or not the
// provider had reported it as final. The payment stays on record until a refund succeeds.
func TestRefundThatFailsLater(t *testing.T) {
	for accepted, want := range map[payment.Status]error{
		"pending": holds.ErrPending, payment.Refunding: holds.ErrPending, payment.Refunded: holds.ErrRefunded,
	} {
		t.Run(string(accepted), func(t *testing.T) {
			each(t, 1, func(t *testing.T, s *shop) {
				s.bank.accepts = accepted
				id := s.late(t, want)
				if accepted != payment.Refunded {
					s.wantUnsettled(t, 1)
				}
				s.refundFails(t, id, "evt_1")
				s.wantUnsettled(t, 1)
				s.bank.accepts = ""
				s.settleAll(t)
				s.wantAlarms(t, 0)
				if b := s.books(t, 0); b.Refunded != 1 || !slices.Equal(s.bank.refundKeys, []string{"", "/evt_1"}) {
					t.Errorf("the books are %+v, the keys %q; want one refund with a second key", b, s.bank.refundKeys)
				}
				if err := s.RefundFailed(t.Context(), id, "evt_0"); !errors.Is(err, holds.ErrNotCaptured) {
					t.Errorf("an old event: got %v, want %v", err, holds.ErrNotCaptured)
				}
				s.wantUnsettled(t, 0)
			})
		})
	}
}

// After three failed refunds, the payment gets an alarm, and the shop asks for no more refunds. The
// payment stays on record until the provider reports that it is refunded.
func TestRefundsThatAllFail(t *testing.T) {
	each(t, 1, func(t *testing.T, s *shop) {
		s.bank.accepts = "pending"
		id := s.late(t, holds.ErrPending)
		for _, event := range []string{"evt_1", "evt_2", "evt_3", "evt_4"} {
			s.refundFails(t, id, event)
			s.due(t, time.Second)
			_ = s.Settle(t.Context()) // the round fails
		}
		if want := []string{"", "/evt_1", "/evt_2"}; !slices.Equal(s.bank.refundKeys, want) {
			t.Errorf("refunds were asked for with %q, want %q", s.bank.refundKeys, want)
		}
		s.wantAlarms(t, 1)
		s.delete(t, nil)
		s.wantUnsettled(t, 1)
		if n, err := s.Alarms(t.Context()); err != nil || n != 1 {
			t.Errorf("without the item: %d alarms, %v; want 1", n, err)
		}
		if _, err := s.bank.Client.Refund(t.Context(), id, "by_hand"); err != nil {
			t.Fatal(err)
		}
		s.settleAll(t)
	})
}

// No webhook reports that the refund has failed, or the provider answers every request with the
// refund's key with an error. The settlement sees that the payment is still captured, and tries
// another key. If the reply to the authorisation was lost and somebody has captured the payment, the
// shop finds and records the payment's id before the refund, so that this works as well.
func TestRefundThatFailsWithoutAWebhook(t *testing.T) {
	for name, begin := range map[string]func(t *testing.T, s *shop){
		"late": func(t *testing.T, s *shop) { s.late(t, holds.ErrPending) },
		"id lost": func(t *testing.T, s *shop) {
			h := s.hold(t, h3, "a")
			s.interrupt(t, h, &s.bank.afterAuthorise)
			s.expire(t, h)
		},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, 1, func(t *testing.T, s *shop) {
				s.bank.accepts = "pending"
				begin(t, s)
				for range 5 {
					s.due(t, time.Second)
					if err := s.Settle(t.Context()); err == nil {
						t.Error("a refund that is not done is no error")
					}
				}
				s.wantAlarms(t, 1)
				s.bank.accepts = ""
				s.settleAll(t)
				if last := s.bank.refundKeys[len(s.bank.refundKeys)-1]; last != "~5" {
					t.Errorf("the last key ends with %q", last)
				}
			})
		})
	}
}

// The provider reports each refund as final, and each fails later. After three refunds the payment
// gets an alarm, although the shop had considered it settled each time.
func TestFinalRefundsThatAllFail(t *testing.T) {
	each(t, 1, func(t *testing.T, s *shop) {
		s.bank.accepts = payment.Refunded
		id := s.late(t, holds.ErrRefunded)
		for i, event := range []string{"evt_1", "evt_2", "evt_3"} {
			s.wantUnsettled(t, 0)
			s.wantAlarms(t, 0)
			s.refundFails(t, id, event)
			s.wantUnsettled(t, 1)
			if i == 2 {
				break
			}
			s.settle(t)
		}
		s.due(t, time.Second)
		if err := s.Settle(t.Context()); err == nil {
			t.Error("a refund that has failed is no error")
		}
		if want := []string{"", "/evt_1", "/evt_2"}; !slices.Equal(s.bank.refundKeys, want) {
			t.Errorf("refunds were asked for with %q, want %q", s.bank.refundKeys, want)
		}
		s.wantAlarms(t, 1)
	})
}

// A payment has an alarm because it could not be settled, and then its refunds fail. The alarm for
// the refunds replaces the first one.
func TestAlarmOfRefundsReplacesOthers(t *testing.T) {
	each(t, 1, func(t *testing.T, s *shop) {
		s.bank.accepts = "pending"
		id := s.late(t, holds.ErrPending)
		must(t, s.db.Exec("UPDATE oversell_hold_payments SET alarm = 'unsettled'").Error)
		for _, event := range []string{"evt_1", "evt_2", "evt_3", "evt_4"} {
			s.refundFails(t, id, event)
		}
		var alarm string
		if err := s.db.Table("oversell_hold_payments").Pluck("alarm", &alarm).Error; err != nil ||
			alarm != "refund_failed" {
			t.Errorf("the alarm is %q, %v; want refund_failed", alarm, err)
		}
	})
}

// After a failed refund, further refunds get no answer for a long time. They do not count as failed,
// and the buyer gets the money back when the provider answers again. A repeated event counts once.
func TestOutageOfRefundsDoesNotEndThem(t *testing.T) {
	each(t, 1, func(t *testing.T, s *shop) {
		s.bank.accepts = "pending"
		id := s.late(t, holds.ErrPending)
		s.refundFails(t, id, "evt_1")
		s.bank.refunds = payment.ErrUnavailable
		for range 10 {
			s.settleFails(t, payment.ErrUnavailable)
			var early int64 // counts rows that become due too early
			if err := s.db.Table("oversell_hold_payments").
				Where("due_at < ?", time.Now().Add(time.Minute).UnixMilli()).Count(&early).Error; err != nil ||
				early > 0 {
				t.Errorf("%d payments are due at once, %v", early, err)
			}
		}
		s.wantAlarms(t, 1)
		s.refundFails(t, id, "evt_2")
		s.refundFails(t, id, "evt_1")
		s.bank.refunds, s.bank.accepts = nil, ""
		s.settleAll(t)
		s.wantMoney(t, money{authorised: 1, captured: 1, refunded: 1})
	})
}

// The table of an older version, which knew no alarms, gets the columns for them.
func TestMigratesPaymentsOfBefore(t *testing.T) {
	each(t, 1, func(t *testing.T, s *shop) {
		h := s.hold(t, h3, "a")
		s.interrupt(t, h, &s.bank.afterCapture)
		for _, column := range []string{"alarm", "refund_key", "refunds_failed"} {
			must(t, s.db.Exec("ALTER TABLE oversell_hold_payments DROP COLUMN "+column).Error)
		}
		must(t, holds.Migrate(t.Context(), s.db))
		s.settleAll(t)
	})
}
