package locks_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"oversell/internal/locks"
)

// A need that is met later counts as met. Its guard asks for it at each use, and is made
// once, with what it was given.
func TestGuardOfALateNeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := errors.New("it is away")
		asked, made, met := 0, 0, false
		o := locks.Options{Later: map[locks.Need]locks.Later{
			locks.NeedsNodes: func(ctx context.Context, o locks.Options) (locks.Options, error) {
				asked++
				if !met {
					return o, away
				}
				time.Sleep(time.Second)
				o.TTL = time.Minute
				return o, context.Cause(ctx)
			},
		}}
		strategy := locks.Strategy{Name: "late", Needs: locks.NeedsNodes, Guard: func(o locks.Options) locks.Guard {
			if made++; o.TTL != time.Minute {
				t.Errorf("made with %+v", o)
			}
			return new(locks.Local)
		}}
		if got := (locks.Catalog{strategy, {Name: "never", Needs: locks.NeedsEtcd}}).With(o).Names(); len(got) != 1 || got[0] != "late" {
			t.Errorf("can be had: %v", got)
		}
		guard := strategy.NewGuard(o)
		if asked != 0 || made != 0 {
			t.Error("the need is met before the guard is used")
		}
		e := locks.Entry{Key: "a", Owner: "b", Wait: t.Context()}
		inside := func(context.Context) error { return nil }
		if _, err := guard.Do(t.Context(), e, inside); !errors.Is(err, away) {
			t.Errorf("got %v; want %v", err, away)
		}
		met = true
		for range 2 {
			if stats, err := guard.Do(t.Context(), e, inside); err != nil || stats.Waited != time.Second {
				t.Errorf("got %+v, %v", stats, err)
			}
		}
		met = false
		if _, err := guard.Do(t.Context(), e, inside); !errors.Is(err, away) {
			t.Errorf("what was met and is not any more: %v; want %v", err, away)
		}
		if asked != 4 || made != 1 {
			t.Errorf("asked %d times, made %d times", asked, made)
		}
		wait, cancel := context.WithCancelCause(t.Context())
		met = true
		cancel(away)
		e.Wait = wait
		if _, err := guard.Do(t.Context(), e, inside); !errors.Is(err, away) {
			t.Errorf("after the wait: %v; want %v", err, away)
		}
	})
}
