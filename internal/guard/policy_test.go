package guard

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// waiting returns the policies that wait correctly: all except Recursive.
func waiting() []Policy {
	return []Policy{
		&Line{Delay: 2 * time.Millisecond},
		Fixed{5 * time.Millisecond},
		Backoff{time.Millisecond, 64 * time.Millisecond},
	}
}

func TestPoliciesServeEverybodyOneAtATime(t *testing.T) {
	for _, policy := range waiting() {
		t.Run(policy.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var lock oneLock
				g, in := lock.guard(policy), inside{stay: time.Millisecond}
				queue(t, g, &in, 100).Wait()
				if in.done != 100 || in.most != 1 || lock.released != 100 {
					t.Errorf("%d served, %d at once, %d releases; want 100, 1, 100", in.done, in.most, lock.released)
				}
			})
		})
	}
}

func TestPoliciesEndTheWaitWithItsCause(t *testing.T) {
	for _, policy := range append(waiting(), Recursive{Fixed{5 * time.Millisecond}}) {
		t.Run(policy.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lock := oneLock{held: true}
				wait, cancel := context.WithTimeoutCause(t.Context(), time.Second, errLate)
				defer cancel()
				start := time.Now()
				stats, err := lock.guard(policy).Do(wait, Entry{Key: "k"}, nil)
				if !errors.Is(err, errLate) || time.Since(start) != time.Second {
					t.Errorf("gave up after %v with %v, want after 1s with %v", time.Since(start), err, errLate)
				}
				if stats.Waited != time.Second || stats.Attempts < 2 || stats.Held != 0 {
					t.Errorf("stats %+v, want 1s waited, some attempts, nothing held", stats)
				}
				if lock.released != 0 {
					t.Error("released a lock that was never acquired")
				}
			})
		})
	}
}

// With the policy Recursive, a buyer that has waited n times buys n+1 times.
func TestRecursiveFallsThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const waits = 3
		lock := oneLock{held: true}
		var in inside
		time.AfterFunc(waits*10*time.Millisecond-time.Millisecond, func() { _ = fakeLock{&lock}.Unlock(t.Context()) })
		stats, err := lock.guard(Recursive{Fixed{10 * time.Millisecond}}).Do(t.Context(), entry, in.section(0))
		if err != nil {
			t.Fatal(err)
		}
		if stats.Attempts != waits+1 || in.done != waits+1 {
			t.Errorf("asked %d times and did the work %d times, want %d of both", stats.Attempts, in.done, waits+1)
		}
	})
}

func TestParsePolicy(t *testing.T) {
	for text, want := range map[string]Policy{
		"line":             &Line{Delay: 2 * time.Millisecond},
		"line:5ms":         &Line{Delay: 5 * time.Millisecond},
		"fixed":            Fixed{50 * time.Millisecond},
		"fixed:1s":         Fixed{time.Second},
		"backoff":          Backoff{time.Millisecond, 64 * time.Millisecond},
		"backoff:2ms-2ms":  Backoff{2 * time.Millisecond, 2 * time.Millisecond},
		"backoff:1ms-1m0s": Backoff{time.Millisecond, time.Minute},
		"recursive":        Recursive{Fixed{50 * time.Millisecond}},
		"recursive:20ms":   Recursive{Fixed{20 * time.Millisecond}},
	} {
		got, err := ParsePolicy(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
		} else if got.String() != want.String() {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}

// ownWay is a lock whose Lock has its own way of waiting.
type ownWay struct {
	fakeLock
	owner any
}

type ownerKey struct{}

func (l *ownWay) Lock(ctx context.Context) error {
	l.owner = ctx.Value(ownerKey{})
	if ok, _ := l.TryLock(ctx); ok {
		return nil
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// The context that a guard passes to Lock has the caller's values. It ends when the wait ends, with the
// same cause.
func TestLockThatWaitsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var one oneLock
		lock := &ownWay{fakeLock: fakeLock{&one}}
		g := &Distributed{
			New: func(string) Lock { return lock },
			WithOwner: func(ctx context.Context, owner string) context.Context {
				return context.WithValue(ctx, ownerKey{}, owner)
			},
		}
		stats, err := g.Do(t.Context(), entry, new(inside).section(0))
		if err != nil || lock.owner != "o" || stats.Attempts != 1 || one.released != 1 {
			t.Errorf("got %+v, %v, with owner %v and %d releases", stats, err, lock.owner, one.released)
		}
		one.held = true
		wait, giveUp := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { giveUp(errLate) })
		stats, err = g.Do(wait, Entry{Key: "k", Owner: "o"}, nil)
		if !errors.Is(err, errLate) || stats.Waited != time.Second || one.released != 1 {
			t.Errorf("got %+v, %v, with %d releases; want %v after a second and none",
				stats, err, one.released, errLate)
		}
	})
	_, err := (new(oneLock)).guard(nil).Do(t.Context(), entry, nil)
	if !errors.Is(err, ErrNoWait) {
		t.Errorf("a lock that cannot wait: %v, want %v", err, ErrNoWait)
	}
}

// queuedLock is a lock with its own queue. It counts the waiters in the queue.
type queuedLock struct {
	place chan struct{} // contains a value while the lock is held
	queue *atomic.Int32
	err   error // the error that Lock returns
}

func (l queuedLock) TryLock(context.Context) (bool, error) { return false, nil }

func (l queuedLock) Unlock(context.Context) error {
	<-l.place
	return nil
}

func (l queuedLock) Lock(ctx context.Context) error {
	l.queue.Add(1)
	defer l.queue.Add(-1)
	select {
	case l.place <- struct{}{}:
		return l.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Only one caller of a process waits in the lock's queue. The other callers wait in memory, in order of
// arrival, until their wait ends.
func TestOneCallerWaitsInTheLocksQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lock := queuedLock{place: make(chan struct{}, 1), queue: new(atomic.Int32)}
		g := &Distributed{New: func(string) Lock { return lock }, OneWaits: true}
		in := inside{stay: time.Millisecond}
		lock.place <- struct{}{} // held by another process
		all := queue(t, g, &in, 100)
		if n := lock.queue.Load(); n != 1 {
			t.Errorf("%d of 100 callers are in the lock's queue, want 1", n)
		}
		wait, cancel := context.WithTimeoutCause(t.Context(), time.Second, errLate)
		defer cancel()
		if _, err := g.Do(wait, Entry{Key: "k"}, nil); !errors.Is(err, errLate) {
			t.Errorf("a caller whose wait ends in memory: %v, want %v", err, errLate)
		}
		_ = lock.Unlock(t.Context())
		synctest.Wait()
		in.mu.Lock()
		if in.now != 1 || lock.queue.Load() != 1 {
			t.Errorf("%d holders and %d in the queue, want one of each", in.now, lock.queue.Load())
		}
		in.mu.Unlock()
		all.Wait()
		if !slices.IsSorted(in.entries) || len(in.entries) != 100 || in.most != 1 {
			t.Errorf("served in the order %v, %d at once", in.entries, in.most)
		}
	})
}

// If Lock fails, the guard releases the lock, because Lock may have acquired it. If only the
// wait has ended, the guard does not release it.
func TestFailedWaitIsUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lock := queuedLock{place: make(chan struct{}, 1), queue: new(atomic.Int32), err: errGone}
		g := &Distributed{New: func(string) Lock { return lock }, OneWaits: true, Undo: true}
		if _, err := g.Do(t.Context(), entry, nil); !errors.Is(err, errGone) {
			t.Errorf("got %v, want %v", err, errGone)
		}
		synctest.Wait()
		if len(lock.place) != 0 {
			t.Error("the lock was not released")
		}
		lock.place <- struct{}{} // held by another process
		wait, cancel := context.WithTimeoutCause(t.Context(), time.Second, errLate)
		defer cancel()
		if _, err := g.Do(wait, Entry{Key: "k"}, nil); !errors.Is(err, errLate) {
			t.Errorf("got %v, want %v", err, errLate)
		}
		synctest.Wait()
		if len(lock.place) != 1 {
			t.Error("a lock was released that was never taken")
		}
	})
}
