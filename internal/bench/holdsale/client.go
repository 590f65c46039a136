package holdsale

import (
	"context"
	"math"
	"time"

	"oversell/internal/bench/client"
	"oversell/internal/stock"
)

// requestTimeout bounds one request.
const requestTimeout = 12 * time.Second

// newClient returns a client that sends each request to the next shop, and again if no answer
// comes.
func newClient(f *shops) client.Shops {
	return client.Shops{
		Client: client.New(f.token, requestTimeout), Base: f.url,
		Patience: client.Patience{First: 20 * time.Millisecond, Last: 500 * time.Millisecond, For: 40 * time.Second, Silent: true},
	}
}

// orders reads all orders of the row's item.
func (r *row) orders(ctx context.Context) (all []stock.ListedOrder, err error) {
	found, err := r.client.Audit(ctx, r.sku)
	if err != nil {
		return nil, err
	}
	err = r.client.EachOrder(ctx, r.sku, found.SaleID, math.MaxInt64, func(o stock.ListedOrder) { all = append(all, o) })
	return all, err
}
