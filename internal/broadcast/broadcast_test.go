package broadcast

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var (
	errOver   = errors.New("there is nothing left")
	errLate   = errors.New("too late")
	errClosed = errors.New("closed")
)

// waitFor begins a wait for a key.
func waitFor(t *testing.T, b *Broadcaster, key string, limit time.Duration) (wait context.Context, done func()) {
	wait, w := b.Begin(t.Context(), limit, errLate)
	w.Attend(key)
	return wait, w.Done
}

// nothing is a look function that never ends a wait.
func nothing(context.Context, string) error { return nil }

func TestWaitEndsWithWhatTheLookFinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var over atomic.Bool
		b := New(func(_ context.Context, key string) error {
			if key == "a" && over.Load() {
				return errOver
			}
			return nil
		})
		a, doneA := waitFor(t, b, "a", time.Hour)
		other, doneOther := waitFor(t, b, "b", time.Hour)
		defer doneA()
		defer doneOther()
		time.Sleep(time.Minute)
		if a.Err() != nil {
			t.Fatalf("the wait ended while there was a reason to wait: %v", context.Cause(a))
		}
		over.Store(true)
		start := time.Now()
		<-a.Done()
		if got := context.Cause(a); !errors.Is(got, errOver) || time.Since(start) > Interval {
			t.Errorf("ended after %v with %v, want within %v with %v", time.Since(start), got, Interval, errOver)
		}
		if other.Err() != nil {
			t.Errorf("a wait for another key ended: %v", context.Cause(other))
		}
	})
}

func TestWaitEndsWithItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(nothing)
		start := time.Now()
		wait, done := waitFor(t, b, "a", time.Second)
		defer done()
		<-wait.Done()
		if !errors.Is(context.Cause(wait), errLate) || time.Since(start) != time.Second {
			t.Errorf("ended after %v with %v, want after 1s with %v", time.Since(start), context.Cause(wait), errLate)
		}
	})
}

func TestEndEndsAllWaitsForTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(nothing)
		var ended atomic.Int32
		var all sync.WaitGroup
		for range 1000 {
			all.Go(func() {
				wait, done := waitFor(t, b, "a", time.Hour)
				defer done()
				<-wait.Done()
				if errors.Is(context.Cause(wait), errOver) {
					ended.Add(1)
				}
			})
		}
		synctest.Wait()
		b.End("nobody waits for this", errOver)
		b.End("a", errOver)
		all.Wait()
		if ended.Load() != 1000 {
			t.Errorf("%d of 1000 waits ended with %v", ended.Load(), errOver)
		}
	})
}

func TestOneGoroutineLooksWhileThereAreWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var looks atomic.Int32
		b := New(func(context.Context, string) error { looks.Add(1); return nil })
		var leave []func()
		for range 500 {
			_, done := waitFor(t, b, "a", time.Hour)
			leave = append(leave, done)
		}
		time.Sleep(time.Second)
		if n := looks.Load(); n < 40 || n > 60 {
			t.Errorf("500 waiters looked %d times in a second, want about %d", n, time.Second/Interval)
		}
		for _, done := range leave {
			done()
		}
		looks.Store(0)
		time.Sleep(time.Minute)
		if n := looks.Load(); n > 1 || len(b.keys) != 0 {
			t.Errorf("%d looks after the last has left, and %d keys are remembered", n, len(b.keys))
		}
	})
}

// Close ends all waits, including those that begin later. It leaves no goroutine behind, as the end of the
// synctest bubble checks.
func TestCloseEndsAllWaitsAlsoLaterOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(nothing)
		before, done := waitFor(t, b, "a", time.Hour)
		defer done()
		b.Close(errClosed)
		b.Close(errClosed)
		after, done := waitFor(t, b, "b", time.Hour)
		defer done()
		for name, wait := range map[string]context.Context{"before": before, "after": after} {
			if !errors.Is(context.Cause(wait), errClosed) {
				t.Errorf("a wait begun %s Close ended with %v, want %v", name, context.Cause(wait), errClosed)
			}
		}
	})
}
