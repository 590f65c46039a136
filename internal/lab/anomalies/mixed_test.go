package anomalies

import (
	"os"
	"testing"

	"oversell/internal/lab"
)

// The database of a cell is removed with the cell, even if nobody buys anything.
func TestFlashSaleLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Setenv("TMP", dir) // of Windows
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
