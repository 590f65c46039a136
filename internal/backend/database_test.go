package backend_test

import (
	"context"
	"errors"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gorm.io/gorm"

	"oversell/internal/backend"
	"oversell/internal/backend/backendtest"
	"oversell/internal/backend/local"
)

// record is a row of a table with the column types that databases treat differently.
type record struct {
	ID        uint
	Name      string `gorm:"uniqueIndex;size:64"`
	Stock     int
	CreatedAt time.Time
}

func TestDatabaseRoundTrip(t *testing.T) {
	backendtest.EachDatabase(t, func(t *testing.T, db *gorm.DB) {
		backendtest.Must(t, db.AutoMigrate(&record{}))
		if !db.Migrator().HasTable("oversell_records") {
			t.Error("no table with the project's prefix")
		}
		in := record{Name: "größe 時計"}
		backendtest.Must(t, db.Create(&in).Error)
		if err := db.Create(&record{Name: in.Name}).Error; !errors.Is(err, gorm.ErrDuplicatedKey) {
			t.Errorf("second of a unique name: %v, want gorm.ErrDuplicatedKey", err)
		}
		var out record
		backendtest.Must(t, db.First(&out, "name = ?", in.Name).Error)
		if !out.CreatedAt.Equal(in.CreatedAt) || out.CreatedAt.Location() != time.UTC {
			t.Errorf("time %v came back as %v", in.CreatedAt, out.CreatedAt)
		}
	})
}

// The name of a database contains the path of a permanent file, so that it is not mistaken for a temporary
// one. The name of a server does not contain the user.
func TestDatabaseName(t *testing.T) {
	for spec, want := range map[string]string{
		"embedded": `^SQLite 3\.\S+ \(embedded\)$`, "file": `^SQLite 3\.\S+ in \S*/sales\.db$`,
		"local": `^M\S+ \S+ at 127\.0\.0\.1:\d+$`,
	} {
		t.Run(spec, func(t *testing.T) {
			url := "sqlite:" + filepath.Join(t.TempDir(), "sales.db")
			if spec != "file" {
				url = backendtest.Database(t, spec)
			}
			name, err := backend.DatabaseName(t.Context(), backendtest.DialDatabase(t, url))
			if err != nil || !regexp.MustCompile(want).MatchString(name) {
				t.Errorf("name %q, %v; want it to match %q", name, err, want)
			}
		})
	}
}

func addOne(db *gorm.DB) error {
	return db.Model(&record{}).Where("1 = 1").Update("stock", gorm.Expr("stock + 1")).Error
}

func TestSQLiteFileStays(t *testing.T) {
	spec := "sqlite:" + filepath.Join(t.TempDir(), "keep #1 %41.db")
	for i := range 2 {
		s, err := backend.ServeDatabase(t.Context(), spec)
		backendtest.Must(t, err)
		db, err := backend.DialDatabase(t.Context(), s.URL)
		backendtest.Must(t, err)
		backendtest.Must(t, db.AutoMigrate(&record{}))
		var n int64
		if db.Model(&record{}).Count(&n); n != int64(i) {
			t.Errorf("opening %d finds %d rows", i, n)
		}
		db.Create(&record{Name: "kept"})
		pool, err := db.DB()
		backendtest.Must(t, err)
		if err := errors.Join(pool.Close(), s.Close()); err != nil {
			t.Error(err)
		}
	}
	if left, _ := filepath.Glob(strings.TrimPrefix(spec, "sqlite:") + "*"); len(left) != 1 {
		t.Errorf("files %q, want the one", left)
	}
}

// TestSQLiteWritersTakeTurns checks that no writer starves while another client writes without
// a pause. It counts the other client's writes in between, and does not measure time.
func TestSQLiteWritersTakeTurns(t *testing.T) {
	url := backendtest.Database(t, "embedded")
	setup := backendtest.DialDatabase(t, url)
	backendtest.Must(t, setup.AutoMigrate(&record{}))
	setup.Create(&record{Name: "item"})
	const patience = 2000 // most writes of the other client before a waiting write is done
	var turns atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	hog, waiting := backendtest.DialDatabase(t, url), backendtest.DialDatabase(t, url)
	wg.Go(func() { writeUntil(ctx, t, hog, &turns) })
	for range 3 {
		before := turns.Load()
		if err := addOne(waiting); err != nil {
			t.Errorf("after %d turns of the other one: %v", turns.Load()-before, err)
		}
		if waited := turns.Load() - before; waited > patience {
			t.Errorf("waited for %d turns of the other one, want at most %d", waited, patience)
		}
	}
	cancel()
	wg.Wait()
}

// writeUntil runs one writing transaction after another until ctx ends, and counts them in turns.
func writeUntil(ctx context.Context, t *testing.T, db *gorm.DB, turns *atomic.Int64) {
	for ctx.Err() == nil {
		err := db.Transaction(func(tx *gorm.DB) error {
			time.Sleep(3 * time.Millisecond)
			return addOne(tx)
		})
		if err != nil {
			t.Error(err)
		}
		turns.Add(1)
	}
}

// A transaction holds a lock, and other transactions use all other connections to wait for that lock. A
// query outside waits for a connection. If the first transaction now runs the same query, it gets an
// answer, and does not wait for the query outside.
func TestTransactionDoesNotWaitForAQueryOutside(t *testing.T) {
	backendtest.EachDatabase(t, func(t *testing.T, db *gorm.DB) {
		backendtest.Must(t, db.AutoMigrate(&record{}))
		pool, err := db.DB()
		backendtest.Must(t, err)
		query := func(db *gorm.DB) error {
			var n int64
			return db.Model(&record{}).Where("name = ?", t.Name()).Count(&n).Error
		}
		holder := db.Begin()
		backendtest.Must(t, holder.Create(&record{Name: "locked"}).Error)
		var others sync.WaitGroup
		for range pool.Stats().MaxOpenConnections - 1 {
			others.Go(func() {
				if err := db.Transaction(func(tx *gorm.DB) error {
					return tx.Where("name = ?", "locked").Delete(&record{}).Error
				}); err != nil {
					t.Error(err)
				}
			})
		}
		for pool.Stats().InUse < pool.Stats().MaxOpenConnections {
			time.Sleep(time.Millisecond)
		}
		others.Go(func() {
			if err := query(db); err != nil {
				t.Error(err)
			}
		})
		for pool.Stats().WaitCount == 0 {
			time.Sleep(time.Millisecond)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := query(holder.WithContext(ctx)); err != nil {
			t.Errorf("the transaction waits for a query that waits for it: %v", err)
		}
		holder.Rollback()
		others.Wait()
	})
}

// A writer that waits for SQLite's lock stops waiting when its context ends.
func TestSQLiteWaitEndsWithContext(t *testing.T) {
	db := backendtest.DialDatabase(t, backendtest.Database(t, "embedded"))
	holder := db.Begin()
	defer holder.Rollback()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	err := db.WithContext(ctx).Begin().Error
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want context.DeadlineExceeded", err)
	}
	if took := time.Since(start); took > time.Second+backendtest.Slack {
		t.Errorf("the caller's 50 ms ended the wait after %v: %v", took, err)
	}
}

// If a database is unavailable, hangs or refuses, an error without the password is returned soon. The
// connections recover afterwards.
func TestDatabaseThatFails(t *testing.T) {
	server := backendtest.RestartableDatabase(t)
	for name, url := range map[string]string{
		"refused":        "u:secret@tcp(127.0.0.1:1)/db",
		"wrong password": "u:secret@tcp(" + server.Addr + ")/" + local.DatabaseName,
		"no database":    strings.Replace(server.URL, "/"+local.DatabaseName, "/none", 1),
		"no folder":      "sqlite:/no/such/folder/file.db",
	} {
		t.Run(name, func(t *testing.T) { checkDatabaseUnreachable(t, url) })
	}
	db := backendtest.DialDatabase(t, server.URL)
	backendtest.Must(t, db.AutoMigrate(&record{}))
	backendtest.Must(t, db.Create(&record{Name: "kept"}).Error)
	backendtest.Must(t, server.Pause())
	t.Run("hung", func(t *testing.T) { checkDatabaseUnreachable(t, server.URL) })
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	start := time.Now()
	if err := db.WithContext(ctx).Exec("SELECT 1").Error; err == nil {
		t.Error("a hung server answers")
	}
	if took := time.Since(start); took > time.Second+backendtest.Slack {
		t.Errorf("the caller's 100 ms ended the statement after %v", took)
	}
	backendtest.Must(t, server.Continue())
	within(t, 2*time.Second+backendtest.Slack, func() error { return db.Exec("SELECT 1").Error })

	server.Kill()
	start = time.Now()
	for range 5 {
		if err := db.First(&record{}).Error; err == nil {
			t.Fatal("a killed server answers")
		}
	}
	if took := time.Since(start); took > 2*time.Second+backendtest.Slack {
		t.Errorf("5 errors took %v", took)
	}
	backendtest.Must(t, server.Restart(t.Context()))
	within(t, 2*time.Second+backendtest.Slack, func() error { return db.First(&record{}).Error })
}

func checkDatabaseUnreachable(t *testing.T, url string) {
	t.Helper()
	start := time.Now()
	_, err := backend.DialDatabase(t.Context(), url)
	if !errors.Is(err, backend.ErrUnreachable) || strings.Contains(err.Error(), "secret") {
		t.Errorf("error %v, want ErrUnreachable without the password", err)
	}
	if took := time.Since(start); took > 3*time.Second+backendtest.Slack {
		t.Errorf("it took %v", took)
	}
}
