//go:build !js

package anomalies

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/glebarez/go-sqlite"
	"github.com/redis/go-redis/v9"
	"gorm.io/driver/mysql"
	"gorm.io/gorm"

	"oversell/internal/catalog"
	"oversell/internal/holds"
	"oversell/internal/lab"
	"oversell/internal/payment"
	"oversell/internal/stock"
)

// onSale is an item on sale. It has its own database, or its own rows in a shared one.
type onSale struct {
	w     *lab.World
	units int64
	db    *gorm.DB       // without faults
	till  *stock.Service // without faults
	item  stock.Item
}

// put puts an item on sale. The history is the one that the item's sellers are made with, or nil if
// they have none: a seller that finds another history begins a new generation.
func put(w *lab.World, item stock.Item, history func(ctx context.Context, key string) (string, error)) *onSale {
	o := &onSale{w: w, units: item.Initial, db: w.SideDatabase(openDatabase)}
	err := migrate(w.Context(), o.db)
	lab.Need(err == nil, "the tables could not be created: %v", err)
	o.till = o.serve(stock.Config{DB: o.db, Redis: w.Side, History: history})
	o.atEnd(func(ctx context.Context) { _ = o.till.Delete(ctx, w.SKU) })
	item.SKU = w.SKU
	migrated.Lock() // in MySQL, concurrent puts of new items deadlock
	o.item, err = o.till.Put(w.Context(), item)
	migrated.Unlock()
	lab.Need(err == nil, "the item could not be put on sale: %v", err)
	w.NameKey(w.SKU, "item")
	w.NameKey(o.item.SaleID, "sale-1")
	return o
}

// atEnd calls f when the cell is over, to remove its data from servers that outlive it. Errors are
// not reported, because the outcome is known by then.
func (o *onSale) atEnd(f func(ctx context.Context)) {
	o.w.Cleanup(func() {
		migrated.Lock()
		defer migrated.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		f(ctx)
	})
}

// serve starts a service. It does not log, because it returns the same errors to its callers.
func (o *onSale) serve(cfg stock.Config) *stock.Service {
	cfg.Logger = slog.New(slog.DiscardHandler)
	s := stock.New(cfg)
	o.w.Cleanup(s.Close)
	return s
}

// sell sets Redis and the strategies of cfg. The strategies are configured as in the shop.
func (o *onSale) sell(cfg *stock.Config, rdb redis.UniversalClient, names ...string) {
	cfg.Redis = rdb
	named := slices.DeleteFunc(catalog.Strategies(), func(s catalog.Strategy) bool {
		return !slices.Contains(names, s.Name)
	})
	named.Sell(cfg, catalog.Options{Redis: rdb, TTL: o.w.TTL})
}

type sale struct {
	*onSale
	audit  *shop // sells the remaining units at the end, without faults
	client *payment.Client

	mu       sync.Mutex
	payments []string // ids, in the order in which they were authorised
	asked    int      // the number of requested holds
	keys     []string // of h1_counter, in Redis
}

func open(w *lab.World, units int64) *sale {
	s := &sale{onSale: put(w, stock.Item{Initial: units, Keeper: stock.InHolds}, nil), client: newProvider()}
	s.atEnd(s.forget)
	item := "oversell:h1:" + w.SKU
	sale := item + ":" + s.item.SaleID
	s.keys = []string{item + ":expiry", sale + ":left"}
	w.NameKey(item, "h1")
	w.NameKey(sale, "h1")
	stage := s.stage(holds.Backends{Redis: w.Side, DB: pool(s.db)}, s.db)
	s.audit = &shop{s: s, Stage: stage, till: s.holds(s.db, stage, s.client, never)}
	return s
}

// migrated lists the database servers on which the tables exist. Cells run concurrently, so it is
// locked during changes to tables that they share: a table that is being altered may look empty to
// a reader.
var migrated struct {
	sync.Mutex
	servers []string
}

func migrate(ctx context.Context, db *gorm.DB) error {
	d, ok := db.Dialector.(*mysql.Dialector)
	if !ok {
		return errors.Join(stock.Migrate(ctx, db), holds.Migrate(ctx, db)) // the file belongs to this cell
	}
	server := d.DSNConfig.Addr + "/" + d.DSNConfig.DBName
	migrated.Lock()
	defer migrated.Unlock()
	if slices.Contains(migrated.servers, server) {
		return nil
	}
	if err := errors.Join(stock.Migrate(ctx, db), holds.Migrate(ctx, db)); err != nil {
		return err
	}
	migrated.servers = append(migrated.servers, server)
	return nil
}

func pool(db *gorm.DB) *sql.DB {
	p, err := db.DB()
	lab.Need(err == nil, "there is no database: %v", err)
	return p
}

// stage makes the subject's stage. SQLite's own clock does not run in virtual time, so stage
// replaces it.
func (s *sale) stage(b holds.Backends, db *gorm.DB) holds.Stage {
	b.SQL = holds.DialectOf(db)
	if db.Name() == "sqlite" {
		b.SQL.Clock = clockName + "()"
	}
	stage, ok := catalog.Holds(b)[s.w.Subject.Name]
	lab.Need(ok, "%s is no stage", s.w.Subject.Name)
	return stage
}

const clockName = "oversell_lab_clock"

// The function is registered here because a connection has only the functions that were registered
// before it was opened.
func init() {
	sqlite.MustRegisterScalarFunction(clockName, 0,
		func(*sqlite.FunctionContext, []driver.Value) (driver.Value, error) {
			return time.Now().UnixMilli(), nil
		})
}

// newID returns an id for a hold. Only the item in it differs from run to run.
func (s *sale) newID(who string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	stage, _, _ := strings.Cut(s.w.Subject.Name, "_")
	id := fmt.Sprintf("%s-%.13s-%s-%d", stage, s.w.SKU[len("lab-"):], who, s.asked)
	key := "oversell:h1:hold:" + id
	s.keys = append(s.keys, key, "oversell:h1:"+s.w.SKU+":"+s.item.SaleID+":has:"+who)
	s.w.NameKey(id, "hold-"+who)
	s.w.NameKey(key, "hold:"+who)
	return id
}

// try returns a scenario about a sale of some units. At its end, the verdict on the sale is returned.
func try(anomaly string, units int64, run func(s *sale), requires ...lab.Claim) lab.Scenario {
	return lab.Try(anomaly, needsHolds, func(w *lab.World) lab.Verdict {
		s := open(w, units)
		run(s)
		return s.verdict()
	}, requires...)
}

// verdict sells the remaining units, and checks that every unit is sold once and every payment has
// one order or one refund.
func (s *sale) verdict() lab.Verdict {
	rest := s.sellRest()
	sold, broken := s.counted(rest)
	if broken.Outcome != "" {
		return broken
	}
	if books := s.books(); len(books.Wrong) > 0 {
		p := books.Wrong[0]
		return s.w.Broke("", "%s has %d captures, %d orders and %d refunds", s.w.Readable(p.PaymentID), p.Captures,
			p.Orders, p.Refunds)
	}
	return lab.Holds.Because("%d of %d units were sold, and every payment has one order or one refund", sold, s.units)
}

// counted checks that every unit was sold once. Rest is the number of units that sellRest sold.
func (o *onSale) counted(rest int64) (sold int64, broken lab.Verdict) {
	sold = o.sold()
	if rest > 0 {
		o.w.Note("", "others buy what can still be bought: %d", rest)
	}
	switch {
	case sold > o.units:
		broken = o.w.Broke("", "%d of %d units were sold", sold, o.units)
	case sold < o.units:
		broken = o.w.Broke("", "%d of %d units are neither sold nor on sale", o.units-sold, o.units)
	}
	return sold, broken
}

// sellRest sweeps expired holds, sells until nothing is left, and returns the number of units that
// it sold.
func (s *sale) sellRest() (rest int64) {
	s.sweepAll()
	for range mostBuyers {
		h, err := s.audit.ask("Z", 0)
		if errors.Is(err, holds.ErrSoldOut) {
			return rest
		}
		lab.Need(err == nil, "the rest could not be held: %v", err)
		_, err = s.audit.till.Pay(s.w.Context(), h.ID, h.Token, "key")
		lab.Need(err == nil, "the rest could not be sold: %v", err)
		rest++
	}
	lab.Need(false, "it is never sold out")
	return 0
}

// forget removes the cell's holds. A buyer may still be active in a cell that took too long.
func (s *sale) forget(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.w.Side.Del(ctx, s.keys...).Err()
	for rows, value := range map[string]string{ // each table has an index that begins with the column
		"holds WHERE sku": s.item.SKU, "hold_payments WHERE sku": s.item.SKU,
		"hold_buyers WHERE sale_id": s.item.SaleID, "hold_sales WHERE sale_id": s.item.SaleID,
	} {
		_ = s.db.WithContext(ctx).Exec("DELETE FROM oversell_"+rows+" = ?", value).Error
	}
}

// never is longer than the run of any cell.
const never = 1000 * time.Hour

// holds starts a service for a stage. Sweep is the time between two sweeps.
func (s *sale) holds(db *gorm.DB, stage holds.Stage, payments payment.Provider, sweep time.Duration) *holds.Service {
	till := holds.New(holds.Config{
		DB: db, Stages: map[string]holds.Stage{s.w.Subject.Name: stage}, Payments: payments,
		TTL: s.w.TTL, Sweep: sweep, Settle: never, Logger: slog.New(slog.DiscardHandler),
	})
	s.w.Cleanup(till.Close)
	return till
}

const mostBuyers = 20

// sweepAll sweeps expired holds until no hold is left.
func (s *sale) sweepAll() {
	ctx := s.w.Context()
	for range 40 {
		_, err := s.audit.Sweep(ctx, s.item.SKU, 100)
		lab.Need(err == nil, "the holds could not be swept: %v", err)
		units, err := s.audit.Units(ctx, s.item.SKU, s.item.SaleID)
		lab.Need(err == nil, "the units could not be counted: %v", err)
		if units.Held == 0 {
			return
		}
		s.w.Sleep(s.w.TTL / 10)
	}
	lab.Need(false, "a hold never expires")
}

func (o *onSale) sold() (units int64) {
	err := o.db.WithContext(o.w.Context()).Raw("SELECT COALESCE(SUM(quantity), 0) FROM oversell_orders WHERE sku = ? "+
		"AND sale_id = ?", o.item.SKU, o.item.SaleID).Scan(&units).Error
	lab.Need(err == nil, "the orders could not be counted: %v", err)
	return units
}
