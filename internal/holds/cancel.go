package holds

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"oversell/internal/payment"
)

// Cancel cancels the order that a hold has become: its units can be held again, and the buyer gets
// the money back, once. It may be repeated. It returns ErrToken, ErrUnknownOrder if the hold has no
// order, or ErrPending if the order is cancelled but the refund is not final. Then the settlement
// tries the refund again.
func (s *Service) Cancel(ctx context.Context, id string, token int64) error {
	if err := s.cancelOrder(ctx, id, token); err != nil {
		return fmt.Errorf("cancelling order %s: %w", id, err)
	}
	return nil
}

func (s *Service) cancelOrder(ctx context.Context, id string, token int64) error {
	if s.cfg.Payments == nil {
		return ErrNoPayments
	}
	ctx, cancel := untilDone(ctx)
	defer cancel()
	h, stage, err := s.lookUpHold(ctx, id)
	switch {
	case errors.Is(err, ErrUnknownHold) || err == nil && h.Status != Paid && h.Status != Cancelled:
		return ErrUnknownOrder
	case err != nil:
		return err
	case h.Token != token:
		return ErrToken
	}
	p, err := s.cfg.Payments.Payment(ctx, h.PaymentID)
	if errors.Is(err, payment.ErrUnknownPayment) {
		return fmt.Errorf("%w that could refund it: it was paid at another provider", ErrNoPayments)
	}
	b := s.recordFor(h, h.PaymentID, cmp.Or(p.Currency, s.cfg.Currency)) // the provider may not answer
	b.Amount = p.Amount
	if err := s.beginCancel(ctx, b, h.Status == Cancelled); err != nil {
		return err
	}
	return s.finishCancel(ctx, stage, h, b)
}

// beginCancel records that the order of a payment is being cancelled, before the order is removed.
// If the process dies in between, the settlement finishes the cancellation, so the buyer does not
// lose both order and money.
func (s *Service) beginCancel(ctx context.Context, b begunRow, again bool) error {
	forget := ", refunds_failed = 0, alarm = ''" // refunds that failed before were not made by this cancellation
	if again {
		forget = ""
	}
	for range authorisedTries {
		if _, err := s.insertBegun(ctx, b); err != nil {
			return err
		}
		_, err := s.exec(ctx, "UPDATE oversell_hold_payments SET cancelling = 1, due_at = "+s.sql.Clock+" + ?"+forget+
			" WHERE hold_id = ? AND idempotency_key = ? AND cancelling = 0",
			s.cfg.Settle.Milliseconds(), b.HoldID, b.Key)
		if err != nil {
			return err
		}
		rows, err := s.count(ctx, "hold_id = ? AND idempotency_key = ? AND cancelling = 1", b.HoldID, b.Key)
		if err != nil || rows > 0 {
			return err
		} // it has just been settled
	}
	return fmt.Errorf("%w: its record keeps changing", ErrPending)
}

// finishCancel removes the order of a hold, if it still exists, and refunds its payment.
func (s *Service) finishCancel(ctx context.Context, stage Stage, h Hold, b begunRow) error {
	if h.Status == Paid {
		if err := stage.Cancel(ctx, h.ID, h.Token); err != nil && !errors.Is(err, NotHeldError{Cancelled}) {
			return err
		}
	}
	if err := s.refund(ctx, h.ID, b.PaymentID); err != nil {
		return fmt.Errorf("%w: %w", ErrPending, err)
	}
	_, err := s.exec(ctx, "UPDATE oversell_hold_payments SET cancelling = 0 WHERE hold_id = ? AND idempotency_key = ?",
		b.HoldID, b.Key)
	if err != nil {
		s.log.Warn("an order is cancelled, and will be checked once more", "hold", b.HoldID, "error", err)
		return nil
	}
	s.settled(ctx, b, b.PaymentID)
	return nil
}

// recordFor returns a row for a payment whose key is unknown. It leaves out the amount, so that
// asked does not report that the shop has asked for the payment.
func (s *Service) recordFor(h Hold, paymentID, currency string) begunRow {
	return begunRow{
		HoldID: h.ID, Key: ownKey(paymentID), SKU: h.SKU, SaleID: h.SaleID, Token: h.Token, Currency: currency,
		PaymentID: paymentID, Ledger: s.cfg.Ledger,
	}
}

// Refunded cancels the order of a payment that was refunded outside the shop, for example in the
// provider's dashboard. It handles the webhook payment.refunded, whose signature the caller has
// checked, and may be called any number of times. The errors are those of Captured.
func (s *Service) Refunded(ctx context.Context, paymentID string) error {
	ctx, cancel := untilDone(ctx)
	defer cancel()
	p, h, stage, err := s.paid(ctx, paymentID)
	switch {
	case err != nil:
		return err
	case p.Status != payment.Refunded:
		return fmt.Errorf("payment %s: %w: it is %s", paymentID, ErrNotCaptured, p.Status)
	case h.Status == Held:
		_, paying, err := s.recordOf(ctx, h.ID, p.ID)
		if err == nil && paying { // a shop captured it, and may be about to write the order
			err = fmt.Errorf("payment %s: %w: its hold has not ended", paymentID, ErrPending)
		}
		return err
	case h.Status != Paid || h.PaymentID != p.ID: // the shop has refunded it
		return nil
	}
	if err := stage.Cancel(ctx, h.ID, h.Token); err != nil && !errors.Is(err, ErrNotHeld) {
		return fmt.Errorf("ending the order of payment %s: %w", paymentID, err)
	}
	return nil
}
