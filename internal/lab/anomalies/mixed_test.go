package anomalies

import (
	"os"
	"testing"

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
