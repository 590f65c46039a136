package stock

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"oversell/internal/stock/stream"
)

// DeadLetters lists the dead letters of an item, the oldest first. It returns
// ErrUnknownItem.
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

// Retried says what became of the dead letters of an item.
type Retried struct {
	SKU      string `json:"sku"`
	Requeued int    `json:"requeued"` // they are in the stream again
	Written  int    `json:"written"`  // they were in the database already
	// they stay dead letters: their units are sold, the buyer's limit is reached, or their sale is over
	Left int `json:"left"`
	Over int `json:"over"` // of those left: orders of sales that are over
}

// RetryDead puts the dead letters of an item's current sale back into the stream. An order
// that still has its units is written with them. For any other order, units are taken from
// the current stock, as for a new request of its buyer. Orders of a sale that is over stay
// dead letters: nobody in the current sale has asked for them. It returns ErrUnknownItem, and
// ErrOtherStrategy while another family is at work on the item.
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
	if slices.ContainsFunc(letters, current) && !s.families.mixed {
		if err := s.claim(ctx, sku, StreamFamily); err != nil {
			return done, fmt.Errorf("retrying the dead letters of %s: %w", sku, err)
		}
	}
	now, err := s.reconcile(ctx, sku)
	if err != nil {
		return done, err
	}
	for _, letter := range letters {
		if err := s.retryDead(ctx, letter, now.gen, &done); err != nil {
			return done, err
		}
	}
	if done.Requeued > 0 {
		s.accepted.add(sku)
	}
	return done, nil
}

// retryDead puts one dead letter back, and counts what became of it.
func (s *Service) retryDead(ctx context.Context, letter stream.DeadLetter, g generation, done *Retried) error {
	written, err := s.store.written(ctx, letter.OrderID)
	if err != nil {
		return err
	}
	if written[letter.OrderID] {
		done.Written++
		return s.streams.RemoveDead(ctx, letter)
	}
	over := letter.Malformed == nil && letter.SaleID != g.saleID
	if letter.Malformed == nil && !over {
		answer, err := s.streams.Requeue(ctx, letter, g.id, g.String(), g.limit)
		if err != nil || answer == 1 {
			done.Requeued += answer
			return err
		}
	}
	if done.Left++; over {
		done.Over++
	}
	return nil
}

// The states of an order.
const (
	StateAccepted    = "accepted"     // it has its units, and is in the stream or a dead letter of the kind "failed"
	StateWritten     = "written"      // it is in the database
	StateNotAccepted = "not_accepted" // it was refused after it was accepted, and has no units
)

// ErrNotAccepted means that an order was refused after it was accepted.
var ErrNotAccepted = errors.New("the order is not accepted")

// ErrUnknownOrder means that no order has the id, and that none with it will be written.
var ErrUnknownOrder = errors.New("unknown order")

// OrderState is an order and what has become of it.
type OrderState struct {
	Order
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"` // why it is not accepted, or is a dead letter that waits for a retry
}

// Err returns ErrNotAccepted with the reason if the order is not accepted.
func (o OrderState) Err() error {
	if o.State != StateNotAccepted {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrNotAccepted, o.Reason)
}

// The reasons for the buyer of an order that the database did not take. The dead letter has the
// error, which is not for everybody.
const (
	reasonWaits = stream.ReasonFailed + ", and it waits for a retry of the dead letters"
	reasonEnded = stream.ReasonFailed + ", and the stock was counted again before a retry"
)

// OrderState returns the state of an order. If sku is "", the id says where to look, see
// newOrderID. It returns ErrUnknownOrder, and ErrInvalid for an id that no order can have.
func (s *Service) OrderState(ctx context.Context, sku, id string) (OrderState, error) {
	if !orderIDForm.MatchString(id) {
		return OrderState{}, fmt.Errorf("%w: that is not the id of an order", ErrInvalid)
	}
	if sku != "" {
		if err := CheckSKU(sku); err != nil {
			return OrderState{}, err
		}
	}
	if found, err := s.writtenState(ctx, id); err == nil || !errors.Is(err, ErrUnknownOrder) {
		return found, err
	}
	skus := []string{sku}
	if sku == "" {
		var err error
		if skus, err = s.store.itemsOf(ctx, id); err != nil {
			return OrderState{}, err
		}
	}
	for _, sku := range skus {
		found, ok, err := s.streams.Find(ctx, sku, id)
		if err != nil {
			return OrderState{}, err
		}
		if ok {
			return s.stateOf(ctx, found)
		}
	}
	if lost, ok, err := s.store.lostOrder(ctx, id); ok || err != nil {
		order := Order{ID: id, SKU: lost.SKU, SaleID: lost.SaleID, Strategy: StreamFamily}
		return OrderState{Order: order, State: StateNotAccepted, Reason: reasonLost}, err
	}
	// It may have been written, and removed from the stream, between the two.
	return s.writtenState(ctx, id)
}

// writtenState returns the state of an order in the database, or ErrUnknownOrder.
func (s *Service) writtenState(ctx context.Context, id string) (OrderState, error) {
	order, ok, err := s.store.order(ctx, id)
	if err == nil && !ok {
		err = fmt.Errorf("%w: %s: it was never accepted, or Redis lost it before it was written", ErrUnknownOrder, id)
	}
	return OrderState{Order: order, State: StateWritten}, err
}

// stateOf returns the state of an order that is in the stream or is a dead letter.
func (s *Service) stateOf(ctx context.Context, found stream.DeadLetter) (OrderState, error) {
	state := OrderState{Order: orderOf(found.Entry), State: StateAccepted, Reason: found.Reason}
	if found.Kind == "" {
		return state, nil
	}
	item, err := s.store.item(ctx, found.SKU)
	if err != nil && !errors.Is(err, ErrUnknownItem) {
		return OrderState{}, err
	}
	switch {
	case found.Kind != stream.Failed:
		state.State = StateNotAccepted
	case found.Generation != item.Generation:
		state.State, state.Reason = StateNotAccepted, reasonEnded
	default:
		state.Reason = reasonWaits
	}
	return state, nil
}

// order reads an order by its id.
func (s store) order(ctx context.Context, id string) (Order, bool, error) {
	ctx, cancel := limited(ctx)
	defer cancel()
	var found []Order
	if err := s.db.WithContext(ctx).Where("id = ?", id).Limit(1).Find(&found).Error; err != nil {
		return Order{}, false, fmt.Errorf("reading order %s: %w", id, err)
	}
	if len(found) == 0 {
		return Order{}, false, nil
	}
	return found[0], true, nil
}
