package stock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"golang.org/x/sync/semaphore"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"oversell/internal/guard"
)

// transactional is a Counter that writes the stock and the order in one transaction. It returns
// errConflict or ErrFenced as Set does, and otherwise the errors of Service.writeOrders.
type transactional interface {
	Counter
	sell(ctx context.Context, left int64, order *Order) error
}

// ledger is the stock of a sale in the database, in the item's row. It reads with SELECT and writes
// with UPDATE, so a guard must keep others out.
type ledger struct {
	store
	at   Location
	conn *gorm.DB // the connection for all statements; nil: any
}

func (l ledger) on() store {
	if l.conn == nil {
		return l.store
	}
	return store{l.conn}
}

func (l ledger) Get(ctx context.Context) (int64, error) {
	item, err := l.current(ctx)
	return item.Remaining, err
}

// current reads the item. It returns errOtherSale if its sale is over.
func (l ledger) current(ctx context.Context) (Item, error) {
	item, err := l.on().item(ctx, l.at.SKU)
	if err == nil && (item.SaleID != l.at.SaleID || item.Generation != l.at.Generation) {
		err = fmt.Errorf("reading the stock: %w", errOtherSale)
	}
	return item, err
}

func (l ledger) Set(ctx context.Context, left int64) error { return l.sell(ctx, left, nil) }

func (l ledger) sell(ctx context.Context, left int64, order *Order) error {
	return l.take(ctx, order, left, nil)
}

// take writes the stock and the order; see update and commit.
func (l ledger) take(
	ctx context.Context, order *Order, remaining any, refused func(Item) error, where ...any,
) error {
	return l.commit(ctx, order, func(tx *gorm.DB) error { return l.update(tx, remaining, refused, where...) })
}

// row selects the item's row if its generation is still current.
func (l ledger) row(tx *gorm.DB) *gorm.DB {
	return tx.Model(&Item{}).Where("sku = ? AND sale_id = ? AND generation = ?", l.at.SKU, l.at.SaleID, l.at.Generation)
}

// update writes the units left into the item's row, if the row also meets the where condition. It
// returns errOtherSale if the sale is over. If the row does not meet the condition, it returns
// refused(row), or errConflict if refused is nil. Every write increments the version, also because
// MySQL does not count a row that an UPDATE leaves unchanged.
func (l ledger) update(tx *gorm.DB, remaining any, refused func(Item) error, where ...any) error {
	row := l.row(tx)
	if len(where) > 0 {
		row = row.Where(where[0], where[1:]...)
	}
	done := row.UpdateColumns(map[string]any{"remaining": remaining, "version": gorm.Expr("version + 1")})
	if done.Error != nil {
		return fmt.Errorf("writing the stock: %w", done.Error)
	}
	if done.RowsAffected > 0 {
		return nil
	}
	var now Item
	// Lock the row: otherwise the transaction sees it as it was when the transaction began.
	err := l.row(tx).Clauses(lockRow(tx)...).Take(&now).Error
	switch {
	case errors.Is(err, gorm.ErrRecordNotFound):
		err = errOtherSale
	case err == nil && refused != nil:
		err = refused(now)
	case err == nil:
		err = errConflict
	}
	return fmt.Errorf("writing the stock: %w", err)
}

// lockRow returns the clauses that make a SELECT lock its row.
func lockRow(db *gorm.DB) []clause.Expression { return locking(db, clause.LockingStrengthUpdate) }

// locking returns the clauses that make a SELECT in MySQL keep others from changing its row. SQLite
// has one writer at a time, and needs no clauses.
func locking(db *gorm.DB, strength string) []clause.Expression {
	if db.Name() != "mysql" {
		return nil
	}
	return []clause.Expression{clause.Locking{Strength: strength}}
}

// fencedLedger is a ledger that refuses a holder once it has seen a later one. It checks the
// fencing token in the WHERE of the statement that writes the row.
type fencedLedger struct {
	ledger
	shown
}

// Get shows the token before it reads. Package fence explains why.
func (l *fencedLedger) Get(ctx context.Context) (int64, error) {
	item, err := l.shownTo(ctx)
	if err == nil && item.FenceOf == l.of && item.Fence > l.token && l.replace(ctx, item.Fence) {
		item, err = l.shownTo(ctx)
	}
	if err == nil && (item.FenceOf != l.of || item.Fence > l.token) {
		err = fmt.Errorf("reading the stock with token %d: %w", l.token, ErrFenced)
	}
	return item.Remaining, err
}

// shownTo shows the token to the item and returns the item.
func (l *fencedLedger) shownTo(ctx context.Context) (Item, error) {
	if err := l.raise(ctx); err != nil {
		return Item{}, err
	}
	return l.current(ctx)
}

// raise records the token as the largest one seen, unless a larger one of the same lock
// has been seen.
func (l *fencedLedger) raise(ctx context.Context) error {
	return l.on().query(ctx, func(db *gorm.DB) *gorm.DB {
		return l.row(db).Where("fence_of <> ? OR fence < ?", l.of, l.token).
			UpdateColumns(map[string]any{"fence_of": l.of, "fence": l.token})
	}, "raising the fence")
}

func (l *fencedLedger) Set(ctx context.Context, left int64) error { return l.sell(ctx, left, nil) }

func (l *fencedLedger) sell(ctx context.Context, left int64, order *Order) error {
	late := func(Item) error { return ErrFenced }
	return l.take(ctx, order, left, late, "fence_of = ? AND fence <= ?", l.of, l.token)
}

// commit takes the units and writes the order, if there is one, in one transaction. It returns the
// errors of take unchanged. If the database rolls the transaction back because of a conflict,
// commit repeats it.
func (l ledger) commit(ctx context.Context, order *Order, take func(tx *gorm.DB) error, opts ...*sql.TxOptions) error {
	tctx, cancel := limited(ctx)
	defer cancel()
	err := l.on().changeWithin(tctx, func(tx store) error {
		if err := take(tx.db); err != nil || order == nil {
			return err
		}
		return tx.db.Create(order).Error
	}, opts...)
	return l.outcome(ctx, tctx, order, err)
}

// refused reports whether err means that nothing was written because the stock did not
// allow it.
func refused(err error) bool {
	return isAny(err, errConflict, ErrFenced, ErrSoldOut, errOtherSale)
}

// ErrFenced means that the stock has seen a larger fencing token than the holder's: the holder has
// lost its lock, and another holder has used the stock since. Nothing was read or written.
var ErrFenced = errors.New("a later holder reached the stock first")

// shown is a holder's fencing token and the name of its lock. Tokens of different locks cannot be
// compared. If two locks are in use at the same time, the holder that read last may write.
type shown struct {
	of    string
	token int64
}

// replace replaces a token that the stock refuses because it has seen a larger one. It reports
// whether the lock had a new token for the holder: a holder that has lost the lock gets none.
func (s *shown) replace(ctx context.Context, seen int64) bool {
	token, ok := guard.TokenAfter(ctx, seen)
	if ok {
		s.token = token
	}
	return ok
}

// maxConditional limits how many sections of Conditional run at the same time in this process.
const maxConditional = 16

// Conditional returns a Guard that needs no lock, because the statement that takes the units also
// checks the stock: UPDATE … SET remaining = remaining - n WHERE remaining >= n. The database runs
// such statements on a row one at a time.
func Conditional(db *gorm.DB) Guard {
	return &repeated{slots: semaphore.NewWeighted(maxConditional),
		once: func(ctx, _ context.Context, at Location, section Section) error {
			return section(ctx, conditional{ledger{store: store{db}, at: at}})
		}}
}

// conditional takes units regardless of what Get has read.
type conditional struct{ ledger }

func (c conditional) sell(ctx context.Context, _ int64, order *Order) error {
	tooFew := func(now Item) error { return tooFewError{now.Remaining} }
	return c.take(ctx, order, gorm.Expr("remaining - ?", order.Quantity), tooFew, "remaining >= ?", order.Quantity)
}

// tooFewError is an ErrSoldOut with the number of units left.
type tooFewError struct{ left int64 }

func (e tooFewError) Error() string { return fmt.Sprintf("%v: %d left", ErrSoldOut, e.left) }
func (e tooFewError) Unwrap() error { return ErrSoldOut }

// Versioned returns a Guard that needs no lock, because it writes by compare-and-swap: each write
// increments a version, and is refused if the version has changed since it was read. The loser
// sleeps and repeats the whole section.
func Versioned(db *gorm.DB) Guard {
	return &repeated{slots: semaphore.NewWeighted(maxAttempts),
		once: func(ctx, _ context.Context, at Location, section Section) error {
			return section(ctx, &versioned{ledger: ledger{store: store{db}, at: at}})
		}}
}

type versioned struct {
	ledger
	read int64 // the version that Get found
}

func (v *versioned) Get(ctx context.Context) (int64, error) {
	item, err := v.current(ctx)
	v.read = item.Version
	return item.Remaining, err
}

func (v *versioned) sell(ctx context.Context, left int64, order *Order) error {
	return v.take(ctx, order, left, nil, "version = ?", v.read)
}

// needsMySQL returns an error for a database other than MySQL and MariaDB.
func needsMySQL(db *gorm.DB, what string) error {
	if db.Name() == "mysql" {
		return nil
	}
	return fmt.Errorf("%w: %s has no %s; use MySQL or MariaDB", ErrLocation, db.Name(), what)
}
