package bench

import (
	"context"
	"errors"
	"fmt"

	"oversell/internal/figures"
)

// eachOrder calls f with each order of an item's sale. More than most are an error.
func (r *run) eachOrder(ctx context.Context, item int, saleID string, most int64, f func(figures.Written)) error {
	var n int64
	for after := ""; ; {
		page, err := r.admin.at(r.survivor()).Orders(ctx, r.skus[item], after)
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
