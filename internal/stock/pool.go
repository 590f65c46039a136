package stock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// ErrFew means that too few rows of a pool are free. Others may have locked some, the pool may need
// to be filled, or the generation may be over.
var ErrFew = errors.New("too few rows of the pool are free")

// Unit is a row of a pool: a unit that can be claimed. The claim deletes it.
type Unit struct {
	SKU        string `gorm:"primaryKey;size:64"`
	Generation string `gorm:"primaryKey;size:36"`
	Unit       int64  `gorm:"primaryKey;autoIncrement:false"` // unique in the pool
}

func (Unit) TableName() string { return "oversell_units" }

// countUnits is a subquery that counts the rows in an item's pool. It is part of the statement that
// reads the item's row, so both are read from one snapshot.
const countUnits = "(SELECT COUNT(*) FROM oversell_units WHERE oversell_units.sku = oversell_items.sku AND " +
	"oversell_units.generation = oversell_items.generation)"

// Pool has one row for each unit of an item that a buyer can claim now, in one generation. A buyer
// claims rows that nobody else has locked, so claims do not wait for each other, and no row is hot.
// The pool is filled from the item's row, a bounded number of units at a time: at every commit, the
// pool, the item's row and the orders together account for all units of the sale. Filling and
// draining the pool do wait: for the item's row, and draining also for claims under way.
//
// The rows also prove that a claim is current. They name the generation of the stock, and the
// transaction that ends a generation drains its pool. So a claim does not need to read the item's
// row: if it finds rows of its generation, the generation is current.
type Pool struct{ SKU, Generation string }

func (p Pool) rows(tx *gorm.DB) *gorm.DB {
	return tx.Model(&Unit{}).Where("sku = ? AND generation = ?", p.SKU, p.Generation)
}

// Claim takes n units that nobody else has locked, or none, in the transaction that writes their
// order. It returns ErrFew without waiting if fewer are free.
//
// The transaction must be READ COMMITTED. Under REPEATABLE READ the server also locks the gaps
// between the rows, and the rows of claims that were committed a moment ago, so that buyers would
// wait for each other and for the next filling.
//
// Each row is deleted by its full primary key, in a statement of its own. For a single DELETE with
// a list of units, MariaDB scans the whole table or index once the list covers a good part of it,
// and then waits for the rows of other claims, and deadlocks with them.
//
// A unit belongs to the claim whose DELETE finds its row. TiDB accepts FOR UPDATE SKIP LOCKED
// and locks nothing (https://github.com/pingcap/tidb/issues/69720), so that several claims
// read the same units there.
func (p Pool) Claim(tx *gorm.DB, n int64) error {
	free, err := p.lock(tx, n)
	if err != nil {
		return err
	}
	if int64(len(free)) < n {
		return fmt.Errorf("locking %d units: %d found: %w", n, len(free), ErrFew)
	}
	for _, unit := range free {
		claimed := p.rows(tx).Where("unit = ?", unit).Delete(&Unit{})
		if claimed.Error != nil {
			return fmt.Errorf("claiming unit %d of %s: %w", unit, p.SKU, claimed.Error)
		}
		if claimed.RowsAffected != 1 {
			return fmt.Errorf("claiming unit %d of %s, which another claim has deleted: %w", unit, p.SKU, ErrFew)
		}
	}
	return nil
}

// lock locks up to n rows that no other transaction has locked, until the end of tx.
func (p Pool) lock(tx *gorm.DB, n int64) (free []int64, err error) {
	skip := clause.Locking{Strength: clause.LockingStrengthUpdate, Options: clause.LockingOptionsSkipLocked}
	err = p.rows(tx).Clauses(skip).Order("unit").Limit(int(n)).Pluck("unit", &free).Error
	const erParse = 1064
	if IsMySQL(err, erParse) {
		err = fmt.Errorf("the server has no SKIP LOCKED; use MySQL 8 or MariaDB 10.6, or later: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("locking %d free units: %w", n, err)
	}
	return free, nil
}

// Size returns the number of rows in the pool and the largest unit number. It counts the rows that
// others have locked, because a claim that is not committed may be rolled back.
func (p Pool) Size(tx *gorm.DB) (rows, last int64, err error) {
	var found struct{ Pooled, Last int64 }
	err = p.rows(tx).Select("COUNT(*) AS pooled, COALESCE(MAX(unit), 0) AS last").Scan(&found).Error
	if err != nil {
		return 0, 0, fmt.Errorf("counting the pool of %s: %w", p.SKU, err)
	}
	return found.Pooled, found.Last, nil
}

// Fill adds n rows, with numbers after last. The caller must have locked the item's row in tx and
// checked that the generation is current, and must take the units from the row.
func (p Pool) Fill(tx *gorm.DB, last, n int64) error {
	rows := make([]Unit, n)
	for i := range rows {
		rows[i] = Unit{p.SKU, p.Generation, last + 1 + int64(i)}
	}
	if err := tx.Create(&rows).Error; err != nil {
		return fmt.Errorf("adding %d units to the pool of %s: %w", n, p.SKU, err)
	}
	return nil
}

// Drain removes the pool and returns how many rows it had. The caller must have locked the item's
// row in tx, so that no pool is filled. Drain waits for the claims that are under way: when it
// returns, each has either written its order or never will. Rows left over from earlier generations
// are removed, too, but not counted: their units are not part of the stock.
//
// The transaction should be READ COMMITTED. Under REPEATABLE READ the server also locks the
// gaps on both sides of the pool, so that the pools of neighbouring items cannot be filled.
func (p Pool) Drain(tx *gorm.DB) (int64, error) {
	current := p.rows(tx).Delete(&Unit{})
	if current.Error != nil {
		return 0, fmt.Errorf("draining the pool of %s: %w", p.SKU, current.Error)
	}
	if err := tx.Where("sku = ?", p.SKU).Delete(&Unit{}).Error; err != nil {
		return 0, fmt.Errorf("removing the earlier pools of %s: %w", p.SKU, err)
	}
	return current.RowsAffected, nil
}

// UnitsInPool is the number of rows to which an item's pool is filled. The pool has more if one
// order needs more, or if claims under way have locked most of them.
const UnitsInPool = 200

// Units returns a Guard with one row for each available unit. A buyer claims rows that nobody else
// has locked, with SELECT … FOR UPDATE SKIP LOCKED, in the transaction that writes the order. So
// claims do not wait for each other, and none of them writes the item's row. The item's row counts
// the units that have no row of their own yet. A buyer that finds too few rows moves up to size
// units from it to the pool, or waits while another buyer does. See Pool.
//
// A buyer that finds all units locked gives up its slot and tries again later, so that buyers of
// other items get a turn.
func Units(db *gorm.DB, size int64) Guard {
	shared := &pools{size: size, filling: semaphore.NewWeighted(maxFillings)}
	unusable := needsMySQL(db, "SELECT … FOR UPDATE SKIP LOCKED")
	return &repeated{slots: semaphore.NewWeighted(maxConditional), unusable: unusable,
		once: func(ctx, _ context.Context, at Location, section Section) error {
			return section(ctx, pooled{ledger{store: store{db}, at: at}, shared})
		}}
}

// maxFillings limits how many pools this process fills at the same time. Each filling needs a
// connection of its own while it waits for the item's row.
const maxFillings = 8

// pools holds what all buyers of this process share.
type pools struct {
	size    int64
	fills   singleflight.Group // buyers of an item that find too few rows share a filling
	filling *semaphore.Weighted
}

// pooled takes units from the pool, regardless of what Get has read.
type pooled struct {
	ledger
	*pools
}

// Get returns the units in the pool and in the item's row.
func (p pooled) Get(ctx context.Context) (int64, error) {
	item, err := p.current(ctx)
	return item.left(), err
}

// readCommitted holds the options of a transaction with a claim; see Pool.Claim.
var readCommitted = &sql.TxOptions{Isolation: sql.LevelReadCommitted}

const (
	// maxFilled is how many times a buyer fills the pool if others keep claiming the rows first.
	maxFilled = 5
	// fillPatience is how long a buyer keeps its slot while the pool is filled. Most
	// fillings are over by then.
	fillPatience = 50 * time.Millisecond
)

// sell returns errConflict if other claims have locked the remaining units: those claims may be
// rolled back.
func (p pooled) sell(ctx context.Context, _ int64, order *Order) error {
	pool := Pool{SKU: p.at.SKU, Generation: p.at.Generation}
	err := p.claim(ctx, pool, order)
	for range maxFilled {
		if !errors.Is(err, ErrFew) {
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
// ErrFew.
func (p pooled) claim(ctx context.Context, pool Pool, order *Order) error {
	return p.commit(ctx, order, func(tx *gorm.DB) error {
		err := pool.Claim(tx, order.Quantity)
		if errors.Is(err, ErrFew) {
			return fmt.Errorf("%w: %w", errConflict, err)
		}
		return err
	}, readCommitted)
}

// filling is the result of filling a pool: the free rows, and all units left, including locked
// ones.
type filling struct{ free, left int64 }

// fill fills the pool from the item's row, and reports whether n rows are free now. It returns a
// tooFewError if fewer than n units are left, and errOtherSale if the generation is over. It waits
// for at most fillPatience; the filling, which others share, goes on.
func (p pooled) fill(ctx context.Context, pool Pool, n int64) (enough bool, err error) {
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

// fillOnce fills the pool up to size rows, or until the item's row has no more units. It locks the
// item's row, so that only one process at a time fills the pool, and no process fills it after the
// generation has ended.
func (p pooled) fillOnce(ctx context.Context, pool Pool, size, n int64) (f filling, err error) {
	ctx, cancel := limited(ctx)
	defer cancel()
	if p.filling.Acquire(ctx, 1) != nil {
		return filling{}, fmt.Errorf("filling the pool of %s: others are being filled: %w",
			pool.SKU, context.Cause(ctx))
	}
	defer p.filling.Release(1)
	err = p.on().changeWithin(ctx, func(tx store) error {
		f, err = p.fillIn(tx.db, pool, size, n)
		return err
	}, readCommitted)
	if err != nil {
		return filling{}, fmt.Errorf("filling the pool of %s: %w", pool.SKU, err)
	}
	return f, nil
}

// fillIn adds rows if fewer than n are free. It fills the pool up to size, and adds at least half
// of size: the existing rows may stay locked for long, and not every later buyer should have to
// write the item's row.
func (p pooled) fillIn(tx *gorm.DB, pool Pool, size, n int64) (filling, error) {
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
	free, err := pool.lock(tx, n)
	if err != nil {
		return filling{}, err
	}
	if f.free = int64(len(free)); f.free >= n || item.Remaining == 0 {
		return f, nil
	}
	added := min(item.Remaining, max(size-there, size/2, n-f.free))
	if err := pool.Fill(tx, last, added); err != nil {
		return filling{}, err
	}
	f.free += added
	return f, p.update(tx, gorm.Expr("remaining - ?", added), nil)
}
