package anomalies

import (
	"os"
	"slices"
	"strings"
	"testing"

	"oversell/internal/lab"
	"oversell/internal/stock"
)

// told reports whether an event of the actor has the text.
func told(c lab.Cell, actor, text string) bool {
	return slices.ContainsFunc(c.Trace, func(e lab.Event) bool {
		return e.Actor == actor && strings.Contains(e.Text, text)
	})
}

// Without -mixed the shop keeps strategies apart: before A has sold, B is refused with the name of
// the strategy at work. B buys after that.
func TestStrategiesTakeTurns(t *testing.T) {
	for _, strategy := range []string{"none", "v6_watchdog", "v9_cohort"} {
		c := cellOf(t, "strategies-take-turns", strategy)
		if c.Outcome != lab.Holds || !told(c, "B", stock.ErrOtherStrategy.Error()+": "+strategy) {
			t.Errorf("%s: %s: %s", strategy, c.Outcome, c.Note)
		}
		var steps []string
		for _, e := range c.Trace {
			switch {
			case strings.Contains(e.Text, stock.ErrOtherStrategy.Error()):
				steps = append(steps, e.Actor+" is refused")
			case e.Kind == lab.Release, e.Text == "has sold a unit":
				steps = append(steps, e.Actor+" "+e.Text)
			}
		}
		want := []string{"B is refused", "A leaves the section", "A has sold a unit", "B has sold a unit"}
		if !slices.Equal(steps, want) {
			t.Errorf("%s: %q, want %q", strategy, steps, want)
		}
	}
}

// The database of a cell is removed with the cell, even if nobody buys anything.
func TestFlashSaleLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Setenv("TMP", dir) // of Windows
	cellOf(t, "mixed-strategies", "v4_lua")
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
