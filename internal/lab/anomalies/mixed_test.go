package anomalies

import (
	"os"
	"path/filepath"
	"testing"

	"oversell/internal/backend/backendtest"
	"oversell/internal/lab"
)

// A cell's database is removed at the end of the cell, even if nobody has bought anything.
func TestFlashSaleLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Setenv("TMP", dir) // for Windows
	run(t, lab.Config{Subjects: []lab.Subject{subject(t, "v4_lua")}, Scenarios: called(t, "mixed-strategies"),
		Redis: lab.Embedded})
	c := tried(t, lab.Scenario{Run: func(w *lab.World) lab.Verdict {
		openFlashSale(w, 1)
		lab.Need(false, "no way")
		return lab.Verdict{}
	}})
	if c.Outcome != lab.Unknown || c.Note != "no way" {
		t.Errorf("%s: %s", c.Outcome, c.Note)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("%v is left: %v", left, err)
	}
}

// A cell leaves no rows in a database that outlives it, even if holds are open.
func TestCellsLeaveNoRows(t *testing.T) {
	file := "sqlite:" + filepath.Join(t.TempDir(), "lab.db")
	run(t, lab.Config{Subjects: Holds().Subjects, Scenarios: []lab.Scenario{latePayment, clockDiffers},
		Redis: lab.Embedded, Database: file})
	db := backendtest.DialDatabase(t, file)
	tables, err := db.Migrator().GetTables()
	if err != nil || len(tables) < 5 {
		t.Fatal(tables, err)
	}
	for _, table := range tables {
		var rows int64
		if err := db.Table(table).Count(&rows).Error; err != nil || rows > 0 {
			t.Errorf("%s has %d rows, %v", table, rows, err)
		}
	}
}
