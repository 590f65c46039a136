package stock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// newOrder is the order for the buyer's units. Its id begins with the time: random ids
// would touch another page of the database's index each.
func (b *buyer) newOrder(created time.Time) Order {
	order := Order{
		ID: uuid.Must(uuid.NewV7()).String(), SaleID: b.gen.saleID, SKU: b.req.SKU,
		Quantity: b.req.Quantity, Strategy: b.req.Strategy, CreatedAt: created,
	}
	if b.req.IdempotencyKey != "" {
		order.IdempotencyKey = &b.req.IdempotencyKey
	}
	return order
}

// doubt records that units may be taken with no order, so that the stock is rebuilt.
func (b *buyer) doubt() { b.service.reconciliation.doubt(b.req.SKU, b.gen) }

// writeOrder writes the order for units that were taken.
func (b *buyer) writeOrder(ctx context.Context) error {
	order := b.newOrder(now())
	wrote := b.req.Steps.Begin(StepOrder)
	err := b.service.write(ctx, b.gen, b.changes, []*Order{&order})[0]
	wrote(err)
	return b.finishOrder(ctx, order, err)
}

// errRecounted means that an order was not written, and that its units are back in the
// stock, because that was rebuilt.
var errRecounted = errors.New("the order was not written")

// write writes orders of one generation of one item, all or none, and returns an error
// for each. If the database does not tell whether it wrote them, write ends the generation
// and looks them up. Only if that fails too does it return errUnsure: the units stay
// taken until the orders can be counted.
//
// Changes is reconciliation.changes from before the generation was read. If Redis was
// replaced since, the units may come from an older stock of the same generation, and the
// orders are not written.
func (s *Service) write(ctx context.Context, g generation, changes uint64, orders []*Order) []error {
	errs := make([]error, len(orders))
	var err error
	if s.reconciliation.changes() == changes {
		err = s.store.insert(ctx, g, orders...)
	} else {
		s.reconciliation.doubt(orders[0].SKU, g)
		err = fmt.Errorf("writing an order: Redis was replaced by another one: %w", errOtherSale)
	}
	if err == nil {
		return errs
	}
	var written map[string]bool
	if errors.Is(err, errUnsure) {
		ids := make([]string, len(orders))
		for i, o := range orders {
			ids[i] = o.ID
		}
		var lookErr error
		if written, lookErr = s.findWritten(ctx, orders[0].SKU, g, ids); lookErr == nil {
			err = fmt.Errorf("%w: %v", errRecounted, err)
		} else {
			err = errors.Join(err, lookErr)
		}
	}
	for i, o := range orders {
		if !written[o.ID] {
			errs[i] = err
		}
	}
	return errs
}

// finishOrder handles err, the result of writing an order. If the order was not written it
// puts the units back. If that is in doubt they stay taken: an unsold unit is better than
// a unit sold twice. If the generation has ended there is nothing to put back, because
// the next one was counted without them.
func (b *buyer) finishOrder(ctx context.Context, order Order, err error) error {
	s := b.service
	switch {
	case err == nil:
		b.res.Order = order
		return nil
	case errors.Is(err, errUnsure):
		b.doubt()
		s.log.Error("units may be taken with no order", "sku", b.req.SKU, "quantity", b.req.Quantity, "order", order.ID, "error", err)
		return err
	case errors.Is(err, errOtherSale), errors.Is(err, errRecounted):
	default:
		if backErr := b.putBack(ctx); backErr != nil {
			b.doubt()
			s.log.Error("units are taken with no order", "sku", b.req.SKU, "quantity", b.req.Quantity, "error", backErr)
			return errors.Join(err, errNotReturned, backErr)
		}
		b.res.Left += b.req.Quantity
	}
	if errors.Is(err, errDuplicate) {
		return b.answerFirst(ctx)
	}
	return err
}

// putBack puts the buyer's units back into the stock that they were taken from, without a
// script if its strategy sells without one.
func (b *buyer) putBack(ctx context.Context) error {
	seller := b.service.scripts[b.req.Strategy]
	if seller == nil || seller.putBack == nil {
		return b.service.stock.putBack(ctx, b.req.SKU, b.gen, b.req.Quantity)
	}
	err := seller.putBack(ctx, keys{b.req.SKU}.stock(b.gen), b.req.Quantity)
	if err != nil {
		return fmt.Errorf("putting back %d units of %s: %w", b.req.Quantity, b.req.SKU, err)
	}
	return nil
}

// errNotReturned means that units of an order that was not written are still taken.
var errNotReturned = errors.New("the units could not be put back")

// answerFirst answers with the order that won against this one.
func (b *buyer) answerFirst(ctx context.Context) error {
	found, err := b.replay(ctx)
	if err == nil && !found {
		err = fmt.Errorf("%w, but was not found", errDuplicate)
	}
	return err
}
