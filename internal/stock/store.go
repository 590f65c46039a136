package stock

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/google/uuid"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"oversell/internal/figures"
)

// dbTimeout bounds one statement, so that a database that hangs gives an error.
const dbTimeout = 5 * time.Second

// deleteTimeout is longer: an item may have a great many orders.
const deleteTimeout = time.Minute

// limited returns the context of one statement, which outlives its caller: GORM
// shares prepared statements, and who cancels while one is being prepared fails
// all who wait for it; and a statement that is cut off costs its connection.
func limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), dbTimeout)
}

// store keeps items and orders in the database.
type store struct{ db *gorm.DB }

// Migrate creates the project's tables, or adds what is missing in them.
// Several instances may do so at once.
func Migrate(ctx context.Context, db *gorm.DB) error {
	db = db.WithContext(ctx)
	if db.Name() == "mysql" {
		// MySQL's own choice takes "A" for "a": one buyer's idempotency key
		// for another's, and two counters for one item.
		db = db.Set("gorm:table_options", "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
	}
	var err error
	for range migrateAttempts {
		if err = db.AutoMigrate(&Item{}, &Order{}); err == nil {
			return nil
		}
		// Another instance may have been faster with a table or an index. The
		// next attempt finds it there.
	}
	return fmt.Errorf("migrating the tables of items and orders: %w", err)
}

// migrateAttempts is more than there are tables and indexes to be late for.
const migrateAttempts = 6

// put begins a new sale of the item.
func (s store) put(ctx context.Context, item Item) (Item, error) {
	item, _, err := s.createItem(ctx, item, clause.OnConflict{
		// By name, or GORM would set a time of its own.
		DoUpdates: clause.AssignmentColumns([]string{"name", "category", "initial", "keeper", "remaining", "version", "fence", "fence_of", "sale_id", "updated_at"}),
	})
	return item, err
}

// putNew begins a sale of the item unless it is there already, and reports
// whether it was made.
func (s store) putNew(ctx context.Context, item Item) (Item, bool, error) {
	return s.createItem(ctx, item, clause.OnConflict{DoNothing: true})
}

func (s store) createItem(ctx context.Context, item Item, conflict clause.OnConflict) (Item, bool, error) {
	ctx, cancel := limited(ctx)
	defer cancel()
	item.SaleID = uuid.NewString()
	item.UpdatedAt = now()
	item.Remaining, item.Version, item.Fence, item.FenceOf = 0, 0, 0, ""
	if item.Keeper == InDatabase {
		item.Remaining = item.Initial
	}
	done := s.db.WithContext(ctx).Clauses(conflict).Create(&item)
	if done.Error != nil {
		return Item{}, false, fmt.Errorf("writing item %s: %w", item.SKU, done.Error)
	}
	return item, done.RowsAffected > 0, nil
}

// item returns ErrUnknownItem for an item that is not there.
func (s store) item(ctx context.Context, sku string) (Item, error) {
	ctx, cancel := limited(ctx)
	defer cancel()
	var item Item
	err := s.db.WithContext(ctx).Where("sku = ?", sku).Take(&item).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return Item{}, fmt.Errorf("%w: %s", ErrUnknownItem, sku)
	}
	if err != nil {
		return Item{}, fmt.Errorf("reading item %s: %w", sku, err)
	}
	return item, nil
}

// delete removes the item and the orders of all its sales.
func (s store) delete(ctx context.Context, sku string) error {
	ctx, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	err := s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := tx.Where("sku = ?", sku).Delete(&Order{}).Error; err != nil {
			return err
		}
		return tx.Where("sku = ?", sku).Delete(&Item{}).Error
	})
	if err != nil {
		return fmt.Errorf("deleting item %s and its orders: %w", sku, err)
	}
	return nil
}

// errDuplicate means that an order with the same idempotency key is there.
var errDuplicate = errors.New("an order with this idempotency key exists")

// errUnsure means that the order may or may not have been written.
var errUnsure = errors.New("it is not known whether the order was written")

// insert writes one order, or several in one statement: all of them or none. It
// returns errDuplicate, or errUnsure where the database neither confirmed the
// orders nor can be asked for them, or may still come to write them. After any
// other error they are not there.
func (s store) insert(ctx context.Context, orders ...*Order) error {
	tctx, cancel := context.WithTimeout(ctx, dbTimeout)
	defer cancel()
	return s.outcome(ctx, tctx, orders[0], s.create(tctx, orders))
}

// outcome finds out what became of a statement or a transaction that was to
// write order, perhaps among others, and ended with err. Tctx is its context, and
// ctx that of the caller. A nil order means that nothing can be asked for.
func (s store) outcome(ctx, tctx context.Context, order *Order, err error) error {
	switch {
	case err == nil:
		return nil
	case refused(err):
		return err
	case errors.Is(err, gorm.ErrDuplicatedKey):
		return errDuplicate
	case crossed(err):
		return fmt.Errorf("%w: %w", errConflict, err)
	case order == nil:
		return fmt.Errorf("writing the stock: %w", err)
	case nobodyThere(err):
		return fmt.Errorf("writing order %s: %w", order.ID, err)
	}
	late := tctx.Err() != nil || s.underWay(err)
	err = fmt.Errorf("writing order %s: %w", order.ID, err)
	found, lookErr := s.has(ctx, order.ID)
	switch {
	case found:
		return nil
	case late || lookErr != nil:
		return errors.Join(errUnsure, err, lookErr)
	}
	return err
}

// create is the statement of insert. That of one order is prepared once and kept,
// and that of as many as go together at most, which is what a crowd sees. Others
// differ with their number, and would be too many to be kept by a server.
func (s store) create(ctx context.Context, orders []*Order) error {
	tx := s.db.WithContext(ctx)
	switch len(orders) {
	case 1:
		return tx.Create(orders[0]).Error
	case MaxBatch:
		return tx.Create(orders).Error
	}
	if kept, ok := tx.Statement.ConnPool.(*gorm.PreparedStmtDB); ok {
		tx.Statement.ConnPool = kept.ConnPool
	}
	return tx.Create(orders).Error
}

// What MySQL and MariaDB say when transactions were in each other's way, and this
// one was undone: it may be tried again.
const (
	erLockWaitTimeout = 1205
	erLockDeadlock    = 1213
	erCheckread       = 1020 // MariaDB: the row has changed since the transaction began
)

func crossed(err error) bool {
	var said *mysql.MySQLError
	if !errors.As(err, &said) {
		return false
	}
	return said.Number == erLockWaitTimeout || said.Number == erLockDeadlock || said.Number == erCheckread
}

// underWay reports whether a statement that failed may still be carried out. A
// server that is cut off in the middle of one finishes it; only an error that
// it sent itself says that it did not. SQLite runs in this process, and a
// statement that has returned is over.
func (s store) underWay(err error) bool {
	var said *mysql.MySQLError
	return s.db.Name() == "mysql" && !errors.As(err, &said)
}

// nobodyThere reports whether a statement failed because no connection could
// be had, so that nobody ever saw it.
func nobodyThere(err error) bool {
	var op *net.OpError
	return errors.Is(err, driver.ErrBadConn) || errors.As(err, &op) && op.Op == "dial"
}

func (s store) has(ctx context.Context, orderID string) (bool, error) {
	ctx, cancel := limited(ctx)
	defer cancel()
	var n int64
	if err := s.db.WithContext(ctx).Model(&Order{}).Where("id = ?", orderID).Count(&n).Error; err != nil {
		return false, fmt.Errorf("looking for order %s: %w", orderID, err)
	}
	return n > 0, nil
}

// byKey returns the sale's order with an idempotency key, and whether there is one.
func (s store) byKey(ctx context.Context, sku, saleID, key string) (Order, bool, error) {
	ctx, cancel := limited(ctx)
	defer cancel()
	var order Order
	err := s.db.WithContext(ctx).Where("sku = ? AND sale_id = ? AND idempotency_key = ?", sku, saleID, key).Take(&order).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return Order{}, false, nil
	}
	if err != nil {
		return Order{}, false, fmt.Errorf("looking for the order of an idempotency key: %w", err)
	}
	return order, true, nil
}

// count adds up the orders of a sale.
func (s store) count(ctx context.Context, sku, saleID string) (figures.Stock, error) {
	ctx, cancel := limited(ctx)
	defer cancel()
	var n struct{ Orders, Sold, Keyed, Keys int64 }
	err := s.db.WithContext(ctx).Model(&Order{}).
		Select("COUNT(*) AS orders, COALESCE(SUM(quantity), 0) AS sold, "+
			"COUNT(idempotency_key) AS keyed, COUNT(DISTINCT idempotency_key) AS `keys`").
		Where("sku = ? AND sale_id = ?", sku, saleID).Scan(&n).Error
	if err != nil {
		return figures.Stock{}, fmt.Errorf("counting the orders of sale %s: %w", saleID, err)
	}
	return figures.Stock{Sold: n.Sold, Orders: n.Orders, Duplicates: n.Keyed - n.Keys}, nil
}

// categories maps each category to its SKUs, of at most limit items.
func (s store) categories(ctx context.Context, limit int) (map[string][]string, error) {
	ctx, cancel := limited(ctx)
	defer cancel()
	var items []Item
	err := s.db.WithContext(ctx).Select("sku", "category").Order("category, sku").Limit(limit).Find(&items).Error
	if err != nil {
		return nil, fmt.Errorf("reading the category map: %w", err)
	}
	all := make(map[string][]string)
	for _, item := range items {
		all[item.Category] = append(all[item.Category], item.SKU)
	}
	return all, nil
}
