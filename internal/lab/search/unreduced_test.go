package search

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"oversell/internal/backend/backendtest"
	"oversell/internal/lab"
)

// Up to a limit of moves, a search that merges no states and tries all moves finds breaks of the same
// lengths as the normal search. Normal results for one fault of each kind are taken from the record,
// which -search all checks.
func TestNothingIsLostByMerging(t *testing.T) {
	for _, tt := range []struct {
		name   string
		faults Faults
		most   int
	}{
		{"none", OneOfEach, 4}, {"watch", Faults{}, 7}, {"local", OneOfEach, 4},
		{"v1_setnx", OneOfEach, 6}, {"v2_ttl", Faults{}, 7}, {"v2_ttl", OneOfEach, 6}, {"v3_uuid", Faults{}, 8},
		{"v3_uuid", OneOfEach, 6},
		{"v4_lua", Faults{}, 7}, {"v5_reentrant", OneOfEach, 5}, {"v6_watchdog", OneOfEach, 5},
		{"v6_watchdog", Faults{Freezes: 1}, 6},
		{"v7_queue", OneOfEach, 5}, {"v8_fenced", OneOfEach, 5}, {"v9_cohort", OneOfEach, 5},
		{"nested_v4_lua", OneOfEach, 5}, {"nested_v4_lua", Faults{}, 7}, {"nested_v5_reentrant", OneOfEach, 5},
	} {
		t.Run(fmt.Sprintf("%s, %+v", tt.name, tt.faults), func(t *testing.T) {
			if tt.most > backendtest.Times(4, 8) {
				t.Skip("it takes seconds: run it with -tags system")
			}
			cfg := Config{Subject: subject(t, tt.name), Buyers: 2, Faults: tt.faults}
			var reduced Result
			if tt.faults == OneOfEach {
				reduced = recordOf(t, tt.name)
			} else {
				found, err := Search(t.Context(), cfg)
				if err != nil {
					t.Fatal(err)
				}
				reduced = found
			}
			x, e := explore(t, cfg)
			x.root.program.histories = nil // so that no two histories are merged
			shortest := make(map[lab.Goal]int)
			tree(t, e, x.first(), 0, tt.most, shortest)
			for _, goal := range []lab.Goal{lab.GoalOversell, lab.GoalOverlap, lab.GoalForeignDelete,
				lab.GoalSelfWait} {
				want := 0 // the break needs more moves, or is impossible
				if text, ok := reduced.Breaks[goal]; ok && strings.Count(text, ".")+1 <= tt.most {
					want = strings.Count(text, ".") + 1
				}
				if shortest[goal] != want {
					t.Errorf("%s takes %d moves, with merging %d (0: more than %d)", goal, shortest[goal], want,
						tt.most)
				}
			}
		})
	}
}

// tree makes all possible sequences of moves up to a length of most, and records the shortest break for
// each goal.
func tree(t *testing.T, e *engine, s *state, made, most int, shortest map[lab.Goal]int) {
	if made == most {
		return
	}
	for _, m := range everyMove(s) {
		next, err := e.make(s, m)
		if err != nil {
			t.Fatal(err)
		}
		for _, goal := range e.found {
			if shortest[goal] == 0 || made+1 < shortest[goal] {
				shortest[goal] = made + 1
			}
		}
		tree(t, e, next, made+1, most, shortest)
	}
}

// everyMove returns all moves that the scheduler allows. Its moves of time end at the next event, or last
// for up to a lease.
func everyMove(s *state) (all []lab.Move) {
	for i := range s.buyers {
		b := &s.buyers[i]
		switch {
		case b.dead:
			continue
		case b.history == nil:
			all = append(all, lab.Move{Action: lab.Step, Buyer: i})
			if s.left.Losses > 0 {
				all = append(all, lab.Move{Action: lab.Lose, Buyer: i})
			}
			continue
		case b.frozen:
			all = append(all, lab.Move{Action: lab.Thaw, Buyer: i})
		default:
			for nth, o := range s.held(i) {
				if never(o) {
					continue
				}
				all = append(all, lab.Move{Action: lab.Step, Buyer: i, Nth: nth + 1})
				if s.left.Losses > 0 {
					all = append(all, lab.Move{Action: lab.Lose, Buyer: i, Nth: nth + 1})
				}
			}
			if s.left.Freezes > 0 {
				all = append(all, lab.Move{Action: lab.Freeze, Buyer: i})
			}
		}
		if s.left.Kills > 0 {
			all = append(all, lab.Move{Action: lab.Kill, Buyer: i})
		}
	}
	soon, ok := s.nearest()
	if ok {
		all = append(all, lab.Move{Action: lab.Pass, For: soon})
	}
	for _, d := range []time.Duration{lab.ScheduleTTL / 3, lab.ScheduleTTL} {
		if ok && d != soon {
			all = append(all, lab.Move{Action: lab.Pass, For: d})
		}
	}
	return all
}
