package holds_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"oversell/internal/holds"
	"oversell/internal/payment"
	"oversell/internal/stock"
)

// at returns another process of the shop, whose payments go to the provider with this ledger.
func (s *shop) at(t *testing.T, ledger string) *holds.Service {
	t.Helper()
	cfg := s.cfg
	cfg.Ledger = ledger
	till := holds.New(cfg)
	t.Cleanup(till.Close)
	return till
}

// due sets all payments to have been due for the given time.
func (s *shop) due(t *testing.T, since time.Duration) {
	t.Helper()
	clock := holds.DialectOf(s.db).Clock
	if err := s.db.Exec("UPDATE oversell_hold_payments SET due_at = "+clock+" - ?",
		since.Milliseconds()).Error; err != nil {
		t.Fatal(err)
	}
}

// A payment is settled only at the provider where it began. Another provider does not know the
// payment, and the shop would take that answer to mean that the buyer was not charged.
func TestPaymentIsSettledAtItsOwnProvider(t *testing.T) {
	each(t, 1, func(t *testing.T, s *shop) {
		here, there := s.at(t, "http://one"), s.at(t, "http://two")
		h := s.hold(t, h3, "a")
		s.bank.afterCapture = func() error { return payment.ErrUnavailable }
		if _, err := here.Pay(t.Context(), h.ID, h.Token, "key"); !errors.Is(err, holds.ErrPending) {
			t.Fatalf("got %v, want %v", err, holds.ErrPending)
		}
		s.bank.afterCapture = nil

		s.due(t, time.Hour)
		if err := there.Settle(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := there.Pay(t.Context(), h.ID, h.Token, "key"); !errors.Is(err, holds.ErrPending) {
			t.Errorf("paying elsewhere: got %v, want %v", err, holds.ErrPending)
		} else if strings.Contains(err.Error(), "http://one") {
			t.Errorf("a buyer is told the address of the provider: %v", err)
		}
		s.wantUnsettled(t, 1)
		err := s.stock.Delete(t.Context(), "hot")
		if !errors.Is(err, stock.ErrHoldsOpen) || !strings.Contains(err.Error(), "1 at another provider") {
			t.Errorf("deleting the item: got %v, want %v", err, stock.ErrHoldsOpen)
		}

		if err := here.Settle(t.Context()); err != nil {
			t.Error(err)
		}
		s.wantUnsettled(t, 0)
		s.books(t, 0)
	})
}

// A hold was paid at another provider, and its buyer asks again. This provider cannot tell whether
// the payment is the same. The shop does not charge the buyer again, and logs the reason.
func TestHoldThatWasPaidAtAnotherProvider(t *testing.T) {
	each(t, 1, func(t *testing.T, s *shop) {
		h := s.hold(t, h3, "a")
		s.pay(t, h, nil)
		var log bytes.Buffer
		cfg, other := s.cfg, newBank(t)
		cfg.Payments, cfg.Logger = other, slog.New(slog.NewTextHandler(&log, nil))
		till := holds.New(cfg)
		defer till.Close()
		_, err := till.Pay(t.Context(), h.ID, h.Token, "key")
		if !errors.Is(err, holds.ErrNotHeld) || !strings.Contains(err.Error(), "at another provider") {
			t.Errorf("got %v, want %v, at another provider", err, holds.ErrNotHeld)
		}
		if !strings.Contains(log.String(), "paid at another provider") {
			t.Errorf("the log says %q", log.String())
		}
		if ledger, err := other.Ledger(t.Context()); err != nil || len(ledger) != 2 ||
			ledger[1].Status != payment.Cancelled {
			t.Errorf("the other ledger has %+v, %v; want a payment that is cancelled", ledger, err)
		}
	})
}

// The embedded provider of a payment has ended with its process, so the payment's outcome cannot be
// known. The payment does not block the item's deletion forever.
func TestForgetsPaymentsOfAProviderThatEnded(t *testing.T) {
	each(t, 1, func(t *testing.T, s *shop) {
		gone, here := s.at(t, holds.OwnLedger+"1"), s.at(t, holds.OwnLedger+"2")
		h := s.hold(t, h3, "a")
		s.bank.afterCapture = func() error { return payment.ErrUnavailable }
		if _, err := gone.Pay(t.Context(), h.ID, h.Token, "key"); !errors.Is(err, holds.ErrPending) {
			t.Fatalf("got %v, want %v", err, holds.ErrPending)
		}
		s.expire(t, h)
		for _, step := range []struct {
			due  time.Duration
			want int64
		}{{19 * time.Minute, 1}, {21 * time.Minute, 0}} {
			s.due(t, step.due) // a living process would have looked at the payment every ten minutes
			if err := here.ForgetAbandoned(t.Context()); err != nil {
				t.Error(err)
			}
			s.wantUnsettled(t, step.want)
		}
		s.delete(t, nil)
	})
}

// The provider has lost its ledger, and does not know a payment to which it gave an id. The payment
// gets an alarm and stays on record, and the item can be deleted when the hold has ended.
func TestPaymentThatTheProviderDoesNotKnow(t *testing.T) {
	each(t, 1, func(t *testing.T, s *shop) {
		h := s.hold(t, h3, "a")
		s.interrupt(t, h, &s.bank.afterAuthorise)
		must(t, s.db.Exec("UPDATE oversell_hold_payments SET payment_id = 'pay_none'").Error)
		for range 5 {
			s.settleFails(t, payment.ErrUnknownPayment)
			s.wantAlarms(t, 1)
		}
		s.delete(t, stock.ErrHoldsOpen)
		s.expire(t, h)
		s.delete(t, nil)
		s.wantUnsettled(t, 1)
	})
}

// A payment whose row names no ledger, from an older version, may have begun at any provider. It is
// not given up because a provider does not answer, nor at the first answer after the outage that the
// provider does not know it: the buyer may have been charged.
func TestOutageIsNotAWordOfTheProvider(t *testing.T) {
	each(t, 1, func(t *testing.T, s *shop) {
		h := s.hold(t, h3, "a")
		s.interrupt(t, h, &s.bank.afterCapture)
		s.expire(t, h)
		there := s.at(t, "http://two")
		for _, step := range []struct {
			away  error
			times int
		}{{errors.New("the provider is away"), 7}, {payment.ErrUnknownPayment, 7}} {
			s.bank.away = step.away
			for range step.times {
				s.due(t, time.Second)
				if err := there.Settle(t.Context()); !errors.Is(err, step.away) {
					t.Errorf("got %v, want %v", err, step.away)
				}
			}
		}
		s.wantUnsettled(t, 1)

		s.bank.away = nil
		s.settleAll(t)
	})
}
