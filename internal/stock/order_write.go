package stock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// newOrder returns an order for the buyer's units.
func (b *buyer) newOrder(created time.Time) Order {
	order := Order{
		ID: newOrderID(b.gen.saleID), SaleID: b.gen.saleID, SKU: b.req.SKU,
		Quantity: b.req.Quantity, Strategy: b.req.Strategy, CreatedAt: created,
		Buyer: &b.req.Buyer,
	}
	if b.req.IdempotencyKey != "" {
		order.IdempotencyKey = &b.req.IdempotencyKey
	}
	return order
}

// saleDigits is how many digits of its sale's id an order's id has.
const saleDigits = 6

// newOrderID returns an id that begins with the time and ends with the first digits of the sale's
// id. Ids without the time would each touch another page of the database's index. By the sale
// store.itemsOf finds the item.
func newOrderID(saleID string) string {
	id := uuid.Must(uuid.NewV7()).String()
	if len(saleID) < saleDigits {
		return id
	}
	return id[:len(id)-saleDigits] + saleID[:saleDigits]
}

// itemsOf returns the items that an order with the id may be of: by chance there are two. It
// costs one look at an index.
func (s store) itemsOf(ctx context.Context, id string) (skus []string, err error) {
	if _, err := uuid.Parse(id); err != nil {
		return nil, nil
	}
	ctx, cancel := limited(ctx)
	defer cancel()
	begin := id[len(id)-saleDigits:]
	err = s.db.WithContext(ctx).Model(&Sale{}).Where("id >= ? AND id < ?", begin, begin+"g").Distinct().Pluck("sku", &skus).Error
	if err != nil {
		return nil, fmt.Errorf("looking up the item of order %s: %w", id, err)
	}
	return skus, nil
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
		if backErr := s.stock.putBack(ctx, b.req.SKU, b.gen, b.req.Quantity); backErr != nil {
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
