package bench

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"oversell/internal/bench/report"
	"oversell/internal/catalog"
	"oversell/internal/fleet"
)

// hold runs one holder of a worker, and returns how long it worked and how long it took to unlock
// after that.
func hold(t *testing.T, w *worker) (work, after time.Duration) {
	t.Helper()
	begun := time.Now()
	done, err := w.work(t.Context(), "hot")
	if err != nil {
		t.Fatal(err)
	}
	work = time.Since(begun)
	if done != nil {
		done()
	}
	return work, time.Since(begun) - work
}

// planned returns a worker that calls f for its slow and late holders, with the end of the delay.
func planned(f func(until time.Time)) *worker {
	return &worker{seams: &fleet.Seams{Park: func(fleet.Seam) {}, HeldUp: f}}
}

func nobody(time.Time) {}

// long returns an Arm that delays the n-th holder of an instance.
func long(at fleet.Seam, n int) fleet.Arm {
	return fleet.Arm{At: []fleet.Seam{at}, Skip: n - 1, Delay: time.Second}
}

// Each row has its own slow holder. A holder that enters while an earlier one is late to unlock stays
// inside until the late one has unlocked. The first reader of a cold key waits for a crowd.
func TestHoldersWorkAsPlanned(t *testing.T) {
	const ms, s = time.Millisecond, time.Second
	for name, tt := range map[string]struct {
		plan plan
		stay time.Duration   // how long the first holder is kept inside
		want []time.Duration // how long the holders work
		slow int             // slow holders of two rows
	}{
		"slow": {plan{Item: "hot", Work: ms, Fault: long(seamWork, 3)}, 0, []time.Duration{ms, ms, s + ms, ms, ms}, 2},
		"late": {plan{Item: "hot", Work: ms, Fault: long(seamUnlock, 10)}, 700 * ms,
			[]time.Duration{700 * ms, ms}, 0},
		"cold": {plan{Item: "hot", Gather: 100 * ms}, 0, []time.Duration{100 * ms, 0}, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			slow := 0
			w := planned(func(time.Time) { slow++ })
			for range 2 {
				w.follow(tt.plan)
				w.stay(time.Now().Add(tt.stay))
				for n, want := range tt.want {
					if work, after := hold(t, w); work != want || after != 0 {
						t.Errorf("%s: holder %d works %v and then %v, want %v", name, n+1, work, after, want)
					}
				}
			}
			if slow != tt.slow {
				t.Errorf("%s: told of %d slow holders, want %d", name, slow, tt.slow)
			}
		})
	}
}

func TestLateHolderHasWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := planned(nobody)
		w.follow(plan{Item: "hot", Fault: long(seamUnlock, 2)})
		hold(t, w)
		if _, err := w.work(t.Context(), "hot"); err != nil { // this holder does not write
			t.Fatal(err)
		}
		if work, after := hold(t, w); work != 0 || after != time.Second {
			t.Errorf("works %v and lets go after %v, want 0s and 1s", work, after)
		}
	})
}

// With several items, the fault is injected only into the holders of the plan's item; other holders
// are not counted.
func TestFaultIsInjectedIntoTheItemOfThePlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := planned(nobody)
		w.follow(plan{Item: "hot", Fault: long(seamWork, 1)})
		for _, tt := range []struct {
			item string
			want time.Duration
		}{{"cold", 0}, {"hot", time.Second}, {"hot", 0}} {
			begun := time.Now()
			if _, err := w.work(t.Context(), tt.item); err != nil {
				t.Fatal(err)
			}
			if work := time.Since(begun); work != tt.want {
				t.Errorf("a holder of %s works %v, want %v", tt.item, work, tt.want)
			}
		}
	})
}

func TestHolderLearnsThatItsLockIsLost(t *testing.T) {
	lost := errors.New("lost")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(lost)
	w := planned(nobody)
	config := Config{Requests: 1, Stock: 1, Instances: 1, Items: 1, TTL: time.Millisecond}
	for _, tt := range []struct {
		condition catalog.Condition
		want      error
	}{{catalog.Calm, lost}, {catalog.Slow, lost}, {catalog.Late, lost}, {catalog.Pause, nil}} {
		w.follow(config.plan("hot", tt.condition))
		if _, err := w.work(ctx, "hot"); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.condition, err, tt.want)
		}
	}
}

// A row in which the fault did not happen proves nothing, so the row reports that.
func TestConditionThatDoesNotComeAboutIsSaid(t *testing.T) {
	r := &run{strategy: catalog.Strategies()[0], cond: catalog.Slow, cfg: Config{Workload: catalog.Deduct},
		shops: &shops{Fleet: fleet.Of(new(fleet.Member))}}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.overstayed(over); !errors.Is(err, errNotInjected) {
		t.Errorf("slow: %v, want %v", err, errNotInjected)
	}
	if err := r.shops.inject(over, func(*fleet.Member) error { return nil }); !errors.Is(err, errNotInjected) {
		t.Errorf("crash: %v, want %v", err, errNotInjected)
	}
	var row report.Row
	if r.expect(&row, outcome{notInjected: errNotInjected}); row.Expected || row.Differs == "" {
		t.Errorf("such a row counts as expected: %+v", row)
	}
}
