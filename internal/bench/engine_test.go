package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"oversell/internal/bench/report"
	"oversell/internal/catalog"
	"oversell/internal/fleet"
)

// rows returns a function that runs rows without a shop. The rows come from the given function.
func rows(run func(of Case) (Result, error)) func(context.Context, Case) (Result, error) {
	return func(_ context.Context, of Case) (Result, error) {
		result, err := run(of)
		result.Key = report.Key{Strategy: of.Strategy, Condition: of.Condition}
		return result, err
	}
}

// If a machine is slow for a while, it should slow down all rows a little, not all runs of one row.
// After an error, the earlier rows are returned with it.
func TestRepeatedRowsTakeTurns(t *testing.T) {
	wrong := errors.New("the third round does not run")
	cfg := Config{Strategies: []string{"watch", "v6_watchdog"}, Conditions: []catalog.Condition{catalog.Calm},
		Repeat: 5}
	found, err := Rows(t.Context(), cfg, rows(func(of Case) (r Result, err error) {
		r.Expected = true
		if of.Repeat == 3 {
			err = wrong
		}
		return r, err
	}), Silent{})
	var order []string
	for _, row := range found {
		order = append(order, fmt.Sprint(row.Strategy, " ", row.Repeat))
	}
	if want := []string{"watch 1", "v6_watchdog 1", "watch 2", "v6_watchdog 2"}; !slices.Equal(order, want) ||
		!errors.Is(err, wrong) {
		t.Errorf("the rows were run in the order %q, want %q; %v", order, want, err)
	}
}

// A row during which a process stalled is run again with twice the ttl, until the stall is short
// beside the ttl or the tries run out. A first run that is as expected is kept, and so is a final
// one.
func TestRowIsRunAgainAfterAStall(t *testing.T) {
	for name, tt := range map[string]struct {
		first   Result
		stalled time.Duration
		tries   int
		ttl     string
	}{
		"stalled":          {Result{TTL: time.Second}, 500 * time.Millisecond, 3, "4s"},
		"stalled for long": {Result{TTL: time.Second}, time.Minute, maxTries, "8s"},
		"not for long":     {Result{TTL: time.Second}, 100 * time.Millisecond, 1, "1s"},
		"its fault missed": {Result{TTL: time.Second, Missed: true}, 0, maxTries, "8s"},
		"as expected":      {Result{TTL: time.Second, Row: report.Row{Expected: true}}, time.Minute, 1, "1s"},
		"of running shops": {Result{Final: true}, time.Minute, 1, ""},
		"nothing is expected": {Result{TTL: time.Second, Row: report.Row{Expected: true, Undecided: true}}, time.Minute,
			maxTries, "8s"},
	} {
		tries := 0
		cfg := Config{Strategies: []string{"none"}, Conditions: []catalog.Condition{catalog.Calm}, Repeat: 1,
			TTL: time.Hour}
		found, err := Rows(t.Context(), cfg, rows(func(of Case) (Result, error) {
			r := tt.first
			r.Fleet = fleet.Of(new(fleet.Member))
			r.Fleet.Members()[0].Stalls.Add(tt.stalled)
			if tries++; of.TTL > 0 {
				r.TTL = of.TTL
			}
			return r, nil
		}), Silent{})
		if err != nil || len(found) != 1 || tries != tt.tries || found[0].TTL != tt.ttl ||
			len(found[0].Discarded) != tries-1 {
			t.Errorf("%s: %d tries, %v, %+v", name, tries, err, found)
		}
		for i, d := range found[0].Discarded {
			if want := (time.Second << i).String(); d.TTL != want || d.Missed != tt.first.Missed {
				t.Errorf("%s: try %d: %+v, want a ttl of %s", name, i+1, d, want)
			}
		}
	}
}
