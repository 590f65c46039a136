package stock

import (
	"context"
	"fmt"
	"slices"

	"oversell/internal/stock/stream"
)

// DeadLetters lists the dead letters of an item, the oldest first. It returns ErrUnknownItem if
// there is no such item.
func (s *Service) DeadLetters(ctx context.Context, sku string) ([]stream.DeadLetter, error) {
	item, err := s.Item(ctx, sku)
	if err != nil {
		return nil, err
	}
	letters, err := s.streams.DeadLetters(ctx, sku)
	for i := range letters {
		l := &letters[i]
		l.KeyHash = KeyHash(l.Key)
		l.HasUnits = l.Kind == stream.Failed && l.Generation == item.Generation
	}
	return letters, err
}

// Retried counts what happened to the dead letters of an item in a retry.
type Retried struct {
	SKU      string `json:"sku"`
	Requeued int    `json:"requeued"` // dead letters that are in the stream again
	Written  int    `json:"written"`  // orders that were in the database already
	// Left counts those that stay dead letters, because too few units are left, the buyer's limit
	// is reached, or their sale is over.
	Left int `json:"left"`
	Over int `json:"over"` // of those left: orders of sales that are over
}

// RetryDead puts the dead letters of an item's current sale back into the stream. An order that
// still has its units is written with them. For any other order, units are taken from the current
// stock, as for a new request of its buyer. Orders of a sale that is over stay dead letters: nobody
// in the current sale has asked for them. It returns ErrUnknownItem if there is no such item,
// ErrOtherStrategy while the turn of another family lasts, and ErrBusy if the sale changes meanwhile.
func (s *Service) RetryDead(ctx context.Context, sku string) (Retried, error) {
	done := Retried{SKU: sku}
	item, err := s.Item(ctx, sku)
	if err != nil {
		return done, err
	}
	letters, err := s.streams.DeadLetters(ctx, sku)
	if err != nil {
		return done, err
	}
	current := func(letter stream.DeadLetter) bool { return letter.SaleID == item.SaleID }
	needsTurn := !s.cfg.Mixed && slices.ContainsFunc(letters, current)
	if needsTurn {
		if err := s.claim(ctx, sku, StreamFamily); err != nil {
			return done, fmt.Errorf("retrying the dead letters of %s: %w", sku, err)
		}
	}
	now, err := s.reconcile(ctx, sku)
	if err != nil {
		return done, err
	}
	if needsTurn && now.gen.family != StreamFamily { // its turn is over
		return done, fmt.Errorf("retrying the dead letters of %s: %w", sku, atWorkError{now.gen.family})
	}
	for _, letter := range letters {
		if err := s.retryDead(ctx, letter, now.gen, &done); err != nil {
			return done, err
		}
	}
	return done, nil
}

// retryDead puts one dead letter back into the stream, and counts the outcome in done.
func (s *Service) retryDead(ctx context.Context, letter stream.DeadLetter, g generation, done *Retried) error {
	written, err := s.store.written(ctx, letter.Entry.ID)
	if err != nil {
		return err
	}
	if written[letter.Entry.ID] {
		done.Written++
		return s.streams.RemoveDead(ctx, letter)
	}
	switch {
	case letter.Malformed != nil:
		done.Left++
		return nil
	case letter.SaleID != g.saleID:
		done.Left++
		done.Over++
		return nil
	}
	answer, err := s.streams.Requeue(ctx, letter, g.id, g.String(), g.limit)
	switch {
	case err != nil:
		return err
	case answer == 1:
		done.Requeued++
		s.accepted.addItem(letter.SKU)
	case answer == -1:
		s.reconciliation.doubt(letter.SKU, g) // so that a stock that Redis has lost is counted
		return fmt.Errorf("retrying the dead letters of %s: %w: the sale has changed", letter.SKU, ErrBusy)
	case answer < -1:
		done.Left++
	}
	return nil // after 0 another retry has taken the letter
}
