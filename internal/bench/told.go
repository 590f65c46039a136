package bench

import (
	"context"
	"errors"
	"fmt"

	"oversell/internal/catalog"
	"oversell/internal/figures"
	"oversell/internal/stock"
)

// told compares what the buyers of a row were told with the orders of its sale. The cache
// has nothing to compare.
func (r *run) told(ctx context.Context, o outcome) (figures.Told, error) {
	if r.cfg.Workload != catalog.Deduct {
		return figures.Told{}, nil
	}
	var c figures.Comparison
	for _, a := range o.answers {
		c.Answer(figures.Answer{Order: a.order, Quantity: a.quantity, Asked: askedFor, Key: r.keyHash(a.request), Accepted: a.accepted})
	}
	for _, request := range o.cutOff {
		c.CutOff(r.keyHash(request))
	}
	// Some may have been written since the audit: at most one for each request.
	most := o.audit.Orders + o.sent
	if err := r.eachOrder(ctx, o.audit.SaleID, most, c.Order); err != nil {
		return figures.Told{}, fmt.Errorf("comparing the orders with what buyers were told: %w", err)
	}
	told := c.Told()
	if o.unkept > 0 {
		told.Unreported = 0 // unknown
	}
	return told, nil
}

// keyHash is a request's idempotency key in the form of the listed orders.
func (r *run) keyHash(request int) string { return stock.KeyHash(r.cfg.key(request)) }

// eachOrder calls f with each order of the row's sale. More than most are an error.
func (r *run) eachOrder(ctx context.Context, saleID string, most int64, f func(figures.Written)) error {
	var n int64
	for after := ""; ; {
		page, err := r.admin.orders(ctx, r.survivor(), r.sku, after)
		n += int64(len(page.Orders))
		switch {
		case err != nil:
			return err
		case page.SaleID != saleID:
			return errors.New("another sale of the item has begun")
		case n > most:
			return fmt.Errorf("the shop lists at least %d orders, and there can be at most %d", n, most)
		}
		for _, o := range page.Orders {
			f(figures.Written{Order: o.ID, Quantity: o.Quantity, Key: o.KeyHash})
		}
		if page.Next == "" {
			return nil
		}
		if len(page.Orders) == 0 {
			return errors.New("the shop lists an empty page that is not the last")
		}
		after = page.Next
	}
}
