package lab

import (
	"context"
	"errors"
	"testing"
)

func searched(t *testing.T, strategy string, buyers int, goal Goal, plays int) SearchResult {
	t.Helper()
	r, err := Search(t.Context(), strategy, buyers, goal, Budget{Plays: plays})
	if err != nil {
		t.Fatal(err)
	}
	if r.Found == (r.Moves == "") || r.Plays == 0 || r.Plays > plays || r.States > r.Plays {
		t.Errorf("%s: %+v does not fit together", strategy, r)
	}
	return r
}

// What a search says can be done, can be.
func TestSearchFindsWhatBreaks(t *testing.T) {
	for strategy, steps := range map[string]int{ // of the shortest; 0: there is none
		"none": 4, "local": 4, "v2_ttl": 7, "v3_uuid": 7, "v4_lua": 7, "v5_reentrant": 7, "v6_watchdog": 7, "v7_queue": 7,
		"v1_setnx": 0, "v8_fenced": 0, "v9_cohort": 0, "watch": 0,
	} {
		plays := 600
		if steps == 0 {
			plays = 200
		}
		r := searched(t, strategy, 2, ToOversell, plays)
		if r.Found != (steps > 0) || r.Found && r.Steps != steps {
			t.Errorf("%s: %s (%s); want %d steps", strategy, r.Sentence, r.Moves, steps)
			continue
		}
		if s := played(t, strategy, 2, r.Moves); (s.Verdict.Outcome == Won) != r.Found {
			t.Errorf("%s: %s leads to %+v", strategy, r.Moves, s.Verdict)
		}
	}
}

// Nothing new comes any more, long before the budget ends.
func TestSearchComesToAnEnd(t *testing.T) {
	for _, strategy := range []string{"v1_setnx", "watch"} {
		if r := searched(t, strategy, 2, ToOversell, 2000); !r.All || r.Found || r.Plays > 1000 {
			t.Errorf("%s: %+v", strategy, r)
		}
	}
	r := searched(t, "v9_cohort", 2, ToOversell, 50)
	if r.All || r.Found || r.Plays != 50 || r.Steps < 2 {
		t.Errorf("with a small budget: %+v", r)
	}
}

// A foreign lock can be deleted in stages 2 and 3 while nothing else goes wrong. In
// the others none of as many schedules does it.
func TestSearchFindsAForeignDelete(t *testing.T) {
	for strategy, breaks := range map[string]bool{"v1_setnx": false, "v2_ttl": true, "v3_uuid": true, "v4_lua": false} {
		r := searched(t, strategy, 2, ToDeleteForeign, 200)
		if r.Found != breaks {
			t.Errorf("%s: %s", strategy, r.Sentence)
			continue
		}
		if s := played(t, strategy, 2, r.Moves); breaks && (len(found(s, ForeignDelete)) == 0 || s.Sale.Over > 0) {
			t.Errorf("%s: %s leads to %+v, %+v", strategy, r.Moves, s.Findings, s.Sale)
		}
	}
}

func TestSearchRefuses(t *testing.T) {
	for _, tt := range []struct {
		strategy string
		buyers   int
		goal     Goal
	}{{"v9", 2, ToOversell}, {"none", 1, ToOversell}, {"none", 2, "gold"}} {
		if _, err := Search(t.Context(), tt.strategy, tt.buyers, tt.goal, Budget{Plays: 10}); !errors.Is(err, ErrSchedule) {
			t.Errorf("%+v: %v", tt, err)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	if _, err := Search(ctx, "none", 2, ToOversell, Budget{}); !errors.Is(err, enough) {
		t.Errorf("who has given up got %v", err)
	}
}

// The caller of a search has not chosen its moves, so their errors are not ErrSchedule.
func TestSearchAnswersForItsMoves(t *testing.T) {
	f := &finder{base: Schedule{Strategy: "none", Buyers: 2}, goal: ToOversell}
	if _, err := f.play(t.Context(), []Move{{Action: Thaw}}); err == nil || errors.Is(err, ErrSchedule) {
		t.Errorf("a move that is not possible: %v", err)
	}
}
