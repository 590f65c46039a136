package anomalies

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	h3 "oversell/internal/holds/h3_claim"
	"oversell/internal/lab"
)

// A mistake in an SQL statement of h3_claim changes the outcomes of exactly the cells that depend on it.
func TestMutantsAreNoticed(t *testing.T) {
	for _, m := range []struct {
		what     string
		old, new string
		turns    []string
	}{
		{"the status decides nothing", "AND token = ? AND status = 'held' AND", "AND token = ? AND", []string{
			// A late claim also ends the hold, and returns its unit to the stock a second time.
			"late-payment", "extended-after-sold", "released-still-payable", "captured-twice",
			"reply-lost-after-capture",
			"killed-between-order-and-hold", "double-release", "compensation-clobbers-next-holder",
		}},
		{"the limit is not checked", "units + ? <= ?)", "units + ? <= ? OR 1 = 1)", []string{"limit-outside-the-step"}},
		{"the stock is not checked", "AND remaining >= ?", "AND ? IS NOT NULL", []string{"last-unit-raced"}},
	} {
		t.Run(m.what, func(t *testing.T) {
			var changed atomic.Bool
			subject := lab.Subject{Name: h3.Name, Rewrite: func(text string) string {
				if strings.Contains(text, m.old) {
					changed.Store(true)
				}
				return strings.Replace(text, m.old, m.new, 1)
			}}
			var turned []string
			r, err := lab.Run(t.Context(), lab.Config{Redis: lab.Embedded, Subjects: []lab.Subject{subject},
				Scenarios: Holds().Scenarios}, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range r.Unexpected() {
				turned = append(turned, c.Anomaly)
				t.Logf("%s: %s, was %s: %s", c.Anomaly, c.Outcome, c.Expected, c.Note)
			}
			if !changed.Load() {
				t.Error("no statement was changed")
			}
			if !slices.Equal(turned, m.turns) {
				t.Errorf("turned %q, want %q", turned, m.turns)
			}
		})
	}
}
