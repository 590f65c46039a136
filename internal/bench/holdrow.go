package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"oversell/internal/bench/report"
	"oversell/internal/catalog"
	"oversell/internal/figures"
	"oversell/internal/fleet"
	"oversell/internal/guard"
	"oversell/internal/payment"
	"oversell/internal/stock"
	"oversell/internal/web"
)

// holdRow is one row of the hold workload in progress.
type holdRow struct {
	*run     // its stalls are also those of the shops before the sell-out
	stage    catalog.HoldStage
	provider *provider
	client   client

	arrival time.Duration // time over which buyers arrive
	think   time.Duration // longest time between a hold and its payment
	base    int64         // number of entries in the provider's ledger before the row
	waiting atomic.Int64  // buyers without an outcome
}

// observed holds the observations of a row.
type observed struct {
	bought   []purchase // of the load
	rest     []purchase // of the final sell-out
	wall     time.Duration
	sellable *float64
	agrees   *float64
	faults   []string
	noFault  error // why a fault was not injected
	stock    figures.Stock
	orders   []stock.ListedOrder
	books    payment.Books
}

// do runs the row: it puts the item on sale, lets the buyers come, adds units, injects the faults,
// waits until the sale has settled, sells the remaining units, and audits the sale.
func (r *holdRow) do(ctx context.Context) (_ report.Row, err error) {
	r.progress.Waiting(Outcomes, r.waiting.Load)
	if err := r.prepare(ctx); err != nil {
		return report.Row{}, err
	}
	after, err := beforeFailover(ctx, r.cfg.Failovers, r.cond)
	if err != nil {
		return report.Row{}, err
	}
	defer func() { err = errors.Join(err, after()) }()
	var o observed
	injecting, stop := context.WithCancel(ctx)
	defer stop()
	var injected sync.WaitGroup
	injected.Go(func() { o.faults, o.noFault = r.inject(injecting) })
	loading, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	var restocked sync.WaitGroup
	restocked.Go(func() {
		if err := r.restock(loading); err != nil {
			abort(err)
		}
	})
	o.bought, o.wall = r.load(loading)
	ended := time.Now()
	restocked.Wait()
	if err = context.Cause(loading); err == nil { // webhooks that are already late stay late
		err = r.provider.SetFaults(ctx, r.cfg.provided(catalog.Calm))
	}
	if err == nil {
		o.sellable, o.agrees, err = r.settle(ctx, ended, o.bought)
	}
	stop()
	injected.Wait()
	if err != nil {
		return report.Row{}, err
	}
	disarming, armed := context.WithCancel(ctx)
	injected.Go(func() { r.disarm(disarming) })
	defer injected.Wait()
	defer armed()
	r.stalls.Add(r.shops.Stalled()) // Fill forgets them
	if err := r.shops.Fill(ctx, r.cfg.Instances); err != nil {
		return report.Row{}, err
	}
	o.rest = r.sellOut(ctx)
	if _, _, err := r.settle(ctx, time.Now(), o.rest); err != nil {
		return report.Row{}, err
	}
	if err := r.audit(ctx, &o); err != nil {
		return report.Row{}, err
	}
	r.missed = o.noFault != nil
	return r.judge(o), nil
}

// prepare puts the item on sale and sets the provider's faults.
func (r *holdRow) prepare(ctx context.Context) error {
	r.arrival, r.think = 2*r.cfg.TTL, r.cfg.TTL/5
	switch r.cond {
	case catalog.Late, catalog.Crash:
		r.arrival = 3 * r.cfg.TTL // late faults begin halfway; several shops are killed
	case catalog.Partition:
		r.arrival = 7 * r.cfg.TTL // shops are cut off three times, before the item is sold out
	case catalog.Failover:
		r.arrival = max(3*r.cfg.TTL, failoverSpread)
	}
	if err := r.shops.Arm(ctx, fleet.Arm{}); err != nil {
		return err
	}
	ledger, err := r.provider.Ledger(ctx)
	if err != nil {
		return err
	}
	r.base = int64(len(ledger))
	if err := r.client.put(ctx, r.skus[0], r.cfg.Stock-restocks*r.added(), stock.InHolds, ""); err != nil {
		return err
	}
	return r.provider.SetFaults(ctx, r.cfg.provided(r.cond))
}

// load starts the buyers at evenly spaced times, and returns when each has an outcome.
func (r *holdRow) load(ctx context.Context) ([]purchase, time.Duration) {
	all := make([]purchase, r.cfg.Requests)
	r.waiting.Store(int64(len(all)))
	start := time.Now()
	var buyers sync.WaitGroup
	for i := range all {
		at := start.Add(r.arrival * time.Duration(i) / time.Duration(len(all)))
		buyers.Go(func() {
			defer r.waiting.Add(-1)
			all[i].fate, all[i].code = unlearned, "interrupted"
			if guard.Sleep(ctx, time.Until(at)) == nil {
				all[i] = r.buy(ctx, buyerName(r.skus[0], "b", i), roleOf(i, r.cond), r.cond != catalog.Crash)
			}
		})
	}
	buyers.Wait()
	return all, time.Since(start)
}

// restocks is the number of times that units are added while buyers arrive.
const restocks = 4

// added returns the number of units that each restock adds. All restocks together add half of the
// stock. The number is 0 for a stage in Redis: restocks add units to the item's row, and such a
// stage keeps its units elsewhere.
func (r *holdRow) added() int64 {
	if r.stage.InRedis {
		return 0
	}
	return r.cfg.Stock / (2 * restocks)
}

// restock adds units at times that are evenly spread over the load. If a request gets no answer,
// it is sent again with its key to the next shop.
func (r *holdRow) restock(ctx context.Context) error {
	add := r.added()
	if add == 0 {
		return nil
	}
	start := time.Now()
	for i := range restocks {
		at := start.Add(time.Duration(i+1) * r.arrival / (restocks + 1))
		if err := guard.Sleep(ctx, time.Until(at)); err != nil {
			return err
		}
		err := r.client.must(ctx, request{
			method: http.MethodPost, path: "/api/items/" + r.skus[0] + "/restock",
			key: fmt.Sprintf("%s-restock-%d", r.skus[0], i), body: map[string]any{"add": add},
		}, nil)
		if err != nil {
			return fmt.Errorf("adding %d units to %s: %w", add, r.skus[0], err)
		}
	}
	return nil
}

const (
	sellers = 8 // buyers at a time in the sell-out
	// sellOutTime limits the sell-out, in case units never stop returning to the stock.
	sellOutTime = time.Minute
)

// sellOut buys the remaining units until the item is sold out, because only a sold-out item shows
// whether it was oversold.
func (r *holdRow) sellOut(ctx context.Context) []purchase {
	ctx, cancel := context.WithTimeout(ctx, sellOutTime)
	defer cancel()
	var mu sync.Mutex
	var all []purchase
	var buyers sync.WaitGroup
	r.think = time.Millisecond
	for n := range sellers {
		buyers.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				p := r.buy(ctx, buyerName(r.skus[0], fmt.Sprintf("s%d-", n), i), pays, true)
				mu.Lock()
				all = append(all, p)
				mu.Unlock()
				if p.fate == soldOut || p.fate != gotOrder && guard.Sleep(ctx, holdLook) != nil {
					return
				}
			}
		})
	}
	buyers.Wait()
	return all
}

const (
	holdLook = 25 * time.Millisecond // between two audits
	// holdSettleTime is the longest time that a sale may take to settle, in addition to the lives
	// of holds and the delay of webhooks.
	holdSettleTime = 15 * time.Second
)

// settle waits until every hold has ended and all books agree, or until nothing changes any more.
// It returns the longest time from the expiry of a hold to the return of its units to the stock,
// and the time until all books agreed. Both are in seconds, and nil if they were not observed.
func (r *holdRow) settle(
	ctx context.Context, since time.Time, bought []purchase,
) (sellable, agrees *float64, err error) {
	expiries := expiring(bought, since)
	begun, err := r.client.audit(ctx, r.skus[0])
	if err != nil {
		return nil, nil, err
	}
	back := returns{expiries: expiries, base: begun.Stock.Remaining + max(0, -begun.Stock.LostUpdates())}
	last, unchanged := begun.Stock, time.Now()
	end := time.Now().Add(5*r.cfg.TTL + holdSettleTime)
	for time.Now().Before(end) {
		found, err := r.client.audit(ctx, r.skus[0])
		if err != nil {
			return nil, nil, err
		}
		back.see(found.Stock.Remaining, time.Now())
		if found.Stock != last {
			last, unchanged = found.Stock, time.Now()
		}
		if found.Stock.Held == 0 {
			quiet, agree, err := r.agree(ctx, found)
			switch {
			case err != nil:
				return nil, nil, err
			case agree:
				return back.longest, new(time.Since(since).Seconds()), nil
			case quiet && time.Since(unchanged) > r.cfg.TTL+8*sweep(r.cfg.TTL):
				return back.longest, nil, nil
			}
		}
		if guard.Sleep(ctx, holdLook) != nil {
			return nil, nil, context.Cause(ctx)
		}
	}
	return back.longest, nil, nil
}

// agree reports whether all webhooks have arrived, and if so, whether units, holds, orders and
// payments agree.
func (r *holdRow) agree(ctx context.Context, now web.Audit) (quiet, agree bool, err error) {
	d, err := r.provider.Deliveries(ctx)
	if err != nil || d.Waiting > 0 {
		return false, false, err
	}
	if now.Stock.LostUpdates() != 0 {
		return true, false, nil
	}
	books, _, err := r.books(ctx, now.SaleID)
	return true, err == nil && books.ChargedWithoutOrder == 0 && books.OrdersWithoutCharge == 0, err
}

// expiring returns the future expiry times of the holds that were neither paid nor released, the
// earliest first.
func expiring(bought []purchase, now time.Time) (at []time.Time) {
	for _, p := range bought {
		if p.hold.ID != "" && !p.freed && p.hold.ExpiresAt.After(now) {
			at = append(at, p.hold.ExpiresAt)
		}
	}
	slices.SortFunc(at, time.Time.Compare)
	return at
}

// returns measures the time from the expiry of a hold to the return of its unit to the stock.
type returns struct {
	expiries []time.Time
	base     int64    // units left once all holds that expired earlier have returned their units
	longest  *float64 // in seconds
}

// see records the number of units left.
func (b *returns) see(remaining int64, now time.Time) {
	for n := remaining - b.base; n > 0 && len(b.expiries) > 0; n-- {
		late := max(0, now.Sub(b.expiries[0]).Seconds())
		if b.longest == nil || late > *b.longest {
			b.longest = new(late)
		}
		b.expiries = b.expiries[1:]
		b.base++
	}
}

// audit reads the final stock, orders and books of the sale.
func (r *holdRow) audit(ctx context.Context, o *observed) error {
	found, err := r.client.audit(ctx, r.skus[0])
	if err != nil {
		return err
	}
	o.stock = found.Stock
	if o.books, o.orders, err = r.books(ctx, found.SaleID); err != nil {
		return err
	}
	return errors.Join(r.shops.Crashed(0), ctx.Err())
}

// books compares the provider's ledger of this row with the orders of its sale.
func (r *holdRow) books(ctx context.Context, saleID string) (_ payment.Books, orders []stock.ListedOrder, err error) {
	err = r.client.eachOrder(ctx, r.skus[0], saleID, math.MaxInt64,
		func(o stock.ListedOrder) { orders = append(orders, o) })
	if err != nil {
		return payment.Books{}, nil, err
	}
	ledger, err := r.provider.Ledger(ctx)
	if err != nil {
		return payment.Books{}, nil, err
	}
	// Orders contain a hash of their payment's id.
	names := make(map[string]string)
	ledger = slices.DeleteFunc(ledger, func(e payment.Entry) bool { return e.Number <= r.base })
	for _, e := range ledger {
		names[stock.KeyHash(e.PaymentID)] = e.PaymentID
	}
	count := make(map[string]int)
	for _, order := range orders {
		id := names[order.KeyHash]
		if id == "" {
			id = "unknown payment " + order.KeyHash
		}
		count[id]++
	}
	return payment.Audit(ledger, count), orders, nil
}
