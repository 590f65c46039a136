package catalog_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"oversell/internal/catalog"
	"oversell/internal/guard"
)

// A need that Later meets counts as met. The guard calls Later at each use, and is made once,
// with the options that Later returned.
func TestGuardOfALateNeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := errors.New("it is away")
		asked, made, met := 0, 0, false
		o := catalog.Options{Later: map[catalog.Need]catalog.Later{
			catalog.NeedsNodes: func(ctx context.Context, o catalog.Options) (catalog.Options, error) {
				asked++
				if !met {
					return o, away
				}
				time.Sleep(time.Second)
				o.TTL = time.Minute
				return o, context.Cause(ctx)
			},
		}}
		strategy := catalog.Strategy{Name: "late", Needs: catalog.NeedsNodes, Guard: func(o catalog.Options) guard.Guard {
			if made++; o.TTL != time.Minute {
				t.Errorf("made with %+v", o)
			}
			return new(guard.Local)
		}}
		if got := (catalog.List{strategy, {Name: "never", Needs: catalog.NeedsEtcd}}).With(o).Names(); len(got) != 1 || got[0] != "late" {
			t.Errorf("available: %v", got)
		}
		g := strategy.NewGuard(o)
		if asked != 0 || made != 0 {
			t.Error("the need is met before the guard is used")
		}
		e := guard.Entry{Key: "a", Owner: "b"}
		inside := func(context.Context) error { return nil }
		if _, err := g.Do(t.Context(), e, inside); !errors.Is(err, away) {
			t.Errorf("got %v; want %v", err, away)
		}
		met = true
		for range 2 {
			if stats, err := g.Do(t.Context(), e, inside); err != nil || stats.Waited != time.Second {
				t.Errorf("got %+v, %v", stats, err)
			}
		}
		met = false
		if _, err := g.Do(t.Context(), e, inside); !errors.Is(err, away) {
			t.Errorf("after the need was no longer met: %v; want %v", err, away)
		}
		if asked != 4 || made != 1 {
			t.Errorf("asked %d times, made %d times", asked, made)
		}
		wait, cancel := context.WithCancelCause(t.Context())
		met = true
		cancel(away)
		if _, err := g.Do(wait, e, inside); !errors.Is(err, away) {
			t.Errorf("after the wait: %v; want %v", err, away)
		}
	})
}

// A guard whose need is met later makes the mistake of the recursive policy as well.
func TestLateGuardRetriesByRecursion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		later := func(_ context.Context, o catalog.Options) (catalog.Options, error) { return o, nil }
		o := catalog.Options{
			Policy: guard.Recursive{Fixed: guard.Fixed{Delay: time.Millisecond}},
			Later:  map[catalog.Need]catalog.Later{catalog.NeedsNodes: later},
		}
		tries := 0
		strategy := catalog.Strategy{Name: "late", Needs: catalog.NeedsNodes, Guard: func(o catalog.Options) guard.Guard {
			return &guard.Distributed{Policy: o.Policy, New: func(string) guard.Lock { return thirdTry{&tries} }}
		}}
		sections := 0
		_, err := strategy.NewGuard(o).Do(t.Context(), guard.Entry{Key: "a"}, func(context.Context) error {
			sections++
			return nil
		})
		if err != nil || tries != 3 || sections != 3 {
			t.Errorf("%d sections in %d tries, %v; want 3 in 3", sections, tries, err)
		}
	})
}

// thirdTry is a lock that is free at the third try.
type thirdTry struct{ tries *int }

func (l thirdTry) TryLock(context.Context) (bool, error) { *l.tries++; return *l.tries >= 3, nil }
func (l thirdTry) Unlock(context.Context) error          { return nil }
