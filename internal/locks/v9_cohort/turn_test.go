package lock

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"oversell/internal/locks/locktest"
)

// waitFor starts a Lock, and returns once it waits.
func waitFor(t *testing.T, m *Mutex, who string) (served <-chan error) {
	t.Helper()
	got := make(chan error, 1)
	go func() { got <- m.Lock(as(t, who)) }()
	synctest.Wait()
	select {
	case err := <-got:
		t.Fatalf("%s does not wait: Lock = %v", who, err)
	default:
	}
	return got
}

// mustBeServed fails the test unless the waiter has the lock.
func mustBeServed(t *testing.T, served <-chan error, who string) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-served:
		if err != nil {
			t.Fatalf("%s: Lock = %v", who, err)
		}
	default:
		t.Fatalf("%s still waits", who)
	}
}

// A holder that has lost the lock and hangs blocks nobody, least of all its own
// process: the lock is requested again for the others.
func TestLostHoldLetsItsProcessGoOn(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, hooks []*locktest.Hook) {
		for name, lose := range map[string]func(key string){
			"key deleted": func(key string) { s.Del(key) },
			"renewals rejected": func(string) {
				rule := hooks[0].On(locktest.Script(renewSource), -1, locktest.Fail(locktest.ErrCut))
				time.AfterFunc(ttl, rule.Off)
			},
		} {
			key := locktest.Key(t)
			a, b, c := New(rdb[0], key, ttl), New(rdb[0], key, ttl), New(rdb[1], key, ttl)
			mustLock(t, as(t, "a"), a)
			lost := a.Context(t.Context())
			served := waitFor(t, b, "b")
			lose(key)
			time.Sleep(ttl + ttl/3) // a hangs
			mustBeServed(t, served, "b")
			if err := context.Cause(lost); !errors.Is(err, ErrLost) {
				t.Errorf("%s: the cause of a's context is %v; want %v", name, err, ErrLost)
			}
			if err := New(rdb[0], key, ttl).Lock(as(t, "a")); !errors.Is(err, ErrLost) {
				t.Errorf("%s: a re-entry gets %v; want %v", name, err, ErrLost)
			}
			ctx := b.Context(t.Context())
			mustNotBeHeld(t, as(t, "a"), a)
			mustNotBeHeld(t, as(t, "a"), a)
			time.Sleep(2 * ttl)
			if ctx.Err() != nil {
				t.Errorf("%s: a's Unlock ended b's hold: %v", name, context.Cause(ctx))
			}
			mustNotLock(t, as(t, "c"), c)
			unlock(t, as(t, "b"), b)
			mustLock(t, as(t, "c"), c)
			unlock(t, as(t, "c"), c)
		}
	})
}

// Nobody is let in by a hold that has expired, even if its timer is late: a's Unlock
// comes before it, or the message that wakes b after it.
func TestLostHoldIsNotHandedOn(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, hooks []*locktest.Hook) {
		key := locktest.Key(t)
		a, b := New(rdb[0], key, ttl), New(rdb[0], key, ttl)
		mustLock(t, as(t, "a"), a)
		served := waitFor(t, b, "b")
		mu.Lock()
		lost := a.turn.hold
		lost.expires = time.Now() // and the timer has not fired yet
		mu.Unlock()
		asked := hooks[0].Count(locktest.Script(lockSource))
		mustNotBeHeld(t, as(t, "a"), a)
		mustBeServed(t, served, "b")
		if b.turn.hold == lost || asked.Hits() == 0 {
			t.Error("b was let in by a hold that is lost")
		}
		unlock(t, as(t, "b"), b)
	})
}

func TestLateGrantLetsNobodyIn(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, hooks []*locktest.Hook) {
		key := locktest.Key(t)
		a, b := New(rdb[0], key, ttl), New(rdb[1], key, ttl)
		mustLock(t, as(t, "a"), a)
		// The message that wakes b is so late that its lease is over.
		hooks[1].On(locktest.Command("blpop"), 1, func(ctx context.Context, send func() error) error {
			err := send()
			time.Sleep(ttl)
			return err
		})
		served := waitFor(t, b, "b")
		asked := hooks[1].Count(locktest.Script(lockSource))
		unlock(t, as(t, "a"), a)
		time.Sleep(ttl + ttl/3)
		mustBeServed(t, served, "b")
		if asked.Hits() == 0 {
			t.Error("b was let in by a lease that is over")
		}
		unlock(t, as(t, "b"), b)
	})
}

// A renewal is counted for the holder whose turn it was, not for all to which the
// lock was handed on.
func TestRenewalIsCountedOnce(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, hooks []*locktest.Hook) {
		key := locktest.Key(t)
		a := New(rdb[0], key, ttl)
		mustLock(t, as(t, "a"), a)
		var counted atomic.Int32
		var waiting []<-chan error
		for i := range 50 {
			m, who := New(rdb[0], key, ttl), fmt.Sprint("waiter ", i)
			waiting = append(waiting, func() <-chan error {
				done := make(chan error, 1)
				go func() {
					err := m.Lock(as(t, who))
					if err == nil {
						err = m.Unlock(as(t, who))
					}
					counted.Add(int32(m.Renewals()))
					done <- err
				}()
				return done
			}())
		}
		sent := hooks[0].Count(locktest.Script(renewSource))
		time.Sleep(ttl / 2)
		unlock(t, as(t, "a"), a)
		for i, done := range waiting {
			if err := <-done; err != nil {
				t.Errorf("waiter %d: %v", i, err)
			}
		}
		if n := int(counted.Load()) + a.Renewals(); n != 1 || sent.Hits() != 1 || a.Renewals() != 1 {
			t.Errorf("%d counted, %d of them by a; %d sent; want 1 of each", n, a.Renewals(), sent.Hits())
		}
	})
}

// Each holder's context ends with its own Unlock, even if the process keeps the lock;
// and only the current holder is told of a loss.
func TestContextEndsWithItsOwnTurn(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, _ []*locktest.Hook) {
		key := locktest.Key(t)
		a, b := New(rdb[0], key, ttl), New(rdb[0], key, ttl)
		mustLock(t, as(t, "a"), a)
		before := a.Context(t.Context())
		served := waitFor(t, b, "b")
		unlock(t, as(t, "a"), a)
		mustBeServed(t, served, "b")
		after, others := a.Context(t.Context()), b.Context(t.Context())
		for name, ctx := range map[string]context.Context{"before": before, "after": after} {
			if err := context.Cause(ctx); err != context.Canceled {
				t.Errorf("a's context of %s its Unlock has the cause %v; want %v", name, err, context.Canceled)
			}
		}
		if others.Err() != nil {
			t.Errorf("b's context has ended: %v", context.Cause(others))
		}
		s.Del(key)
		<-others.Done()
		if err := context.Cause(others); !errors.Is(err, ErrLost) {
			t.Errorf("b's context has the cause %v; want %v", err, ErrLost)
		}
		if err := context.Cause(a.Context(t.Context())); err != context.Canceled {
			t.Errorf("b's loss is told to a: %v", err)
		}
		mustNotBeHeld(t, as(t, "b"), b)
	})
}
