package catalog_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"oversell/internal/catalog"
	"oversell/internal/guard"
	"oversell/internal/locks/locktest"
)

// leaseOf is the ttl of these tests, in the virtual time of a bubble.
const leaseOf = 10 * time.Second

// eachLock runs f in a synctest bubble for each strategy that is a lock in Redis.
func eachLock(
	t *testing.T,
	f func(t *testing.T, strategy catalog.Strategy, s *locktest.Server, with func(guard.Policy) guard.Guard),
) {
	for _, strategy := range catalog.Strategies() {
		if strategy.Kind != catalog.Guarded || strategy.Extra ||
			slices.Contains([]string{"none", "local"}, strategy.Name) {
			continue
		}
		t.Run(strategy.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := locktest.Start(t)
				f(t, strategy, s, func(p guard.Policy) guard.Guard {
					return strategy.NewGuard(catalog.Options{Redis: s.Client, TTL: leaseOf, Policy: p})
				})
				time.Sleep(leaseOf) // let background work end while the bubble's clock still runs
			})
		})
	}
}

// as returns the entry of an owner.
func as(owner string) guard.Entry { return guard.Entry{Key: "lock", Owner: owner} }

func noWork(context.Context) error { return nil }

// undone reports whether the lock undoes a failed attempt. A lock that could remove another
// holder's key does not.
func undone(name string) bool { return name != "v1_setnx" && name != "v2_ttl" }

func TestLostReplyOfAnAttempt(t *testing.T) {
	eachLock(t, func(t *testing.T, strategy catalog.Strategy, s *locktest.Server, with func(guard.Policy) guard.Guard) {
		g := with(guard.Fixed{Delay: 100 * time.Millisecond})
		s.Hook.On(locktest.Any, 1, locktest.LoseReply(locktest.ErrCut))
		if _, err := g.Do(t.Context(), as("a"), noWork); !errors.Is(err, locktest.ErrCut) {
			t.Fatalf("got %v, want %v", err, locktest.ErrCut)
		}
		start := time.Now()
		wait, cancel := context.WithTimeout(t.Context(), 5*leaseOf)
		defer cancel()
		_, err := g.Do(wait, as("b"), noWork)
		switch waited := time.Since(start); {
		case strategy.Name == "v1_setnx":
			if err == nil {
				t.Errorf("the next holder entered after %v, want never", waited)
			}
		case err != nil:
			t.Error(err)
		case undone(strategy.Name) && waited > time.Second:
			t.Errorf("the next holder waited %v, want next to nothing", waited)
		case !undone(strategy.Name) && waited < leaseOf/2:
			t.Errorf("the next holder waited %v, want the ttl", waited)
		}
	})
}

// readOnly is the reply of a server that has just become a replica.
type readOnly struct{}

func (readOnly) Error() string { return "READONLY You can't write against a read only replica." }
func (readOnly) RedisError()   {}

// A failed Unlock is repeated, so the next holder enters as soon as Redis works again, not a ttl
// later. The holder does not wait for the repetition.
func TestFailedReleaseIsTriedAgain(t *testing.T) {
	const outage = time.Second
	for _, fault := range []error{readOnly{}, locktest.ErrCut} {
		eachLock(t, func(
			t *testing.T, strategy catalog.Strategy, s *locktest.Server, with func(guard.Policy) guard.Guard,
		) {
			g := with(guard.Fixed{Delay: 100 * time.Millisecond})
			start := time.Now()
			stats, err := g.Do(t.Context(), as("a"), func(context.Context) error {
				rule := s.Hook.On(locktest.Any, -1, locktest.Fail(fault))
				time.AfterFunc(outage, rule.Off)
				return nil
			})
			if err != nil || !errors.Is(stats.Release, fault) || time.Since(start) != 0 {
				t.Errorf("got %v, and %v from the release, after %v; want no error, and %v, at once",
					err, stats.Release, time.Since(start), fault)
			}
			time.Sleep(outage + time.Millisecond)
			wait, cancel := context.WithTimeout(t.Context(), 5*leaseOf)
			defer cancel()
			_, err = g.Do(wait, as("b"), noWork)
			waited := time.Since(start)
			switch {
			case strategy.Name == "v1_setnx" && fault == locktest.ErrCut:
				if err == nil {
					t.Errorf("the next holder entered after %v, want never: the lock may have been another's", waited)
				}
			case err != nil:
				t.Error(err)
			case strategy.Name == "v2_ttl":
				if waited < leaseOf {
					t.Errorf("the next holder entered after %v, want the ttl: the lock may have been another's", waited)
				}
			case waited > outage+outage/2:
				t.Errorf("the next holder entered %v after an outage of %v", waited, outage)
			}
			time.Sleep(leaseOf) // until the abandoned tickets expire
		})
	}
}

// Redis executes the attempt and then hangs. The caller gets the error at once. The bubble checks
// that the goroutines end by themselves.
func TestUndoDelaysNoAnswer(t *testing.T) {
	eachLock(t, func(t *testing.T, _ catalog.Strategy, s *locktest.Server, with func(guard.Policy) guard.Guard) {
		s.Hook.On(locktest.Any, 1, locktest.LoseReply(locktest.ErrCut))
		s.Hook.On(locktest.Any, -1, func(ctx context.Context, send func() error) error {
			if s.Exists("lock") {
				return locktest.Drop(ctx, send)
			}
			return send()
		})
		start := time.Now()
		_, err := with(guard.Fixed{Delay: time.Millisecond}).Do(t.Context(), as("a"), noWork)
		if took := time.Since(start); !errors.Is(err, locktest.ErrCut) || took != 0 {
			t.Errorf("got %v after %v, want %v at once", err, took, locktest.ErrCut)
		}
		time.Sleep(leaseOf + 6*time.Second) // the undo is retried for a lease, and each try may take 5 s
	})
}

// A strategy whose lock is on other servers is there if the options can connect to them. The guard
// calls Connect at each use.
func TestGuardOfALateNeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := errors.New("it is away")
		asked, met := 0, false
		o := catalog.Options{Policy: guard.Fixed{Delay: time.Millisecond}, Locks: map[catalog.Need]catalog.Connect{
			catalog.NeedsNodes: func(ctx context.Context) (func(string) guard.Lock, error) {
				asked++
				if !met {
					return nil, away
				}
				time.Sleep(time.Second)
				return func(string) guard.Lock { return free{} }, context.Cause(ctx)
			},
		}}
		there := catalog.Strategies().With(o)
		strategy, err := there.Find("redlock")
		if err != nil || slices.Contains(there.Names(), "etcd") {
			t.Fatalf("available: %v", there.Names())
		}
		g := strategy.NewGuard(o)
		if asked != 0 {
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
		if asked != 4 {
			t.Errorf("asked %d times", asked)
		}
		wait, cancel := context.WithCancelCause(t.Context())
		met = true
		cancel(away)
		if _, err := g.Do(wait, e, inside); !errors.Is(err, away) {
			t.Errorf("after the wait: %v; want %v", err, away)
		}
	})
}

// free is a lock that nobody holds.
type free struct{}

func (free) TryLock(context.Context) (bool, error) { return true, nil }
func (free) Unlock(context.Context) error          { return nil }
