package holds_test

import (
	"context"
	"errors"
	"testing"

	"oversell/internal/catalog"
	"oversell/internal/holds"
	"oversell/internal/payment"
)

// sold puts one unit on sale with a stage, sells it, and returns the hold and the order.
func (s *shop) sold(t *testing.T, stage string) (holds.Hold, holds.Order) {
	t.Helper()
	h := s.hold(t, stage, "a")
	return h, s.pay(t, h, nil)
}

// cancel cancels the order of a hold, and fails unless the error is want.
func (s *shop) cancel(t *testing.T, h holds.Hold, want error) {
	t.Helper()
	if err := s.Cancel(t.Context(), h.ID, h.Token); !errors.Is(err, want) {
		t.Errorf("cancelling: got %v, want %v", err, want)
	}
}

// If the provider does not answer the refund of an order, the order is cancelled anyway, and the
// settlement refunds it.
func TestCancelWhileTheProviderRefundsNothing(t *testing.T) {
	each(t, 1, func(t *testing.T, s *shop) {
		for _, stage := range catalog.HoldStages() {
			s.put(t, 1)
			h, _ := s.sold(t, stage.Name)
			s.bank.refunds = payment.ErrUnavailable
			s.cancel(t, h, holds.ErrPending)
			s.want(t, 1, 0, 0)
			s.wantUnsettled(t, 1)
			s.bank.refunds = nil
			s.settleAll(t)
		}
	})
}

// The refund of a cancelled order is accepted and fails later. It is counted as open until another
// refund of the payment is final.
func TestRefundOfACancelledOrderFails(t *testing.T) {
	each(t, 1, func(t *testing.T, s *shop) {
		open := func(want int64) {
			t.Helper()
			if _, n, err := s.OpenPayments(t.Context(), "hot"); err != nil || n != want {
				t.Errorf("%d refunds are open, %v; want %d", n, err, want)
			}
		}
		h, o := s.sold(t, h3)
		s.bank.accepts = payment.Refunded
		s.cancel(t, h, nil)
		open(0)
		s.refundFails(t, o.PaymentID, "evt_1")
		open(1)
		s.bank.accepts = ""
		s.settle(t)
		open(0)
		s.wantMoney(t, money{authorised: 1, captured: 1, refunded: 1})
		s.cancel(t, h, nil)
		s.want(t, 1, 0, 0)
	})
}

// claimed is a Stage whose Claim calls after when the order has been written or found.
type claimed struct {
	holds.Stage
	after func()
}

func (c *claimed) Claim(ctx context.Context, id string, token int64, paymentID string) (holds.Order, error) {
	o, err := c.Stage.Claim(ctx, id, token, paymentID)
	if after := c.after; after != nil {
		c.after = nil
		after()
	}
	return o, err
}

// A repeated webhook finds the order, which is then cancelled before the webhook is answered. The
// webhook does not delete the record of the refund.
func TestCancelBesideARepeatedWebhook(t *testing.T) {
	each(t, 1, func(t *testing.T, s *shop) {
		h, o := s.sold(t, h3)
		stage := &claimed{Stage: s.cfg.Stages[h3]}
		s.cfg.Stages[h3] = stage
		there := s.another(t)
		s.bank.refunds = payment.ErrUnavailable
		stage.after = func() {
			if err := there.Cancel(t.Context(), h.ID, h.Token); !errors.Is(err, holds.ErrPending) {
				t.Errorf("cancelling: got %v, want %v", err, holds.ErrPending)
			}
		}
		if err := there.Captured(t.Context(), o.PaymentID); err != nil {
			t.Error(err)
		}
		s.bank.refunds = nil
		s.settle(t)
		s.want(t, 1, 0, 0)
		s.books(t, 0)
	})
}

// A refund from the provider's dashboard fails before the order is cancelled. The shop still
// retries its own refund.
func TestCancelAfterARefundThatFailed(t *testing.T) {
	each(t, 1, func(t *testing.T, s *shop) {
		h, o := s.sold(t, h3)
		for _, event := range []string{"evt_1", "evt_2", "evt_3"} {
			s.refundFails(t, o.PaymentID, event)
		}
		s.settle(t)
		s.bank.refunds = payment.ErrUnavailable
		s.cancel(t, h, holds.ErrPending)
		s.bank.refunds = nil
		s.settle(t)
		s.want(t, 1, 0, 0)
		s.books(t, 0)
	})
}

// All refunds of a cancelled order fail. A repeated cancellation keeps the alarm, and does not ask for
// another refund: an operator may have paid the money back.
func TestCancelAgainAfterRefundsThatFailed(t *testing.T) {
	each(t, 1, func(t *testing.T, s *shop) {
		h, o := s.sold(t, h3)
		s.bank.accepts = payment.Refunded
		s.cancel(t, h, nil)
		for _, event := range []string{"evt_1", "evt_2"} {
			s.refundFails(t, o.PaymentID, event)
			s.settle(t)
		}
		s.refundFails(t, o.PaymentID, "evt_3")
		for range 2 {
			s.wantAlarms(t, 1)
			s.cancel(t, h, holds.ErrPending)
		}
		s.wantAlarms(t, 1)
	})
}

// A shop does not cancel an order that was paid at another provider.
func TestCancelAtAnotherProvider(t *testing.T) {
	each(t, 1, func(t *testing.T, s *shop) {
		h, _ := s.sold(t, h3)
		first := s.cfg.Payments
		s.cfg.Payments = newBank(t)
		there := s.another(t)
		if err := there.Cancel(t.Context(), h.ID, h.Token); !errors.Is(err, holds.ErrNoPayments) {
			t.Errorf("got %v, want %v", err, holds.ErrNoPayments)
		}
		s.cfg.Payments = first
		s.want(t, 0, 0, 1)
		s.books(t, 0)
	})
}

// A payment that was refunded in the dashboard while its hold is still open does not lead to an
// order, however often the buyer repeats it.
func TestRefundedPaymentBuysNothing(t *testing.T) {
	each(t, 1, func(t *testing.T, s *shop) {
		h := s.hold(t, h3, "a")
		s.interrupt(t, h, &s.bank.afterCapture)
		id := s.books(t, 1).Wrong[0].PaymentID
		_, err := s.bank.Client.Refund(t.Context(), id, "dashboard")
		must(t, err)
		for range 2 {
			if err := s.Refunded(t.Context(), id); !errors.Is(err, holds.ErrPending) {
				t.Errorf("the webhook: got %v, want %v", err, holds.ErrPending)
			}
			s.pay(t, h, holds.ErrRefunded)
			s.settle(t)
		}
		s.want(t, 0, 1, 0)
		s.release(t, h)
		must(t, s.Refunded(t.Context(), id))
		s.settleAll(t)
		s.want(t, 1, 0, 0)
	})
}

// A payment is refunded in the provider's dashboard before its order is written. The webhook is
// repeated until the order has been written and cancelled.
func TestRefundedBeforeTheOrderIsWritten(t *testing.T) {
	each(t, 1, func(t *testing.T, s *shop) {
		h := s.hold(t, h3, "a")
		s.bank.afterCapture = func() error {
			var id string
			if err := s.db.Table("oversell_hold_payments").Pluck("payment_id", &id).Error; err != nil {
				t.Error(err)
			}
			if _, err := s.bank.Client.Refund(t.Context(), id, "dashboard"); err != nil {
				t.Error(err)
			}
			if err := s.Refunded(t.Context(), id); !errors.Is(err, holds.ErrPending) {
				t.Errorf("the webhook: got %v, want %v", err, holds.ErrPending)
			}
			return nil
		}
		o := s.pay(t, h, nil)
		if err := s.Refunded(t.Context(), o.PaymentID); err != nil {
			t.Error(err)
		}
		s.want(t, 1, 0, 0)
		s.books(t, 0)
	})
}
