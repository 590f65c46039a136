package stock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"oversell/internal/figures"
	"oversell/internal/message"
)

// The time limits of statements, so that a hanging database leads to an error. Deleting or counting
// the many orders of an item may take longer.
const (
	dbTimeout     = 5 * time.Second // of one statement
	deleteTimeout = time.Minute
	countTimeout  = 30 * time.Second
)

// limited returns the context for one statement. It ends after dbTimeout, but not with ctx. GORM
// shares prepared statements, so a caller that cancels while one is being prepared makes it fail
// for all callers that wait for it. Moreover, interrupting a statement closes its connection.
func limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), dbTimeout)
}

// ClockSQL returns the SQL expression for the database's current time: milliseconds since 1970, in
// UTC.
func ClockSQL(db *gorm.DB) string {
	if db.Name() == "mysql" {
		// UTC_TIMESTAMP does not depend on the session's time zone, in which one hour a year may occur
		// twice.
		return "(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000)"
	}
	return "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"
}

func (s store) query(ctx context.Context, run func(db *gorm.DB) *gorm.DB, what string, args ...any) error {
	return Query(ctx, s.db, run, what, args...)
}

// Query runs one statement, within five seconds even if ctx ends. The error says what the statement
// was for.
func Query(ctx context.Context, db *gorm.DB, run func(db *gorm.DB) *gorm.DB, what string, args ...any) error {
	ctx, cancel := limited(ctx)
	defer cancel()
	if err := run(db.WithContext(ctx)).Error; err != nil {
		return fmt.Errorf(what+": %w", append(args, err)...)
	}
	return nil
}

// store keeps items and orders in the database. A store named tx is a transaction that has locked
// the item's row, unless the function is about to lock it.
type store struct{ db *gorm.DB }

// Migrate creates the tables of items and orders, or adds what is missing in them. Several instances
// may call it at the same time.
func Migrate(ctx context.Context, db *gorm.DB) error {
	return MigrateTables(ctx, db, "items and orders", &Item{}, &Order{}, &Sale{}, &flight{}, &purchased{}, &lostOrder{},
		&restock{}, &Unit{})
}

// MigrateTables is Migrate for the given tables.
func MigrateTables(ctx context.Context, db *gorm.DB, what string, tables ...any) error {
	db = db.WithContext(ctx)
	if db.Name() == "mysql" {
		// MySQL's default collation treats "A" and "a" as equal, and so could confuse the idempotency
		// keys of two buyers.
		db = db.Set("gorm:table_options", "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
	}
	var err error
	for range 6 { // another instance may create a table or an index first, which the next attempt finds
		if err = db.AutoMigrate(tables...); err == nil {
			return nil
		}
	}
	return fmt.Errorf("migrating the tables of %s: %w", what, err)
}

// errAppeared means that another process put the item on sale after this process had found no row
// for it. Then the change is repeated, and finds the other process's sale.
var errAppeared = errors.New("the item has appeared")

// begin writes the row of an item with a new sale. The argument unknown means that the caller found
// no row, and so has locked none. If the item exists after all, begin returns errAppeared.
func (s store) begin(item Item, unknown bool) (Item, error) {
	item.SaleID, item.Generation = uuid.NewString(), uuid.NewString()
	item.UpdatedAt = now()
	item.Remaining, item.Version, item.Fence, item.FenceOf = item.Initial, 0, 0, ""
	item.Unpublished = item.streamed()
	// The columns are named; otherwise GORM would set updated_at to a time of its own.
	conflict := clause.OnConflict{DoUpdates: clause.AssignmentColumns([]string{
		"name", "category", "initial", "keeper", "remaining", "version", "fence", "fence_of", "sale_id", "generation",
		"history", "unpublished", "family", "turn_began", "turn_sold", "hold_seconds", "buyer_limit", "updated_at",
	})}
	if unknown {
		conflict = clause.OnConflict{DoNothing: true}
	}
	done := s.db.Clauses(conflict).Create(&item)
	if done.Error != nil {
		return Item{}, fmt.Errorf("writing item %s: %w", item.SKU, done.Error)
	}
	if done.RowsAffected == 0 {
		return item, errAppeared
	}
	sale := Sale{ID: item.SaleID, SKU: item.SKU, Initial: item.Initial, BegunAt: item.UpdatedAt}
	if err := s.db.Create(&sale).Error; err != nil {
		return Item{}, fmt.Errorf("writing sale %s: %w", sale.ID, err)
	}
	return item, nil
}

// change runs f in a transaction, and repeats it if the database rolled it back because of a
// conflict. It runs to its end even if ctx is cancelled.
func (s store) change(ctx context.Context, f func(tx store) error) error {
	ctx, cancel := limited(ctx)
	defer cancel()
	return s.changeWithin(ctx, f)
}

func (s store) changeWithin(ctx context.Context, f func(tx store) error, level ...*sql.TxOptions) error {
	return retried(func() error {
		return s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error { return f(store{tx}) }, level...)
	})
}

// changePool is like changeWithin, for a function that may drain the item's pool. If the stock is
// in the database, the transaction is READ COMMITTED (see Pool.Drain). That is enough for f: what
// it reads cannot change after it has locked the item's row and drained the pool.
func (s store) changePool(ctx context.Context, sku string, f func(tx store) error) error {
	if s.db.Name() != "mysql" {
		return s.changeWithin(ctx, f)
	}
	var kept []Backend
	if err := s.db.WithContext(ctx).Model(&Item{}).Where("sku = ?", sku).Pluck("keeper", &kept).Error; err != nil {
		return fmt.Errorf("reading where the stock of %s is: %w", sku, err)
	}
	if slices.Contains(kept, InDatabase) {
		return s.changeWithin(ctx, f, readCommitted)
	}
	return s.changeWithin(ctx, f)
}

// locked reads an item and locks its row until the transaction ends. Until then no order of the
// item can be written. It returns ErrUnknownItem if there is no such item.
func (s store) locked(sku string) (Item, error) {
	var item Item
	err := s.db.Clauses(lockRow(s.db)...).Where("sku = ?", sku).Take(&item).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return Item{}, message.Errorf("%w: %s", ErrUnknownItem, sku)
	}
	if err != nil {
		return Item{}, fmt.Errorf("locking item %s: %w", sku, err)
	}
	return item, nil
}

// drain moves the units of an item's pool back to the item's row, and returns the changed item.
func (s store) drain(item Item) (Item, error) {
	back, err := item.pool().Drain(s.db)
	if err != nil || back == 0 {
		return item, err
	}
	item.Remaining += back
	return item, s.setRemaining(item, item.Remaining)
}

func (s store) setGeneration(item Item) error {
	err := s.db.Model(&Item{}).Where("sku = ?", item.SKU).UpdateColumns(map[string]any{
		"generation": item.Generation, "history": item.History, "family": item.Family,
		"turn_began": item.TurnBegan, "turn_sold": item.TurnSold,
		"remaining": item.Remaining, "unpublished": item.Unpublished,
	}).Error
	if err != nil {
		return fmt.Errorf("writing the generation of %s: %w", item.SKU, err)
	}
	return nil
}

func (s store) setRemaining(item Item, left int64) error {
	err := s.db.Model(&Item{}).Where("sku = ?", item.SKU).
		UpdateColumns(map[string]any{"remaining": left, "version": gorm.Expr("version + 1")}).Error
	if err != nil {
		return fmt.Errorf("writing the stock of %s: %w", item.SKU, err)
	}
	return nil
}

// item reads an item. It returns ErrUnknownItem if there is no such item.
func (s store) item(ctx context.Context, sku string) (item Item, err error) {
	err = s.query(ctx, func(db *gorm.DB) *gorm.DB {
		return db.Select("*, "+countUnits+" AS pooled").Where("sku = ?", sku).Take(&item)
	}, "reading item %s", sku)
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return Item{}, message.Errorf("%w: %s", ErrUnknownItem, sku)
	}
	return item, err
}

// forgetSale removes rows that only a running sale needs: its buyers' unit counts, its restocks'
// keys, and the flights of killed processes. Its orders stay.
func (s store) forgetSale(ctx context.Context, sku, saleID string) error {
	ctx, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	db := s.db.WithContext(ctx)
	buyers := db.Where("sku = ? AND sale_id = ?", sku, saleID).Delete(&purchased{})
	restocks := db.Where("sku = ? AND sale_id = ?", sku, saleID).Delete(&restock{})
	dead := db.Where("sku = ? AND ends_at < ?", sku, now().Add(-time.Minute)).Delete(&flight{}) // clocks differ
	if err := errors.Join(buyers.Error, restocks.Error, dead.Error); err != nil {
		return fmt.Errorf("removing what sale %s needed: %w", saleID, err)
	}
	return nil
}

// pageSize is how many rows are looked up in one statement.
const pageSize = 1_000

func (s store) written(ctx context.Context, ids ...string) (map[string]bool, error) {
	there := make(map[string]bool)
	for page := range slices.Chunk(ids, pageSize) {
		var found []string
		err := s.query(ctx, func(db *gorm.DB) *gorm.DB {
			return db.Model(&Order{}).Where("id IN ?", page).Pluck("id", &found)
		}, "looking up %d orders", len(page))
		if err != nil {
			return nil, err
		}
		for _, id := range found {
			there[id] = true
		}
	}
	return there, nil
}

// foreign adds up the units of an item's orders whose sale has no record; see Sale.
func (s store) foreign(ctx context.Context, sku string) (units int64, err error) {
	err = s.query(ctx, func(db *gorm.DB) *gorm.DB {
		known := db.Model(&Sale{}).Select("id").Where("sku = ?", sku)
		return db.Model(&Order{}).Select("COALESCE(SUM(quantity), 0)").
			Where("sku = ? AND sale_id NOT IN (?)", sku, known).Scan(&units)
	}, "counting the foreign orders of %s", sku)
	return units, err
}

// find reads an Order or a lostOrder by its id.
func find[T Order | lostOrder](ctx context.Context, s store, id string) (found T, ok bool, err error) {
	err = s.query(ctx, func(db *gorm.DB) *gorm.DB {
		done := db.Where("id = ?", id).Limit(1).Find(&found)
		ok = done.RowsAffected > 0
		return done
	}, "reading order %s", id)
	return found, ok, err
}

func (s store) skus(ctx context.Context, which string, args ...any) (skus []string, err error) {
	err = s.query(ctx, func(db *gorm.DB) *gorm.DB {
		return db.Model(&Item{}).Where(which, args...).Pluck("sku", &skus)
	}, "listing items")
	return skus, err
}

func (s store) byKey(ctx context.Context, sku, saleID, key string) (order Order, found bool, err error) {
	err = s.query(ctx, func(db *gorm.DB) *gorm.DB {
		return db.Where("sku = ? AND sale_id = ? AND idempotency_key = ?", sku, saleID, key).Take(&order)
	}, "looking up the order of an idempotency key")
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return Order{}, false, nil
	}
	return order, err == nil, err
}

// sold adds up the units in the orders of a sale.
func (s store) sold(sku, saleID string) (units int64, err error) {
	err = s.db.Model(&Order{}).Select("COALESCE(SUM(quantity), 0)").Where("sku = ? AND sale_id = ?", sku, saleID).
		Scan(&units).Error
	if err != nil {
		return 0, fmt.Errorf("adding up the orders of sale %s: %w", saleID, err)
	}
	return units, nil
}

// count counts the orders of a sale. It reads the sale's units from the same snapshot: a restock
// between two reads would look like oversold units.
func (s store) count(ctx context.Context, sku, saleID string) (figures.Stock, error) {
	var n struct{ Initial, Orders, Sold, Keyed, Keys int64 }
	err := s.query(ctx, func(db *gorm.DB) *gorm.DB {
		units := db.Model(&Sale{}).Select("initial").Where("id = ?", saleID)
		return db.Model(&Order{}).Select("COUNT(*) AS orders, COALESCE(SUM(quantity), 0) AS sold, "+
			"COUNT(idempotency_key) AS keyed, COUNT(DISTINCT idempotency_key) AS `keys`, (?) AS initial", units).
			Where("sku = ? AND sale_id = ?", sku, saleID).Scan(&n)
	}, "counting the orders of sale %s", saleID)
	return figures.Stock{Initial: n.Initial, Sold: n.Sold, Orders: n.Orders, Duplicates: n.Keyed - n.Keys}, err
}
