package show_test

import (
	"strings"
	"testing"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"

	"oversell/internal/lab"
	"oversell/internal/lab/show"
	"oversell/internal/present"
)

func TestMatrix(t *testing.T) {
	text.EnableColors()
	wide := report()
	wide.Manifest.Strategies = append(wide.Manifest.Strategies, "etcd", "zookeeper")
	wide.Anomalies = append(wide.Anomalies, lab.Anomaly{Name: "waits", Loss: lab.WaitsForNothing},
		lab.Anomaly{Name: "traps", Loss: lab.APITrap})
	for i, a := range wide.Anomalies {
		added := wide.Manifest.Strategies
		if i < len(report().Anomalies) {
			added = added[len(strategies()):]
		}
		for _, s := range added {
			wide.Cells = append(wide.Cells, lab.Cell{Anomaly: a.Name, Strategy: s, Outcome: lab.NA, Expected: lab.NA})
		}
	}
	for name, tt := range map[string]struct {
		report lab.Report
		colour bool
	}{
		"matrix":            {report: report()},
		"matrix-colour":     {report: report(), colour: true},
		"matrix-two-blocks": {report: wide},
	} {
		t.Run(name, func(t *testing.T) {
			golden(t, name, matrix(t, tt.report, show.Style{Style: present.Style{Colour: tt.colour}}))
		})
	}
}

func TestTimeline(t *testing.T) {
	text.EnableColors()
	r := report()
	for name, tt := range map[string]struct {
		anomaly, strategy string
		colour            bool
	}{
		"timeline-lanes":  {anomaly: "check-then-delete", strategy: "v3_uuid"},
		"timeline-colour": {anomaly: "check-then-delete", strategy: "v3_uuid", colour: true},
		"timeline-long":   {anomaly: "check-then-delete", strategy: "v4_lua"},
		"timeline-hours":  {anomaly: "orphan-after-crash", strategy: "v1_setnx"},
		"timeline-many":   {anomaly: "retry-storm", strategy: "v5_reentrant"},
		"timeline-waits":  {anomaly: "retry-storm", strategy: "v7_queue"},
		"timeline-wrong":  {anomaly: "retry-storm", strategy: "v6_watchdog"},
	} {
		t.Run(name, func(t *testing.T) {
			c := find(t, r, tt.anomaly, tt.strategy)
			golden(t, name, timeline(t, r, c, show.Style{Style: present.Style{Colour: tt.colour}}))
		})
	}
}

// If the lock is not in Redis, the timeline and its legend do not show the holder
// according to Redis.
func TestLegendSpeaksOfRedisOnlyWhereItIsSeen(t *testing.T) {
	r := report()
	elsewhere := r.Cells[0]
	elsewhere.Strategy = "etcd"
	elsewhere.Trace = []lab.Event{
		{At: 0, Actor: "A", Kind: lab.Command, Text: "TryLock", Reply: "true"},
		{At: 1, Actor: "A", Kind: lab.Hold, Text: "has the lock"},
	}
	for _, tt := range []struct {
		cell lab.Cell
		want bool
	}{{elsewhere, false}, {find(t, r, "check-then-delete", "v3_uuid"), true}} {
		got := timeline(t, r, tt.cell, show.Style{})
		if strings.Contains(got, "according to Redis") != tt.want || !strings.Contains(got, "it believes that it") {
			t.Errorf("%s: the legend speaks of Redis, want %v:\n%s", tt.cell.Strategy, tt.want, got)
		}
	}
}

// The printed command that reproduces a cell contains the requested lease.
func TestSeeItAgainKeepsTheLease(t *testing.T) {
	r := report()
	c := find(t, r, "check-then-delete", "v3_uuid")
	for asked, want := range map[time.Duration]string{
		0:                      "-strategies v3_uuid\n",
		500 * time.Millisecond: "-strategies v3_uuid -ttl 500ms\n",
	} {
		r.Manifest.AskedTTL = asked
		got := timeline(t, r, c, show.Style{})
		if !strings.HasSuffix(got, want) {
			t.Errorf("-ttl %v: no %q at the end of\n%s", asked, want, got)
		}
	}
}

// drawn returns the output of draw, and checks that it is no wider than the terminal.
func drawn(t *testing.T, draw func(b *strings.Builder) error) string {
	t.Helper()
	var b strings.Builder
	if err := draw(&b); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		if n := text.StringWidthWithoutEscSequences(strings.TrimSuffix(line, "\n")); n > 120 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	return b.String()
}

func matrix(t *testing.T, r lab.Report, style show.Style) string {
	t.Helper()
	return drawn(t, func(b *strings.Builder) error { return show.Matrix(b, r, style) })
}

func timeline(t *testing.T, r lab.Report, c lab.Cell, style show.Style) string {
	t.Helper()
	return drawn(t, func(b *strings.Builder) error { return show.Timeline(b, r, c, style) })
}

func find(t *testing.T, r lab.Report, anomaly, strategy string) lab.Cell {
	t.Helper()
	for _, c := range r.Cells {
		if c.Anomaly == anomaly && c.Strategy == strategy {
			return c
		}
	}
	t.Fatalf("no cell %s on %s", anomaly, strategy)
	return lab.Cell{}
}

// If Redis has a lock of a process, a caller of that process may hold the lock. If a caller of another
// process believes that it holds the lock, the timeline shows an alarm.
func TestCallersHoldWithTheirProcess(t *testing.T) {
	text.EnableColors()
	events := []lab.Event{
		{At: 0, Actor: "A", Kind: lab.Command, Text: "SET lock token-A1", Reply: "OK", Lock: "A"},
		{At: 1, Actor: "A/1", Kind: lab.Hold, Text: "has the lock"},
	}
	alarm := text.Colors{text.FgRed, text.Bold}.Sprint("║")
	for caller, want := range map[string]bool{"A/1": false, "B/1": true, "AB": true} {
		events[1].Actor = caller
		c := lab.Cell{Anomaly: "x", Strategy: "y", Outcome: lab.Holds, Expected: lab.Holds, Trace: events}
		out := timeline(t, lab.Report{}, c, show.Style{Style: present.Style{Colour: true}})
		if got := strings.Contains(out, alarm); got != want {
			t.Errorf("%s with a lock of A: an alarm: %v, want %v\n%s", caller, got, want, out)
		}
	}
}
