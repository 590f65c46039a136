package lab_test

import (
	"regexp"
	"strings"
	"testing"

	"oversell/internal/lab"
	"oversell/internal/lab/anomalies"
)

// cellOf runs one cell in virtual time.
func cellOf(t *testing.T, anomaly, strategy string) lab.Cell {
	t.Helper()
	picked, err := lab.Pick([]lab.Table{anomalies.Locks()}, []string{anomaly}, []string{strategy})
	if err != nil {
		t.Fatal(err)
	}
	r, err := lab.Run(t.Context(), lab.Config{Subjects: picked[0].Subjects, Scenarios: picked[0].Scenarios,
		Redis: lab.Embedded}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r.Cells[0]
}

// after returns the keys after the actor's n-th event, counted from 1, whose text begins with text.
// It replaces times.
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

// After each command the trace shows the keys in Redis, with the remaining ttl of each.
func TestTraceHasTheKeys(t *testing.T) {
	for _, tt := range []struct {
		anomaly, strategy, actor, event string
		n                               int
		want                            string
	}{
		// In v7 the lock is handed to B with a count of 0, until B takes it. The lock of v8 has a
		// token as well.
		{"missed-wake-up", "v7_queue", "B", "EVALSHA ", 1,
			"lock hash A/1=1 3000, lock:queue list B/1 6000, lock:waiters hash B/1=start+3000 6000"},
		{"missed-wake-up", "v7_queue", "A", "EVAL ", 2, "lock hash B/1=0 2377"},
		{"missed-wake-up", "v8_fenced", "B", "EVALSHA ", 2, "lock hash B/1=1 3000, lock:token string TOKEN 6000"},
		// The queue of v9, its token, and the list that wakes the next waiter. B has the lock for
		// the remaining ttl of its place in the queue.
		{"missed-wake-up", "v9_cohort", "B", "EVALSHA ", 1,
			"lock string token-A1 3000, lock:queue list token-B1 6000, lock:token string TOKEN 6000, lock:waiters " +
				"hash token-B1=start+3000 6000"},
		{"missed-wake-up", "v9_cohort", "A", "EVAL ", 2,
			"lock string token-B1 2377, lock:token string TOKEN 6000"},
		{"starvation", "v9_cohort", "C", "EVALSHA «Hands the lock", 1,
			"lock string token-B1 2940, lock:token string TOKEN 6000, lock:wake:token-B1 list held:TOKEN 2940"},
		{"starvation", "v9_cohort", "B", "BLPOP ", 1,
			"lock string token-B1 2940, lock:token string TOKEN 6000"},
		// The fence of the stock, and the stock at the command that writes it.
		{"paused-writer", "v9_cohort", "A", "EVAL «Reads the value", 1,
			"lock string token-A1 3000, lock:token string TOKEN 6000, stock string 10, stock:fence hash of= " +
				"token=TOKEN"},
		{"paused-writer", "v9_cohort", "B", "EVAL «Writes the value", 1,
			"lock string token-B1 3000, lock:token string TOKEN 6000, stock string 9, stock:fence hash of= " +
				"token=TOKEN"},
		// An expired lease: the lock is gone, though nobody deleted it.
		{"paused-writer", "v3_uuid", "A", "stopped", 1,
			"lock string token-A1 3000, stock string 10"},
		{"paused-writer", "v3_uuid", "A", "goes on", 1,
			"stock string 9"},
		// A fault of the server: it has forgotten the lock.
		{"failover", "v4_lua", "", "a replica that never", 1, ""},
		{"clock-jump-minority", "redlock", "", "the clock of", 1,
			"node 2: lock string token-A1 2850, node 3: lock string token-A1 2850, node 4: lock string token-A1 2850"},
	} {
		got := after(t, cellOf(t, tt.anomaly, tt.strategy), tt.actor, tt.event, tt.n)
		if got != tt.want {
			t.Errorf("%s on %s, after %s %s:\n%s\nwant\n%s", tt.anomaly, tt.strategy, tt.actor, tt.event, got, tt.want)
		}
	}
}
