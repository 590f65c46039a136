package lab_test

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"oversell/internal/backend/backendtest"
	"oversell/internal/lab"
	"oversell/internal/lab/anomalies"
)

// named returns the anomalies with these names.
func named(t *testing.T, names ...string) []lab.Scenario {
	t.Helper()
	scenarios, err := lab.FindScenarios(anomalies.All(), names)
	if err != nil {
		t.Fatal(err)
	}
	return scenarios
}

// subject returns one of the subjects.
func subject(t *testing.T, name string) lab.Subject {
	t.Helper()
	c, err := lab.FindSubjects(lab.Subjects(), []string{name})
	if err != nil {
		t.Fatal(err)
	}
	return c[0]
}

// cellOf runs one cell in virtual time.
func cellOf(t *testing.T, anomaly, strategy string) lab.Cell {
	t.Helper()
	scenarios := named(t, anomaly)
	r, err := lab.Run(t.Context(), lab.Config{Subjects: []lab.Subject{subject(t, strategy)}, Scenarios: scenarios, Redis: lab.Embedded}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r.Cells[0]
}

// after returns the keys after the n-th event, from 1 on, of an actor whose text
// begins so; the times of the clock in them are replaced.
func after(t *testing.T, c lab.Cell, actor, text string, n int) string {
	t.Helper()
	for i, e := range c.Trace {
		if e.Actor != actor || !strings.HasPrefix(e.Text, text) {
			continue
		}
		if n--; n == 0 {
			return bigNumber.ReplaceAllString(lab.BriefKeys(lab.KeysAfter(c.Trace[:i+1], e.At), true), "TOKEN")
		}
	}
	t.Fatalf("%s does not %q", actor, text)
	return ""
}

var bigNumber = regexp.MustCompile(`\b\d{15,16}\b`)

// After each command the trace has what is in Redis, with what is left of each ttl.
func TestTraceHasTheKeys(t *testing.T) {
	for _, tt := range []struct {
		anomaly, strategy, actor, event string
		n                               int
		want                            string
	}{
		// In v7 the lock is handed to B with no hold counted, until B takes it; of v8 there
		// is a token besides.
		{"missed-wake-up", "v7_queue", "B", "EVALSHA ", 1,
			"lock hash A/1=1 3000, lock:queue list B/1 6000, lock:waiters hash B/1=start+3000 6000"},
		{"missed-wake-up", "v7_queue", "A", "EVAL ", 2, "lock hash B/1=0 2377"},
		{"missed-wake-up", "v8_fenced", "B", "EVALSHA ", 2, "lock hash B/1=1 3000, lock:token string TOKEN 6000"},
		// The queue of v9, its token, and the list on which the next one is woken. B has
		// the lock for what is left of the ttl by which it waits.
		{"missed-wake-up", "v9_cohort", "A", "EVAL ", 1,
			"lock string token-A1 3000, lock:token string TOKEN 6000"},
		{"missed-wake-up", "v9_cohort", "B", "EVALSHA ", 1,
			"lock string token-A1 3000, lock:queue list token-B1 6000, lock:token string TOKEN 6000, lock:waiters hash token-B1=start+3000 6000"},
		{"missed-wake-up", "v9_cohort", "A", "EVAL ", 2,
			"lock string token-B1 2377, lock:token string TOKEN 6000"},
		{"missed-wake-up", "v9_cohort", "B", "EVALSHA ", 2,
			"lock:token string TOKEN 6000"},
		{"starvation", "v9_cohort", "C", "EVALSHA «Hands the lock", 1,
			"lock string token-B1 2940, lock:token string TOKEN 6000, lock:wake:token-B1 list held:TOKEN 2940"},
		{"starvation", "v9_cohort", "B", "BLPOP ", 1,
			"lock string token-B1 2940, lock:token string TOKEN 6000"},
		// The fence of the stock, and the stock at the command that writes it.
		{"paused-writer", "v9_cohort", "A", "EVAL «Reads the value", 1,
			"lock string token-A1 3000, lock:token string TOKEN 6000, stock string 10, stock:fence hash of= token=TOKEN"},
		{"paused-writer", "v9_cohort", "B", "EVAL «Writes the value", 1,
			"lock string token-B1 3000, lock:token string TOKEN 6000, stock string 9, stock:fence hash of= token=TOKEN"},
		// A lease that has run out: the lock is gone by then, though nobody deleted it.
		{"paused-writer", "v3_uuid", "A", "stopped", 1,
			"lock string token-A1 3000, stock string 10"},
		{"paused-writer", "v3_uuid", "A", "goes on", 1,
			"stock string 9"},
		{"check-then-delete", "v3_uuid", "A", "DEL ", 1, ""},
		{"check-then-delete", "v5_reentrant", "A", "EVAL ", 1, "lock hash A/1=1 3000"},
		// What was done to the server: it has forgotten the lock.
		{"failover", "v4_lua", "", "a replica that never", 1, ""},
		{"clock-jump-minority", "redlock", "", "the clock of", 1,
			"node 2: lock string token-A1 2850, node 3: lock string token-A1 2850, node 4: lock string token-A1 2850"},
		{"clock-jump-majority", "redlock", "", "the clock of", 1,
			"node 3: lock string token-A1 2850, node 4: lock string token-A1 2850"},
	} {
		got := after(t, cellOf(t, tt.anomaly, tt.strategy), tt.actor, tt.event, tt.n)
		if got != tt.want {
			t.Errorf("%s on %s, after %s %s:\n%s\nwant\n%s", tt.anomaly, tt.strategy, tt.actor, tt.event, got, tt.want)
		}
	}
}

// What a trace says of the keys comes, in the end, to what Redis has: no key that a
// script makes by itself is missed, whatever happens in a cell.
func TestTraceAddsUpToWhatRedisHas(t *testing.T) {
	compared := 0
	err := lab.InVirtualTime(func() {
		for i, c := range lab.Subjects() {
			if i%backendtest.Times(8, 1) != 0 {
				continue // one in eight
			}
			for _, sc := range anomalies.All() {
				if sc.NotApplicable == nil || sc.NotApplicable(c) == "" {
					compared += lab.AddsUp(t, c, sc)
				}
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if compared < backendtest.Times(50, 500) {
		t.Errorf("only %d keys were compared", compared)
	}
}

// In real time, on a real server, a cell shows the same keys.
func TestRealRedisShowsTheSameKeys(t *testing.T) {
	cfg := lab.Config{
		Subjects:  []lab.Subject{subject(t, "v3_uuid"), subject(t, "v5_reentrant"), subject(t, "v9_cohort")},
		Scenarios: named(t, "paused-writer", "failover", "missed-wake-up"),
	}
	cfg.Redis = lab.Embedded
	virtual, err := lab.Run(t.Context(), cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Redis = backendtest.Redis(t, "local")
	real, err := lab.Run(t.Context(), cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for i, c := range real.Cells {
		differs := keysDiffer(c, virtual.Cells[i])
		for ttl := 2 * time.Second; differs != "" && c.Outcome != lab.Unknown && ttl <= 8*time.Second; ttl *= 2 {
			t.Logf("%s on %s is run again, with leases of %v: %s", c.Anomaly, c.Strategy, ttl, differs)
			c = again(t, cfg, c, ttl)
			differs = keysDiffer(c, virtual.Cells[i])
		}
		if c.Outcome == lab.Unknown {
			continue
		}
		compared++
		if differs != "" {
			t.Errorf("%s on %s: %s", c.Anomaly, c.Strategy, differs)
		}
	}
	if compared == 0 {
		t.Skip("this machine was too busy: nothing was compared")
	}
}

// again runs a cell once more. A goroutine that did not run for a while can change the
// order of commands, even if the lab noticed no stall.
func again(t *testing.T, cfg lab.Config, c lab.Cell, ttl time.Duration) lab.Cell {
	t.Helper()
	cfg.Subjects, cfg.Scenarios, cfg.TTL = []lab.Subject{subject(t, c.Strategy)}, named(t, c.Anomaly), ttl
	report, err := lab.Run(t.Context(), cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	return report.Cells[0]
}

// keysDiffer says how the keys in a cell's trace differ from those in virtual time, or
// returns "".
func keysDiffer(c, virtual lab.Cell) string {
	if repeated := shownAgain(c.Trace); len(repeated) > 0 {
		return "nothing has changed but what is left of a ttl: " + strings.Join(repeated, "; ")
	}
	got, want := timeless(c), timeless(virtual)
	if len(want) < 2 || !slices.Equal(got, want) {
		return fmt.Sprintf("the keys are, one look after the other,\n%s\nin memory\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	return ""
}

// shownAgain are the keys in a trace that are as the events before have left them. It is
// for cells in which nobody sets a ttl again to nearly what was left of it.
func shownAgain(events []lab.Event) []string {
	var again []string
	for i, e := range events {
		before := lab.KeysAfter(events[:i], e.At)
		for _, k := range e.Keys {
			was, ok := before[k.Name]
			same := ok && was.Type == k.Type && was.Value == k.Value && (was.TTL == nil) == (k.TTL == nil)
			if same && (k.TTL == nil || math.Abs(*was.TTL-*k.TTL) < 50) {
				again = append(again, fmt.Sprintf("at %.3f, %s: %s", e.At, e.Text, lab.BriefKeys(map[string]lab.Key{k.Name: k}, true)))
			}
		}
	}
	return again
}

// timeless are the keys after each command and each fault, without what depends on
// the time. What looks the same as before is left out.
func timeless(c lab.Cell) []string {
	var all []string
	for i, e := range c.Trace {
		if e.Kind != lab.Command && e.Kind != lab.Fault {
			continue
		}
		keys := lab.BriefKeys(lab.KeysAfter(c.Trace[:i+1], e.At), false)
		all = append(all, attempt.ReplaceAllString(bigNumber.ReplaceAllString(keys, "TOKEN"), "$1"))
	}
	return slices.Compact(all)
}

// attempt is what tells tries, and moments, apart.
var attempt = regexp.MustCompile(`(token-[A-Z]|start\+)\d+`)

func TestNothingIsLeftInRedis(t *testing.T) { lab.LeavesNothing(t, anomalies.All()) }
