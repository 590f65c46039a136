package show_test

import (
	"strings"
	"testing"
	"time"

	"oversell/internal/lab"
	"oversell/internal/lab/show"
)

// A cell holds only because its lock never expires if one holder keeps a lock without an expiry for
// longer than a lease. A cell in which the lock changes hands, or that breaks, does not count.
func TestOnlyEndlessNeedsALeaseToPass(t *testing.T) {
	m := lab.Manifest{TTL: 100 * time.Millisecond}
	held := func(at float64, by string) lab.Event { return lab.Event{At: at, Kind: lab.Command, Lock: by} }
	for name, tt := range map[string]struct {
		outcome lab.Outcome
		trace   []lab.Event
		want    bool
	}{
		"held for longer":  {lab.Holds, []lab.Event{held(0, "A"), held(101, "A")}, true},
		"held for a lease": {lab.Holds, []lab.Event{held(0, "A"), held(100, "A")}, false},
		"handed on":        {lab.Holds, []lab.Event{held(0, "A"), held(60, "B"), held(120, "B")}, false},
		"free in between":  {lab.Holds, []lab.Event{held(0, "A"), held(60, "free"), held(120, "A")}, false},
		"with an expiry": {lab.Holds, []lab.Event{{Lock: "A", TTL: ms(100)}, {At: 150, Lock: "A", TTL: ms(50)}},
			false},
		"breaks": {lab.Breaks, []lab.Event{held(0, "A"), held(101, "A")}, false},
		"the clock is set ahead": {lab.Holds, []lab.Event{held(0, "A"),
			{At: 5, Kind: lab.Fault, Text: "the clock of the server jumps ahead by 1s", Lock: "A"}}, true},
		"the clock is set back": {lab.Holds, []lab.Event{held(0, "A"),
			{At: 5, Kind: lab.Fault, Text: "the clock of the server is set back by 1s", Lock: "A"}}, false},
		"another fault": {lab.Holds, []lab.Event{held(0, "A"),
			{At: 5, Kind: lab.Fault, Actor: "A", Text: "frozen"}}, false},
		"nothing is in Redis": {lab.Holds, []lab.Event{{At: 0, Kind: lab.Hold}, {At: 500, Kind: lab.Release}}, false},
	} {
		if got := show.OnlyEndless(m, lab.Cell{Outcome: tt.outcome, Trace: tt.trace}); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
	repeated := lab.Cell{Outcome: lab.Holds, TTL: 4 * m.TTL, Trace: []lab.Event{held(0, "A"), held(101, "A")}}
	if show.OnlyEndless(m, repeated) {
		t.Error("less than the lease of a repeated cell is taken for longer than a lease")
	}
}

// A table marks the cells that hold only because a lock never expires. If it has such a cell, its legend
// explains the mark. The verdict of the cell states the reason in words.
func TestTheTableMarksWhatOnlyEndlessLocksHold(t *testing.T) {
	held := func(at float64) lab.Event { return lab.Event{At: at, Kind: lab.Command, Lock: "A"} }
	cell := lab.Cell{Anomaly: "long-work", Strategy: "v1_setnx", Outcome: lab.Holds, Expected: lab.Holds,
		Trace: []lab.Event{held(0), held(101)}}
	for _, endless := range []bool{true, false} {
		if !endless {
			cell.Trace = cell.Trace[:1]
		}
		r := lab.Report{
			Manifest:  lab.Manifest{TTL: 100 * time.Millisecond, Strategies: []string{"v1_setnx"}},
			Anomalies: []lab.Anomaly{{Name: "long-work"}}, Cells: []lab.Cell{cell},
		}
		for name, draw := range map[string]func(*strings.Builder) error{
			"matrix": func(b *strings.Builder) error { return show.Matrix(b, r, show.Style{}) },
			"page":   func(b *strings.Builder) error { return show.HTML(b, r, show.Style{}) },
		} {
			var b strings.Builder
			if err := draw(&b); err != nil {
				t.Fatal(err)
			}
			got := b.String()
			marks := strings.Count(got, "ok∞") + strings.Count(got, `">ok ∞</a>`)
			if (marks == 1) != endless || name == "matrix" &&
				strings.Contains(got, "only because its lock never expires") != endless {
				t.Errorf("%s, endless %v: %d marks\n%s", name, endless, marks, got)
			}
		}
		got := timeline(t, r, r.Cells[0], show.Style{})
		if strings.Contains(got, "holds only because its lock never expires, as recorded") != endless {
			t.Errorf("endless %v:\n%s", endless, got)
		}
	}
}
