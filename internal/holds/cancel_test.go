package holds_test

import (
	"errors"
	"testing"

	"oversell/internal/catalog"
	"oversell/internal/holds"
	"oversell/internal/payment"
)

// sold sells the only unit of a stage's sale, and returns the hold.
func (s *shop) sold(t *testing.T, stage string) holds.Hold {
	t.Helper()
	h := s.hold(t, stage, "a")
	if _, err := s.Pay(t.Context(), h.ID, h.Token, "key"); err != nil {
		t.Fatal(err)
	}
	return h
}

// An order whose refund is not answered has ended all the same, and the settlement refunds it.
func TestCancelWhileTheProviderRefundsNothing(t *testing.T) {
	each(t, 1, func(t *testing.T, s *shop) {
		for _, stage := range catalog.HoldStages() {
			s.put(t, 1)
			h := s.sold(t, stage.Name)
			s.bank.refunds = payment.ErrUnavailable
			if err := s.Cancel(t.Context(), h.ID, h.Token); !errors.Is(err, holds.ErrPending) {
				t.Errorf("%s: got %v, want %v", stage.Name, err, holds.ErrPending)
			}
			s.want(t, 1, 0, 0)
			s.wantUnsettled(t, 1)
			s.bank.refunds = nil
			s.settle(t)
			s.wantUnsettled(t, 0)
			s.books(t, 0)
		}
	})
}

// A refund of a cancelled order that was accepted fails later. It shows until another one is final.
func TestRefundOfACancelledOrderFails(t *testing.T) {
	each(t, 1, func(t *testing.T, s *shop) {
		open := func(want int64) {
			t.Helper()
			if n, err := s.OpenRefunds(t.Context(), "hot"); err != nil || n != want {
				t.Errorf("%d refunds are open, %v; want %d", n, err, want)
			}
		}
		h := s.sold(t, h3)
		o, err := s.Order(t.Context(), h.ID)
		if err != nil {
			t.Fatal(err)
		}
		s.bank.accepts = payment.Refunded
		if err := s.Cancel(t.Context(), h.ID, h.Token); err != nil {
			t.Error(err)
		}
		open(0)
		s.refundFails(t, o.PaymentID, "evt_1")
		open(1)
		s.bank.accepts = ""
		s.settle(t)
		open(0)
		if b := s.books(t, 0); b.Refunded != 1 {
			t.Errorf("the books are %+v; want one refund", b)
		}
		if err := s.Cancel(t.Context(), h.ID, h.Token); err != nil {
			t.Errorf("asked again: %v", err)
		}
		s.want(t, 1, 0, 0)
	})
}
