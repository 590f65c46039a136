package holds

import (
	"context"
	"errors"
	"fmt"

	"oversell/internal/payment"
)

// Cancel ends the order that a hold has become: its units can be held again, and the buyer gets the money back, once.
// It may be repeated. It returns ErrToken, ErrUnknownOrder if the hold has no order, or ErrPending if the order has
// ended and the refund is not final: the settlement tries it again.
func (s *Service) Cancel(ctx context.Context, id string, token int64) error {
	if s.cfg.Payments == nil {
		return ErrNoPayments
	}
	ctx, cancel := untilDone(ctx)
	defer cancel()
	h, stage, err := s.lookUpHold(ctx, id)
	switch {
	case errors.Is(err, ErrUnknownHold) || err == nil && h.Status != Paid && h.Status != Cancelled:
		return fmt.Errorf("%w: %s", ErrUnknownOrder, id)
	case err == nil && h.Token != token:
		err = ErrToken
	}
	if err == nil {
		err = s.cancelOrder(ctx, stage, h)
	}
	if err != nil {
		return fmt.Errorf("cancelling order %s: %w", id, err)
	}
	return nil
}

// cancelOrder records that the payment has to be settled before it ends the order: so a process that dies in between
// leaves no order without its money, and no refund undone. The settlement finds that the payment has no order, and
// refunds it, or that the order is still there.
func (s *Service) cancelOrder(ctx context.Context, stage Stage, h Hold) error {
	b := s.recordFor(h, h.PaymentID)
	if _, err := s.insertBegun(ctx, b); err != nil {
		return err
	}
	if h.Status == Paid {
		if err := stage.Cancel(ctx, h.ID, h.Token); err != nil && !errors.Is(err, NotHeldError{Cancelled}) {
			return err
		}
	}
	if err := s.refund(ctx, h.ID, h.PaymentID); err != nil {
		return fmt.Errorf("%w: %w", ErrPending, err)
	}
	s.settled(ctx, b, h.PaymentID)
	return nil
}

// recordFor is a row for a payment whose key is not known. The amount is not what the hold costs: see asked.
func (s *Service) recordFor(h Hold, paymentID string) begunRow {
	return begunRow{
		HoldID: h.ID, Key: ownKey(paymentID), SKU: h.SKU, SaleID: h.SaleID, Token: h.Token, Currency: s.cfg.Currency,
		PaymentID: paymentID, Ledger: s.cfg.Ledger,
	}
}

// Refunded ends the order of a payment that was refunded, such as in the provider's own dashboard. It is for the
// webhook payment.refunded, whose signature the caller has checked, and may be called any number of times. The errors
// are those of Captured.
func (s *Service) Refunded(ctx context.Context, paymentID string) error {
	if s.cfg.Payments == nil {
		return ErrNoPayments
	}
	ctx, cancel := untilDone(ctx)
	defer cancel()
	p, h, stage, err := s.paid(ctx, paymentID)
	switch {
	case err != nil:
		return err
	case p.Status != payment.Refunded:
		return fmt.Errorf("payment %s: %w: it is %s", paymentID, ErrNotCaptured, p.Status)
	case h.Status != Paid || h.PaymentID != p.ID: // the shop has refunded it
		return nil
	}
	if err := stage.Cancel(ctx, h.ID, h.Token); err != nil && !errors.Is(err, ErrNotHeld) {
		return fmt.Errorf("ending the order of payment %s: %w", paymentID, err)
	}
	return nil
}

// OpenRefunds counts the payments for holds of an item of which a refund has failed, until another one is final.
func (s *Service) OpenRefunds(ctx context.Context, sku string) (int64, error) {
	return s.countAlarms(ctx, "refunds_failed > 0 AND due_at < ? AND sku = ?", int64(neverDue), sku)
}
