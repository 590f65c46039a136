package stock_test

import (
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"oversell/internal/backend/backendtest"
	"oversell/internal/stock"
)

// newPool returns a pool with this many rows in MySQL or MariaDB.
func newPool(t *testing.T, rows int64) (stock.Pool, *gorm.DB) {
	t.Helper()
	db := backendtest.DialDatabase(t, backendtest.Database(t, "local"))
	p := stock.Pool{SKU: "item", Generation: "1"}
	must(t, errors.Join(db.AutoMigrate(&stock.Unit{}), p.Fill(db, 0, rows)))
	return p, db
}

// timedOut reports whether err means that a statement has waited for a lock for too long.
func timedOut(err error) bool {
	const lockWaitTimeout = 1205
	var serverErr *mysql.MySQLError
	return errors.As(err, &serverErr) && serverErr.Number == lockWaitTimeout
}

// begin begins a transaction with a short lock timeout.
func begin(t *testing.T, db *gorm.DB, level sql.IsolationLevel) *gorm.DB {
	t.Helper()
	tx := db.Begin(&sql.TxOptions{Isolation: level})
	t.Cleanup(func() { tx.Rollback() })
	must(t, tx.Exec("SET innodb_lock_wait_timeout = 1").Error)
	return tx
}

// size returns the number of rows that a plain read in tx finds.
func size(t *testing.T, p stock.Pool, tx *gorm.DB) int64 {
	t.Helper()
	rows, _, err := p.Size(tx)
	must(t, err)
	return rows
}

// meeting makes this many transactions wait for each other before their first DELETE. By then each
// has locked the rows that it will delete.
func meeting(t *testing.T, db *gorm.DB, transactions int) {
	t.Helper()
	var all sync.WaitGroup
	all.Add(transactions)
	var met sync.Map // the transactions that have arrived
	err := db.Callback().Delete().Before("gorm:delete").Register("meeting", func(tx *gorm.DB) {
		if _, again := met.LoadOrStore(tx.Statement.ConnPool, true); !again {
			all.Done()
			all.Wait()
		}
	})
	must(t, err)
}

// Concurrent claims get different rows, and none waits for another, whether a claim deletes its rows
// before or after the next claim reads. Together they get every unit of the pool, because no claim
// locks more rows than it takes.
func TestClaimsDoNotWaitForEachOther(t *testing.T) {
	for _, c := range []struct{ pool, units int64 }{{3, 1}, {21, 7}, {200, 40}} {
		for _, together := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d of %d, together %t", c.units, c.pool, together), func(t *testing.T) {
				p, db := newPool(t, c.pool)
				claims := make([]*gorm.DB, c.pool/c.units)
				for i := range claims {
					claims[i] = begin(t, db, sql.LevelReadCommitted)
				}
				if together {
					meeting(t, db, len(claims))
				}
				var all sync.WaitGroup
				for _, tx := range claims {
					claim := func() {
						if err := p.Claim(tx, c.units); err != nil {
							t.Errorf("a claim got %v", err)
						}
					}
					if together {
						all.Go(claim)
					} else {
						claim()
					}
				}
				all.Wait()
				for _, tx := range claims {
					tx.Commit()
				}
				if left := size(t, p, db); left != 0 {
					t.Errorf("%d rows are left, want none", left)
				}
			})
		}
	}
}

// A drain removes all rows of its item, and counts only those of the current generation. It does not
// wait for claims of neighbouring items. At READ COMMITTED it does not block the filling of their pools
// either; at REPEATABLE READ it does.
func TestDrainIsOfOneGenerationAndOneItem(t *testing.T) {
	waiting := map[sql.IsolationLevel]bool{sql.LevelReadCommitted: false, sql.LevelRepeatableRead: true}
	for level, waits := range waiting {
		t.Run(level.String(), func(t *testing.T) {
			p, db := newPool(t, 3)
			earlier, before, after := p, p, p
			earlier.Generation, before.SKU, after.SKU = "0", "A"+p.SKU, p.SKU+"Z"
			must(t, errors.Join(earlier.Fill(db, 0, 2), before.Fill(db, 0, 1), after.Fill(db, 0, 2)))
			first, last := begin(t, db, sql.LevelReadCommitted), begin(t, db, sql.LevelReadCommitted)
			must(t, errors.Join(before.Claim(first, 1), after.Claim(last, 1)))
			drain := begin(t, db, level)
			if drained, err := p.Drain(drain); drained != 3 || err != nil {
				t.Fatalf("the drain counted %d units, %v; want 3", drained, err)
			}
			if err := before.Fill(begin(t, db, sql.LevelReadCommitted), 1, 2); timedOut(err) != waits || !waits &&
				err != nil {
				t.Errorf("filling the pool before it got %v", err)
			}
			drain.Commit()
			var left int64
			if err := db.Model(&stock.Unit{}).Where("sku = ?", p.SKU).Count(&left).Error; err != nil || left != 0 {
				t.Errorf("%d rows are left, %v; want none", left, err)
			}
		})
	}
}

// A server that accepts FOR UPDATE SKIP LOCKED but locks nothing, such as TiDB, lets several claims
// read the same unit. One claim gets the unit, and the others get ErrFew.
func TestAUnitIsClaimedOnceWithoutLocks(t *testing.T) {
	p, db := newPool(t, 1)
	db.ClauseBuilders["FOR"] = func(clause.Clause, clause.Builder) {}
	const claims = 4
	meeting(t, db, claims)
	results := make(chan error, claims)
	for range claims {
		tx := begin(t, db, sql.LevelReadCommitted)
		go func() {
			err := p.Claim(tx, 1)
			if err != nil {
				tx.Rollback()
			} else {
				err = tx.Commit().Error
			}
			results <- err
		}()
	}
	claimed := 0
	for range claims {
		switch err := <-results; {
		case err == nil:
			claimed++
		case !errors.Is(err, stock.ErrFew):
			t.Errorf("a claim got %v", err)
		}
	}
	if claimed != 1 {
		t.Errorf("%d claims got the only unit", claimed)
	}
}
