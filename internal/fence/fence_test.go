package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"gorm.io/gorm"

	"oversell/internal/backend/backendtest"
	"oversell/internal/fence"
)

func TestMain(m *testing.M) { os.Exit(backendtest.Main(m)) }

// After the next holder has read the value, the late holder can neither read nor write it.
func TestLateHolderIsRefusedByAValue(t *testing.T) {
	backendtest.EachRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		ctx := t.Context()
		v := fence.Value{Client: rdb, Key: "{stock}", Fence: "{stock}:fence"}
		if _, err := v.Get(ctx, 1); !errors.Is(err, fence.ErrMissing) {
			t.Errorf("reading nothing: %v, want %v", err, fence.ErrMissing)
		}
		if err := v.Set(ctx, 1, 5); !errors.Is(err, fence.ErrMissing) {
			t.Errorf("writing to nothing: %v, want %v", err, fence.ErrMissing)
		}
		backendtest.Must(t, rdb.Set(ctx, v.Key, 10, time.Hour).Err())
		wantValue(t, v, 7, "10")
		backendtest.Must(t, v.Set(ctx, 7, 9))
		wantValue(t, v, 8, "9") // the next holder
		if err := v.Set(ctx, 7, 3); !errors.Is(err, fence.ErrStaleToken) {
			t.Errorf("a late write: %v, want %v", err, fence.ErrStaleToken)
		}
		if _, err := v.Get(ctx, 7); !errors.Is(err, fence.ErrStaleToken) || err != (fence.StaleError{Seen: 8}) {
			t.Errorf("a late read: %#v, want that 8 has been seen", err)
		}
		if err := v.Set(ctx, 8, 8); err != nil {
			t.Error(err)
		}
		wantValue(t, v, 8, "8")
		for _, key := range []string{v.Key, v.Fence} {
			if left, err := rdb.TTL(ctx, key).Result(); err != nil || left <= 0 || left > time.Hour {
				t.Errorf("%s expires in %v, %v; want the hour that the value had", key, left, err)
			}
		}
		backendtest.Must(t, rdb.Persist(ctx, v.Key).Err())
		wantValue(t, v, 8, "8")
		if left, err := rdb.TTL(ctx, v.Fence).Result(); err != nil || left != -1 {
			t.Errorf("the fence of a value that stays expires in %v, %v", left, err)
		}
	})
}

func wantValue(t *testing.T, v fence.Value, token int64, want string) {
	t.Helper()
	if got, err := v.Get(t.Context(), token); got != want || err != nil {
		t.Errorf("the holder with token %d read %q, %v; want %q", token, got, err, want)
	}
}

// The tokens of two locks cannot be compared. If both guard one value, the holder that read last may write.
func TestLocksAreNotCompared(t *testing.T) {
	backendtest.EachRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		old := fence.Value{Client: rdb, Key: "{stock}", Fence: "{stock}:fence", Lock: "old"}
		changed := old
		changed.Lock = "new"
		backendtest.Must(t, rdb.Set(t.Context(), old.Key, 10, 0).Err())
		wantValue(t, old, 1000, "10")
		wantValue(t, changed, 1, "10")
		if err := old.Set(t.Context(), 1000, 9); !errors.Is(err, fence.ErrStaleToken) {
			t.Errorf("the holder of the old lock: %v, want %v", err, fence.ErrStaleToken)
		}
		if err := changed.Set(t.Context(), 1, 9); err != nil {
			t.Error(err)
		}
	})
}

// table creates the table of fences, with one resource in it, and returns the database.
func table(t *testing.T, db *gorm.DB) *sql.DB {
	t.Helper()
	pool, err := db.DB()
	backendtest.Must(t, err)
	for _, statement := range []string{
		fence.Schema, "INSERT INTO fences (resource) VALUES ('stock'), ('07')",
		"CREATE TABLE counters (n BIGINT NOT NULL)", "INSERT INTO counters (n) VALUES (0)",
	} {
		if _, err := pool.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	return pool
}

// holding runs f in a transaction that first shows the token for the resource.
func holding(ctx context.Context, db *sql.DB, token int64, resource string, f func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	err = fence.Show(ctx, tx, resource, token)
	if err == nil {
		err = f(tx)
	}
	if err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

func nothing(*sql.Tx) error { return nil }

// A late holder's transaction is refused. The current holder may start another transaction.
func TestLateHolderIsRefusedByATransaction(t *testing.T) {
	backendtest.EachDatabase(t, func(t *testing.T, gdb *gorm.DB) {
		db := table(t, gdb)
		for _, step := range []struct {
			token    int64
			resource string
			want     error
		}{
			{7, "stock", nil}, {7, "stock", nil}, {8, "stock", nil}, {7, "stock", fence.ErrStaleToken},
			{8, "stock", nil}, {1, "stock", fence.ErrStaleToken}, {9, "prices", fence.ErrMissing},
			{9, "STOCK", fence.ErrMissing}, {9, "stock ", fence.ErrMissing}, {9, "7", fence.ErrMissing},
		} {
			if err := holding(t.Context(), db, step.token, step.resource, nothing); !errors.Is(err, step.want) {
				t.Errorf("token %d to %s: %v, want %v", step.token, step.resource, err, step.want)
			}
		}
	})
}

// Transactions that show their tokens first lose no update, regardless of their order.
func TestTransactionsAreOneAfterTheOther(t *testing.T) {
	backendtest.EachDatabase(t, func(t *testing.T, gdb *gorm.DB) {
		db := table(t, gdb)
		var all sync.WaitGroup
		results := make(chan error, 20)
		for token := range cap(results) {
			all.Go(func() {
				sell := func(tx *sql.Tx) error { return count(t.Context(), tx) }
				results <- holding(t.Context(), db, int64(token+1), "stock", sell)
			})
		}
		all.Wait()
		close(results)
		accepted := 0
		for err := range results {
			switch {
			case err == nil:
				accepted++
			case !errors.Is(err, fence.ErrStaleToken):
				t.Error(err)
			}
		}
		var n int
		backendtest.Must(t, db.QueryRowContext(t.Context(), "SELECT n FROM counters").Scan(&n))
		if n != accepted || n == 0 {
			t.Errorf("%d were accepted and counted to %d", accepted, n)
		}
	})
}

// count reads the counter and writes it back, like a holder that relies on its lock.
func count(ctx context.Context, tx *sql.Tx) error {
	var n int
	if err := tx.QueryRowContext(ctx, "SELECT n FROM counters").Scan(&n); err != nil {
		return fmt.Errorf("reading the counter: %w", err)
	}
	if _, err := tx.ExecContext(ctx, "UPDATE counters SET n = ?", n+1); err != nil {
		return fmt.Errorf("writing the counter: %w", err)
	}
	return nil
}
