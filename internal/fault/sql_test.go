package fault_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"

	"gorm.io/gorm"

	"oversell/internal/backend"
	"oversell/internal/backend/backendtest"
	"oversell/internal/fault"
)

func TestMain(m *testing.M) { os.Exit(backendtest.Main(m)) }

// gate records the statements that pass through it.
type gate struct {
	passed []string
	breaks string // the statement that breaks the connection, if not ""
}

func (g *gate) hook(_ context.Context, s fault.Statement, send func() (fault.Reply, error)) error {
	if s.Text == g.breaks {
		return fault.ErrBroken
	}
	reply, err := send()
	where := ""
	if s.InTx {
		where = "in a transaction: "
	}
	g.passed = append(g.passed, where+s.Text+" → "+reply.String())
	return err
}

// each runs f on each kind of database, behind a gate, with a table that contains one number.
func each(t *testing.T, f func(t *testing.T, g *gate, db *gorm.DB)) {
	for _, spec := range backendtest.Kinds() {
		t.Run(spec, func(t *testing.T) {
			url := backendtest.Database(t, spec)
			g := new(gate)
			db, err := backend.DialDatabaseThrough(t.Context(), url, fault.Injector{Hook: g.hook}.Through)
			backendtest.Must(t, err)
			pool, err := db.DB()
			backendtest.Must(t, err)
			t.Cleanup(func() { _ = pool.Close() })
			for _, text := range []string{
				"DROP TABLE IF EXISTS oversell_gate",
				"CREATE TABLE oversell_gate (id INT PRIMARY KEY, n INT, name VARCHAR(20))",
				"INSERT INTO oversell_gate VALUES (1, 10, 'größe'), (2, 20, NULL)",
			} {
				backendtest.Must(t, db.Exec(text).Error)
			}
			g.passed = nil
			f(t, g, db)
		})
	}
}

const (
	update = "UPDATE oversell_gate SET n = n + ? WHERE id = ?"
	read   = "SELECT n FROM oversell_gate WHERE id = ?"
)

func number(t *testing.T, db *gorm.DB) (n int) {
	t.Helper()
	backendtest.Must(t, db.Raw(read, 1).Scan(&n).Error)
	return n
}

func TestEverythingPasses(t *testing.T) {
	each(t, func(t *testing.T, g *gate, db *gorm.DB) {
		err := db.Transaction(func(tx *gorm.DB) error {
			return tx.Exec(update, 5, 1).Error
		})
		backendtest.Must(t, err)
		failed := errors.New("no")
		if err := db.Transaction(func(*gorm.DB) error { return failed }); !errors.Is(err, failed) {
			t.Error(err)
		}
		var rows []struct {
			N    int
			Name *string
		}
		const all = "SELECT n, name FROM oversell_gate ORDER BY id"
		backendtest.Must(t, db.Raw(all).Scan(&rows).Error)
		if len(rows) != 2 || rows[0].N != 15 || *rows[0].Name != "größe" || rows[1].Name != nil {
			t.Errorf("%+v", rows)
		}
		if number(t, db) != 15 {
			t.Error("the update is not there")
		}
		want := []string{
			"BEGIN → ok", "in a transaction: " + update + " → 1 row changed", "in a transaction: COMMIT → ok",
			"BEGIN → ok", "in a transaction: ROLLBACK → ok",
			all + " → 2 rows", read + " → 15",
		}
		if !slices.Equal(g.passed, want) {
			t.Errorf("passed %q\nwant   %q", g.passed, want)
		}
		if err := db.Exec("INSERT INTO oversell_gate VALUES (1, 10, 'a')").Error; !errors.Is(err,
			gorm.ErrDuplicatedKey) {
			t.Errorf("the database's own error is %v", err)
		}
	})
}

// A broken connection is not returned to the pool, so its transaction is rolled back.
func TestPoolDoesNotKeepABrokenConnection(t *testing.T) {
	each(t, func(t *testing.T, g *gate, db *gorm.DB) {
		g.breaks = fault.Commit
		pool, err := db.DB()
		backendtest.Must(t, err)
		err = db.Transaction(func(tx *gorm.DB) error { return tx.Exec(update, 5, 1).Error })
		if !errors.Is(err, fault.ErrBroken) {
			t.Errorf("got %v", err)
		}
		if s := pool.Stats(); s.InUse != 0 || s.OpenConnections != 0 {
			t.Errorf("connections: %+v", s)
		}
		if n := number(t, db); n != 10 {
			t.Errorf("got %d, want 10", n)
		}
	})
}
