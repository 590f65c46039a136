package sales

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"gorm.io/gorm"

	"oversell/internal/lab"
	"oversell/internal/lab/wire"
	"oversell/internal/stock"
	"oversell/internal/stock/naive"
)

// The subjects of pools.
const (
	sqlSnapshot = "sql_snapshot"
	sqlUnits    = "sql_units"
)

// pools returns what sells from a pool of units, without holds. These subjects need MySQL or
// MariaDB, and are tried only if they are named.
func pools() []lab.Subject {
	return []lab.Subject{
		{Name: sqlSnapshot, About: "naive: the unit is read from a snapshot that is older than the lock", Database: openDatabase},
		{Name: sqlUnits, About: "one row for each unit, claimed by a locking read", Database: openDatabase},
	}
}

// aboutHolds says that a question is not about pools, on top of what a scenario itself says.
func aboutHolds(s lab.Scenario) func(lab.Subject) string {
	return func(c lab.Subject) string {
		switch {
		case isPool(c) && s.Name != snapshotBeforeLock:
			return "it sells without holds"
		case s.NotApplicable == nil:
			return ""
		}
		return s.NotApplicable(c)
	}
}

func isPool(c lab.Subject) bool { return c.Name == sqlSnapshot || c.Name == sqlUnits }

// pooled is one item whose units are sold by a subject of pools.
type pooled struct {
	*onSale
	audit func(context.Context, string) error // sells to the others in the end, past all faults
}

// openPool puts an item on sale.
func openPool(w *lab.World, units int64) *pooled {
	p := &pooled{onSale: put(w, stock.Item{Initial: units, Keeper: stock.InDatabase, Family: w.Subject.Name})}
	w.Cleanup(p.forget)
	w.NameKey(p.item.Generation, "generation-1")
	p.audit = p.seller(w.Side, p.db)
	if w.Subject.Name == sqlSnapshot {
		err := p.naive(p.db).OpenPool(w.Context())
		lab.Need(err == nil, "the item could not be put on sale: %v", err)
	}
	return p
}

func (p *pooled) naive(db *gorm.DB) naive.Sale {
	return naive.Sale{DB: db, Item: p.item, Strategy: p.w.Subject.Name}
}

// seller returns what sells one unit for a process.
func (p *pooled) seller(rdb redis.UniversalClient, db *gorm.DB) func(ctx context.Context, owner string) error {
	name := p.w.Subject.Name
	if name == sqlSnapshot {
		return func(ctx context.Context, _ string) error { return p.naive(db).Claim(ctx) }
	}
	service := stock.New(stock.Config{
		DB: db, Redis: rdb, Logger: slog.New(slog.DiscardHandler),
		Strategies: map[string]stock.Strategy{name: {Guard: stock.Units(db, stock.UnitsInPool), Keeper: stock.InDatabase}},
		Mixed:      true, // there is one strategy, which waits for no others
	})
	p.w.Cleanup(service.Close)
	return func(ctx context.Context, owner string) error {
		_, err := service.Deduct(ctx, stock.Request{SKU: p.item.SKU, Quantity: 1, Strategy: name, Owner: owner})
		return err
	}
}

// lastUnitOfPool has A begin to claim the last unit, and B get it before A has its lock.
func lastUnitOfPool(w *lab.World) lab.Verdict {
	p := openPool(w, 1)
	a, b := start(w, "A"), start(w, "B")
	buys := func(one actor) func() error {
		sell := p.seller(one.Redis(), one.Database())
		return func() error {
			err := sell(w.Context(), one.name)
			one.say(hasOrder, err, "has an order")
			return err
		}
	}
	stop := a.ParkSQL(func(cmd wire.Command) bool { return strings.Contains(cmd.Args[1], "FOR UPDATE") })
	done := a.begin(buys(a))
	a.mustPark(stop, done)
	_ = buys(b)()
	stop.Release()
	w.Must(done, "the end of A")
	return p.verdict()
}

// verdict lets everybody else buy what can still be bought, and counts.
func (p *pooled) verdict() lab.Verdict {
	rest := int64(0)
	for range mostBuyers {
		err := p.audit(p.w.Context(), "Z")
		if soldOut(err) {
			break
		}
		lab.Need(err == nil, "the rest could not be sold: %v", err)
		rest++
	}
	if _, broken := p.counted(rest); broken.Outcome != "" {
		return broken
	}
	return lab.Holds.Because("%d of %d units were sold, each once", p.units, p.units)
}

// forget removes what the cell has left on servers that outlive it.
func (p *pooled) forget() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	service := stock.New(stock.Config{DB: p.db, Redis: p.w.Side, Logger: slog.New(slog.DiscardHandler)})
	defer service.Close()
	_ = service.Delete(ctx, p.item.SKU)
}
