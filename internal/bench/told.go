package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"oversell/internal/figures"
	"oversell/internal/locks"
	"oversell/internal/stock"
)

// told compares what the buyers of a row were told with the orders of its sale, by
// their ids. Of the cache there is nothing to compare.
func (r *run) told(ctx context.Context, o outcome) (figures.Told, error) {
	if r.cfg.Workload != locks.Deduct {
		return figures.Told{}, nil
	}
	var c figures.Comparison
	for _, a := range o.answers {
		c.Answer(figures.Answer{Order: a.order, Quantity: a.quantity, Asked: askedFor, Key: r.keyHash(a.request)})
	}
	for _, request := range o.cutOff {
		c.CutOff(r.keyHash(request))
	}
	// Some may have been written since the audit, at most one for each request.
	most := o.audit.Orders + o.sent
	if err := r.eachOrder(ctx, o.audit.SaleID, most, c.Order); err != nil {
		return figures.Told{}, fmt.Errorf("comparing the orders with what buyers were told: %w", err)
	}
	told := c.Told()
	if o.unkept > 0 {
		told.Unreported = 0 // who was told of them is not known
	}
	return told, nil
}

// keyHash is the idempotency key of a request as orders are listed with it.
func (r *run) keyHash(request int) string { return stock.KeyHash(r.cfg.key(request)) }

// eachOrder calls f with each order of the row's sale, of which there are at most so
// many.
func (r *run) eachOrder(ctx context.Context, saleID string, most int64, f func(figures.Written)) error {
	var n int64
	for after := ""; ; {
		page, err := r.admin.orders(ctx, r.survivor(), r.sku, after)
		n += int64(len(page.Orders))
		switch {
		case err != nil:
			return err
		case page.SaleID != saleID:
			return errors.New("another sale of the item has begun meanwhile")
		case n > most:
			return fmt.Errorf("the shop lists %d orders and more, and its audit counts %d at most", n, most)
		}
		for _, o := range page.Orders {
			f(figures.Written{Order: o.ID, Quantity: o.Quantity, Key: o.KeyHash})
		}
		if page.Next == "" {
			return nil
		}
		if len(page.Orders) == 0 {
			return errors.New("the shop lists a page without orders, and says that there are more")
		}
		after = page.Next
	}
}

// untrue says what buyers were told that is not so; "": nothing.
func (r Row) untrue() string {
	var wrong []string
	for _, w := range []struct {
		n    int64
		what string
	}{
		{r.AcknowledgedMissing, "told of an order that is not in the database as told: "},
		{r.Unreported, "orders that no buyer was told of: "},
		{r.Duplicates, "orders beyond the first for one idempotency key: "},
	} {
		if w.n > 0 {
			wrong = append(wrong, fmt.Sprint(w.what, w.n))
		}
	}
	return strings.Join(wrong, ", ")
}
