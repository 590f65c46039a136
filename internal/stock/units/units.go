// Package units has one row for each unit of an item that a buyer can claim now: its pool.
// A buyer claims rows that nobody else has locked, so claims do not wait for each other,
// and no row is hot. The pool is filled from the item's row, a bounded number of units at a
// time: pool, item's row and orders together have all units of the sale, at every commit.
// Those who fill and drain the pool do wait: for the item's row, and for claims under way.
//
// The rows are also what makes a claim current. They name the generation of the stock, and
// who ends a generation drains its pool in the same transaction. So a claim needs no look
// at the item's row: it finds rows of its generation, or the generation is over.
package units

import (
	"errors"
	"fmt"

	"github.com/go-sql-driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// ErrFew means that too few rows of a pool are free. Others may have locked some, or the
// pool needs to be filled, or the generation is over.
var ErrFew = errors.New("too few rows of the pool are free")

// Row is a unit that can be claimed. The claim deletes it.
type Row struct {
	SKU        string `gorm:"primaryKey;size:64"`
	Generation string `gorm:"primaryKey;size:36"`
	Unit       int64  `gorm:"primaryKey;autoIncrement:false"` // unique in the pool
}

func (Row) TableName() string { return "oversell_units" }

// Count is SQL for the number of rows in the pool of a row of the items. In one statement
// with that row it is read from one snapshot.
const Count = "(SELECT COUNT(*) FROM oversell_units WHERE oversell_units.sku = oversell_items.sku AND " +
	"oversell_units.generation = oversell_items.generation)"

// Pool is the pool of one generation of an item's stock.
type Pool struct{ SKU, Generation string }

func (p Pool) rows(tx *gorm.DB) *gorm.DB {
	return tx.Model(&Row{}).Where("sku = ? AND generation = ?", p.SKU, p.Generation)
}

// Claim takes n units that nobody else has locked, all or none, in a transaction that
// writes their order. It returns ErrFew at once if there are not so many.
//
// The transaction must be READ COMMITTED. Under REPEATABLE READ the server also locks the
// gaps between the rows, and the rows of claims that were committed a moment ago, so that
// buyers wait for each other and for the next filling after all.
//
// Each row is deleted by its whole key, with a statement of its own. For one DELETE with a
// list of units, MariaDB reads the whole table or index as soon as the list is a good part
// of it, and so waits for the rows of other claims, and deadlocks with them.
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
		claimed := p.rows(tx).Where("unit = ?", unit).Delete(&Row{})
		if claimed.Error != nil {
			return fmt.Errorf("claiming unit %d of %s: %w", unit, p.SKU, claimed.Error)
		}
		if claimed.RowsAffected != 1 {
			return fmt.Errorf("claiming unit %d of %s, which another claim has deleted: %w", unit, p.SKU, ErrFew)
		}
	}
	return nil
}

// lock locks up to n rows that nobody else has locked, until the end of tx.
func (p Pool) lock(tx *gorm.DB, n int64) (free []int64, err error) {
	skip := clause.Locking{Strength: clause.LockingStrengthUpdate, Options: clause.LockingOptionsSkipLocked}
	if err := p.rows(tx).Clauses(skip).Order("unit").Limit(int(n)).Pluck("unit", &free).Error; err != nil {
		return nil, fmt.Errorf("locking %d free units: %w", n, unknown(err))
	}
	return free, nil
}

// Free returns how many rows nobody else has locked, and counts no more than most. It locks them
// until the end of tx, which must be READ COMMITTED.
func (p Pool) Free(tx *gorm.DB, most int64) (int64, error) {
	free, err := p.lock(tx, most)
	return int64(len(free)), err
}

// unknown says which servers know the statement, if err means that this one does not.
func unknown(err error) error {
	const erParse = 1064
	var serverErr *mysql.MySQLError
	if errors.As(err, &serverErr) && serverErr.Number == erParse {
		return fmt.Errorf("the server has no SKIP LOCKED; use MySQL 8 or MariaDB 10.6, or a later one: %w", err)
	}
	return err
}

// Size returns the number of rows in the pool and the largest number of one. It counts the
// rows that others have locked, because a claim that is not committed may be rolled back.
func (p Pool) Size(tx *gorm.DB) (rows, last int64, err error) {
	var found struct{ Pooled, Last int64 }
	err = p.rows(tx).Select("COUNT(*) AS pooled, COALESCE(MAX(unit), 0) AS last").Scan(&found).Error
	if err != nil {
		return 0, 0, fmt.Errorf("counting the pool of %s: %w", p.SKU, err)
	}
	return found.Pooled, found.Last, nil
}

// Fill adds n rows, with numbers after last. The caller has locked the item's
// row in tx, has checked that the generation is current, and takes the units from the row.
func (p Pool) Fill(tx *gorm.DB, last, n int64) error {
	rows := make([]Row, n)
	for i := range rows {
		rows[i] = Row{p.SKU, p.Generation, last + 1 + int64(i)}
	}
	if err := tx.Create(&rows).Error; err != nil {
		return fmt.Errorf("adding %d units to the pool of %s: %w", n, p.SKU, err)
	}
	return nil
}

// Drain removes the pool and returns how many rows it had. The caller has locked the item's
// row in tx, so that no pool is filled. Drain waits for the claims that are under way: their
// orders are written before it returns, or never. Rows that the item's earlier generations
// may have left are removed too, and do not count: their units are not part of the stock.
//
// The transaction should be READ COMMITTED. Under REPEATABLE READ the server also locks the
// gaps on both sides of the pool, so that the pools of neighbouring items cannot be filled.
func (p Pool) Drain(tx *gorm.DB) (int64, error) {
	current := p.rows(tx).Delete(&Row{})
	if current.Error != nil {
		return 0, fmt.Errorf("draining the pool of %s: %w", p.SKU, current.Error)
	}
	if err := tx.Where("sku = ?", p.SKU).Delete(&Row{}).Error; err != nil {
		return 0, fmt.Errorf("removing the earlier pools of %s: %w", p.SKU, err)
	}
	return current.RowsAffected, nil
}
