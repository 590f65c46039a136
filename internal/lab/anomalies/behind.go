//go:build !js

package anomalies

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"gorm.io/gorm"

	"oversell/internal/lab"
	"oversell/internal/stock"
	"oversell/internal/stock/naive"
	"oversell/internal/stock/stream"
)

// naively maps each subject of package naive to the mistakes of its consumer.
var naively = map[string]naive.Consumer{
	overwrite: {}, ackFirst: {AckFirst: true}, noClaim: {NoClaim: true}, newID: {NewID: true}, sqlSnapshot: {},
}

func streams(c lab.Subject) bool {
	return c.Name == luaStream || c.Name == ackFirst || c.Name == noClaim || c.Name == newID
}

// seller is the interface through which a process takes part in a sale.
type seller interface {
	// buy takes one unit, and returns when the order is written or accepted.
	buy(ctx context.Context, owner string) error
	// repair corrects the stock while the sale goes on.
	repair(ctx context.Context) error
	// form opens an admin's form that shows the number of units left. Save uses the form to add one
	// unit.
	form(ctx context.Context) (save func() error, err error)
	// consume writes accepted orders until ctx ends.
	consume(ctx context.Context, name string)
}

// behind is a sale of one item by a subject of Behind, or by a subject that sells from a pool.
type behind struct {
	*onSale
	audit seller // sells the remaining units at the end, without faults

	mu       sync.Mutex
	accepted []string // ids of the accepted orders

	stops  []func()        // stop the consumers
	denied map[string]bool // accepted orders whose buyers were told "not accepted"
}

func openBehind(w *lab.World, units int64) *behind {
	item := stock.Item{Initial: units, Family: w.Subject.Name}
	if isPool(w.Subject) {
		item.Keeper = stock.InDatabase
	}
	b := &behind{onSale: put(w, item, nil)}
	b.audit = b.seller(w.Side, b.db)
	if n, ok := b.audit.(naiveSeller); ok {
		b.atEnd(func(ctx context.Context) { _ = w.Side.Del(ctx, n.Keys()...).Err() })
		open := n.Open
		if isPool(w.Subject) {
			open = n.OpenPool
		}
		err := open(w.Context())
		lab.Need(err == nil, "the item could not be put on sale: %v", err)
		for _, key := range n.Keys() {
			w.NameKey(key, key[len("oversell:{}:naive:")+len(w.SKU):])
		}
	}
	prefix := "oversell:{" + w.SKU + "}:"
	w.NameKey(prefix+"sale", "sale")
	w.NameKey(prefix+"stream", "stream")
	w.NameKey(b.item.Generation, "generation-1")
	return b
}

// claimAfter returns the time after which another consumer may claim an order that a consumer has
// not finished.
func (b *behind) claimAfter() time.Duration { return b.w.TTL / 8 }

// seller makes a process's seller.
func (b *behind) seller(rdb redis.UniversalClient, db *gorm.DB) seller {
	name := b.w.Subject.Name
	if c, ok := naively[name]; ok {
		c.Sale = naive.Sale{Redis: rdb, DB: db, Item: b.item, Strategy: name}
		c.ClaimAfter = b.claimAfter()
		return naiveSeller{c}
	}
	cfg := stock.Config{DB: db, Mixed: true} // the only strategy need not wait for other strategies
	b.sell(&cfg, rdb, name)
	return realSeller{b.serve(cfg), b}
}

// realSeller sells with package stock.
type realSeller struct {
	*stock.Service
	b *behind
}

func (r realSeller) buy(ctx context.Context, owner string) error {
	done, err := r.Deduct(ctx, stock.Request{SKU: r.b.item.SKU, Quantity: 1, Strategy: r.b.w.Subject.Name,
		Owner: owner})
	if err == nil && done.State == stock.StateAccepted {
		r.b.mu.Lock()
		defer r.b.mu.Unlock()
		r.b.accepted = append(r.b.accepted, done.Order.ID)
	}
	return err
}

// repair does what the reconciler does, but does not wait to see whether the missing units are in
// flight.
func (r realSeller) repair(ctx context.Context) error {
	b, err := r.Balance(ctx, r.b.item.SKU, stock.Balance{})
	if err == nil {
		_, err = r.Recount(ctx, b)
	}
	return err
}

// form reads the number of units. Save writes only the difference.
func (r realSeller) form(ctx context.Context) (save func() error, err error) {
	_, _, err = r.Left(ctx, r.b.item.SKU)
	return func() error {
		_, err := r.Restock(ctx, r.b.item.SKU, "", 1)
		return err
	}, err
}

// pollEvery is the interval at which a consumer looks for orders that other processes have
// accepted. No other timer has this period or a multiple of it, because two timers that fire at
// once would make the trace differ from run to run.
const pollEvery = 233 * time.Millisecond

func (r realSeller) consume(ctx context.Context, _ string) {
	ours := func(sku string) bool { return sku == r.b.item.SKU } // cells on one database server share a database
	r.Consume(ctx, stream.Consumer{ClaimAfter: r.b.claimAfter(), Poll: pollEvery, Only: ours})
}

// naiveSeller sells with package naive.
type naiveSeller struct{ naive.Consumer }

func (n naiveSeller) buy(ctx context.Context, _ string) error {
	switch n.Strategy {
	case overwrite:
		return n.Buy(ctx)
	case sqlSnapshot:
		return n.Claim(ctx)
	}
	return n.Accept(ctx)
}

func (n naiveSeller) repair(ctx context.Context) error { return n.Overwrite(ctx) }

func (n naiveSeller) form(ctx context.Context) (save func() error, err error) {
	left, err := n.Left(ctx)
	return func() error { return n.Save(ctx, left+1) }, err
}

func (n naiveSeller) consume(ctx context.Context, name string) {
	if n.Name = name; n.Strategy != sqlSnapshot {
		n.Run(ctx)
	}
}

func soldOut(err error) bool {
	return errors.Is(err, stock.ErrSoldOut) || errors.Is(err, naive.ErrSoldOut)
}

// writer is a process that sells, repairs or writes orders.
type writer struct {
	actor
	b *behind
	seller
}

// tick is the time between two steps. It keeps their timers from firing at the same time.
const tick = 7 * time.Millisecond

func (b *behind) start(name string) *writer {
	p := actor{b.w.Start(name), b.w}
	return &writer{p, b, b.seller(p.Redis(), p.Database())}
}

func (p *writer) buys() error {
	p.w.Sleep(tick)
	err := p.buy(p.w.Context(), p.Name)
	if streams(p.w.Subject) {
		p.say(hasOrder, err, "is told that its order is accepted")
	} else {
		p.say(hasOrder, err, "has an order")
	}
	return err
}

func (p *writer) repairs() {
	p.w.Sleep(tick)
	p.w.Note(p.Name, "repairs the stock")
	p.say(wasTold, p.repair(p.w.Context()), "has repaired the stock")
}

// writes writes accepted orders in the background until the process dies or the scenario reaches
// its verdict.
func (p *writer) writes() (done <-chan struct{}) {
	p.w.Sleep(tick)
	ctx, stop := context.WithCancel(p.Life())
	done = p.w.Go(func() { p.consume(ctx, p.Name) })
	p.b.stops = append(p.b.stops, func() {
		stop()
		p.w.Must(done, "the end of %s", p.Name)
	})
	return done
}

// tryBehind is like try, but for a subject of Behind.
func tryBehind(
	anomaly string, whyNot func(lab.Subject) string, units int64, run func(b *behind), requires ...lab.Claim,
) lab.Scenario {
	return lab.Try(anomaly, whyNot, func(w *lab.World) lab.Verdict {
		b := openBehind(w, units)
		run(b)
		return b.verdict()
	}, requires...)
}

// verdict waits until all orders are written, sells the remaining units, and checks that every unit
// is sold once.
func (b *behind) verdict() lab.Verdict {
	b.w.Sleep(tick) // lets commands arrive that have just been released
	for _, stop := range b.stops {
		stop()
	}
	b.stops = nil
	rest := b.sellRest()
	if _, broken := b.counted(rest); broken.Outcome != "" {
		return broken
	}
	for _, id := range b.accepted {
		written := b.written(id)
		switch {
		case written && b.denied[id]:
			return b.w.Broke("", "an order is written, but its buyer was told that it was not accepted")
		case !written && !b.denied[id]:
			return b.w.Broke("", "an order that was accepted is not written")
		}
	}
	if len(b.denied) > 0 {
		return lab.Holds.Because("%d of %d units were sold, and the buyer of an accepted order is told that it was "+
			"not",
			b.units, b.units)
	}
	return lab.Holds.Because("%d of %d units were sold, each once", b.units, b.units)
}

// sellRest sells until nothing is left, waits until the orders are written, and returns the number
// of units that it sold.
func (b *behind) sellRest() (rest int64) {
	ctx, stop := context.WithCancel(b.w.Context())
	done := b.w.Go(func() { b.audit.consume(ctx, "Z") })
	defer func() {
		stop()
		b.w.Must(done, "the end of the last consumer")
	}()
	b.w.Sleep(3 * b.claimAfter())
	for range mostBuyers {
		err := b.audit.buy(b.w.Context(), "Z")
		if soldOut(err) {
			b.w.Sleep(3 * b.claimAfter())
			return rest
		}
		lab.Need(err == nil, "the rest could not be sold: %v", err)
		rest++
	}
	lab.Need(false, "it is never sold out")
	return 0
}

// ask lets the buyers of accepted orders ask for the state of their orders, after Redis has lost
// some of them.
func (b *behind) ask() {
	b.denied = make(map[string]bool)
	for _, id := range b.accepted {
		if !b.written(id) {
			b.denied[id] = true
			b.w.Note("", "the buyer of an accepted order asks, and is told that it was not")
		}
	}
}

// written reports whether an accepted order is in the database. An order that is not must be
// unknown or have the state "not accepted".
func (b *behind) written(id string) bool {
	service, ok := b.audit.(realSeller)
	lab.Need(ok, "nobody can tell what became of an order")
	order, err := service.OrderState(b.w.Context(), b.item.SKU, id)
	if errors.Is(err, stock.ErrUnknownOrder) || err == nil && order.State == stock.StateNotAccepted {
		return false
	}
	lab.Need(err == nil && order.State == stock.StateWritten, "the state of an order is %q: %v", order.State, err)
	return true
}
