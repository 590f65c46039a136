package stock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sync/singleflight"
	"gorm.io/gorm"

	"oversell/internal/stock/units"
)

// maxConditional bounds the concurrent sections of Conditional in this process.
const maxConditional = 16

// Conditional guards without a lock, by checking in the statement that takes the units:
// UPDATE … SET remaining = remaining - n WHERE remaining >= n. The database lets one
// such statement at a time have the row.
func Conditional(db *gorm.DB) Guard {
	return &repeated{slots: make(Slots, maxConditional),
		once: func(ctx, _ context.Context, at Location, section Section) error {
			return section(ctx, conditional{ledger{store: store{db}, at: at}})
		}}
}

// conditional takes units whatever Get has read.
type conditional struct{ ledger }

func (c conditional) sell(ctx context.Context, _ int64, order *Order) error {
	return c.commit(ctx, order, func(tx *gorm.DB) error {
		enough := func(tx *gorm.DB) *gorm.DB { return tx.Where("remaining >= ?", order.Quantity) }
		tooFew := func(now Item) error { return tooFewError{now.Remaining} }
		return c.update(tx, map[string]any{"remaining": gorm.Expr("remaining - ?", order.Quantity)}, tooFew, enough)
	})
}

// tooFewError is an ErrSoldOut with the number of units left.
type tooFewError struct{ left int64 }

func (e tooFewError) Error() string { return fmt.Sprintf("%v: %d left", ErrSoldOut, e.left) }
func (e tooFewError) Unwrap() error { return ErrSoldOut }

// Versioned guards without a lock, by compare and swap: each write increments a
// version, and is refused if the version is no longer the one that was read. The loser
// sleeps and does everything again.
func Versioned(db *gorm.DB) Guard {
	return &repeated{slots: make(Slots, maxAttempts),
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
	return v.commit(ctx, order, func(tx *gorm.DB) error {
		unchanged := func(tx *gorm.DB) *gorm.DB { return tx.Where("version = ?", v.read) }
		return v.update(tx, map[string]any{"remaining": left}, nil, unchanged)
	})
}

// UnitsInPool is how many rows the pool of an item has when it has just been filled, unless
// one order needs more, or claims under way have locked most of them.
const UnitsInPool = 200

// Units guards by one row for each unit that is available. A buyer claims rows that
// nobody else has locked, with SELECT … FOR UPDATE SKIP LOCKED, in the transaction that
// writes the order. So claims do not wait for each other, and none of them writes the item's
// row. That row has the units that have no row of their own yet; a buyer that finds too few
// rows takes up to size units from it, and waits while another one does. See package units.
//
// A buyer that finds all units locked gives up its slot and tries again, so that those of other
// items can buy.
func Units(db *gorm.DB, size int64) Guard {
	shared := &pools{size: size, filling: make(Slots, maxFillings)}
	unusable := needsMySQL(db, "SELECT … FOR UPDATE SKIP LOCKED")
	return &repeated{make(Slots, maxConditional), unusable, nil,
		func(ctx, _ context.Context, at Location, section Section) error {
			return section(ctx, pooled{ledger{store: store{db}, at: at}, shared})
		}}
}

// maxFillings bounds the pools that are filled at the same time in this process. A filling
// needs a connection beside those of the claims, for as long as it waits for the item's row.
const maxFillings = 8

// pools is what the buyers of this process share.
type pools struct {
	size    int64
	fills   singleflight.Group // buyers of an item that find too few rows share a filling
	filling Slots
}

// pooled takes units from the pool, whatever Get has read.
type pooled struct {
	ledger
	*pools
}

// Get returns the units in the pool and in the item's row.
func (p pooled) Get(ctx context.Context) (int64, error) {
	item, err := p.current(ctx)
	return item.left(), err
}

// readCommitted are the options of a transaction with a claim, see units.Pool.Claim.
var readCommitted = &sql.TxOptions{Isolation: sql.LevelReadCommitted}

const (
	// maxFilled is how often a buyer fills the pool while others are faster to claim its rows.
	maxFilled = 5
	// fillPatience is how long a buyer keeps its slot while the pool is filled. Most
	// fillings are over by then.
	fillPatience = 50 * time.Millisecond
)

// sell returns errConflict if the units that are left are locked by other claims, which may be
// rolled back.
func (p pooled) sell(ctx context.Context, _ int64, order *Order) error {
	pool := units.Pool{SKU: p.at.SKU, Generation: p.at.Generation}
	err := p.claim(ctx, pool, order)
	for range maxFilled {
		if !errors.Is(err, units.ErrFew) {
			return err
		}
		enough, fillErr := p.fill(ctx, pool, order.Quantity)
		if fillErr != nil {
			return fillErr
		}
		if !enough {
			return err
		}
		err = p.claim(ctx, pool, order)
	}
	return err
}

// claim takes the units of the order from the pool and writes the order, or returns
// units.ErrFew.
func (p pooled) claim(ctx context.Context, pool units.Pool, order *Order) error {
	return p.commit(ctx, order, func(tx *gorm.DB) error {
		err := pool.Claim(tx, order.Quantity)
		if errors.Is(err, units.ErrFew) {
			return fmt.Errorf("%w: %w", errConflict, err)
		}
		return err
	}, readCommitted)
}

// filling is what a filling has found or left: free rows, and all units, with the locked ones.
type filling struct{ free, left int64 }

// fill fills the pool, if the item's row has units, and reports whether n rows are free now. It
// returns a tooFewError if fewer than n units are left, and errOtherSale. It waits for fillPatience;
// the filling, which others share, goes on.
func (p pooled) fill(ctx context.Context, pool units.Pool, n int64) (enough bool, err error) {
	size := max(p.size, n)
	filled := p.fills.DoChan(pool.Generation+" "+strconv.FormatInt(size, 10), func() (any, error) {
		return p.fillOnce(ctx, pool, size, n)
	})
	select {
	case done := <-filled:
		f, _ := done.Val.(filling)
		if done.Err == nil && f.left < n {
			done.Err = tooFewError{f.left}
		}
		return f.free >= n, done.Err
	case <-time.After(fillPatience):
		return false, nil
	}
}

// fillOnce brings the pool to size rows, as far as the item's row has units. The item's row
// is locked, so that one process at a time fills the pool, and none in a generation that is
// over.
func (p pooled) fillOnce(ctx context.Context, pool units.Pool, size, n int64) (f filling, err error) {
	ctx, cancel := limited(ctx)
	defer cancel()
	select {
	case p.filling <- struct{}{}:
		defer func() { <-p.filling }()
	case <-ctx.Done():
		return filling{}, fmt.Errorf("filling the pool of %s: others are being filled: %w",
			pool.SKU, context.Cause(ctx))
	}
	for range maxTxAttempts {
		err = p.on().db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
			f, err = p.fillIn(tx, pool, size, n)
			return err
		}, readCommitted)
		if !retryable(err) {
			break
		}
	}
	if err != nil {
		return filling{}, fmt.Errorf("filling the pool of %s: %w", pool.SKU, err)
	}
	return f, nil
}

// fillIn adds rows if fewer than n are free. It fills the pool up to size, and with half as many
// rows at least: others have locked the rows that are there, perhaps for long, and the next
// buyers should not all have to write the item's row.
func (p pooled) fillIn(tx *gorm.DB, pool units.Pool, size, n int64) (filling, error) {
	var item Item
	err := p.row(tx).Clauses(lockRow(tx)...).Take(&item).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		err = errOtherSale
	}
	if err != nil {
		return filling{}, fmt.Errorf("locking the item's row: %w", err)
	}
	there, last, err := pool.Size(tx)
	if err != nil {
		return filling{}, err
	}
	f := filling{left: item.Remaining + there}
	if f.free, err = pool.Free(tx, n); err != nil {
		return filling{}, err
	}
	if f.free >= n || item.Remaining == 0 {
		return f, nil
	}
	added := min(item.Remaining, max(size-there, size/2, n-f.free))
	if err := pool.Fill(tx, last, added); err != nil {
		return filling{}, err
	}
	f.free += added
	return f, p.update(tx, map[string]any{"remaining": gorm.Expr("remaining - ?", added)}, nil)
}

// needsMySQL returns an error for a database other than MySQL and MariaDB.
func needsMySQL(db *gorm.DB, what string) error {
	if db.Name() == "mysql" {
		return nil
	}
	return fmt.Errorf("%w: %s has no %s; use MySQL or MariaDB", ErrLocation, db.Name(), what)
}
