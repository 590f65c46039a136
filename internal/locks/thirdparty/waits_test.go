package thirdparty

import (
	"context"
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-redsync/redsync/v4"

	"oversell/internal/backend/backendtest"
	"oversell/internal/locks/locktest"
)

// key is the key of the lock. Each test has its own Redis.
const key = "lock"

// redsync gives up after the number of attempts that its documentation states.
func TestRedsyncGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := locktest.Start(t)
		lib := NewRedsync(s.Client, redsync.WithExpiry(ttl))
		a, b := lib.New(key), lib.New(key)
		mustLock(t, a)
		tries := s.Hook.Count(locktest.All(locktest.Command("set", "setnx"), locktest.Mentioning(key)))
		start := time.Now()
		if err := b.Lock(t.Context()); !errors.Is(err, ErrGaveUp) {
			t.Errorf("Lock = %v; want %v", err, ErrGaveUp)
		}
		if n := tries.Hits(); n != 32 {
			t.Errorf("%d tries; want 32", n)
		}
		if took := time.Since(start); took < 31*50*time.Millisecond || took > 31*250*time.Millisecond {
			t.Errorf("it took %v; want 31 times 50 to 250 ms", took)
		}
		locktest.MustNotHold(t, b, ErrNotHeld)
		locktest.Unlock(t, a)
	})
}

// redislock retries every half second until the wait ends, even after the ttl has passed.
func TestRedislockWaitsBeyondTheTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := locktest.Start(t)
		m := NewRedislock(s.Client, ttl, LinearBackoff).New(key)
		backendtest.Must(t, s.Set(key, "another's"))
		late := errors.New("too late")
		wait, end := context.WithCancelCause(t.Context())
		time.AfterFunc(10*ttl+redislockBackoff/2, func() { end(late) })
		tries := s.Hook.Count(locktest.Mentioning(key))
		start := time.Now()
		if err := m.Lock(wait); err != late {
			t.Errorf("Lock = %v; want %v", err, late)
		}
		if took := time.Since(start); took != 10*ttl+redislockBackoff/2 {
			t.Errorf("it took %v", took)
		}
		if n := tries.Hits(); n != int(10*ttl/redislockBackoff)+1 {
			t.Errorf("%d tries; want one every %v", n, redislockBackoff)
		}
	})
}

// A waiter's extended lease counts from the request that got it, even if the reply is late.
func TestLateReplyDoesNotProlongTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := locktest.Start(t)
		m := Extend(NewRedislock(s.Client, ttl, LinearBackoff).New(key), ttl, t.Context())
		backendtest.Must(t, s.Set(key, "another's"))
		s.SetTTL(key, time.Second)
		late := s.Hook.On(locktest.Any, -1, func(_ context.Context, send func() error) error {
			defer time.Sleep(ttl / 2)
			return send()
		})
		backendtest.Must(t, m.Lock(t.Context()))
		late.Off()
		s.Hook.On(locktest.Any, -1, locktest.Fail(locktest.ErrCut))
		<-m.Context(t.Context()).Done()
		if !s.Exists(key) {
			t.Error("the holder was told when its lease was over")
		}
		_ = m.Unlock(t.Context())
	})
}

// If a key is deleted, and its holder locks again before it has noticed, only the new hold is extended.
func TestLockAgainAfterALoss(t *testing.T) {
	for _, lib := range onGoRedis() {
		t.Run(lib.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := locktest.Start(t)
				m := Extend(lib.open(t, s.Client, ttl)(key).(extendable), ttl, t.Context())
				mustLock(t, m)
				first := m.Context(t.Context())
				s.FlushAll()
				mustLock(t, m)
				synctest.Wait()
				if err := context.Cause(first); err != ErrLost {
					t.Errorf("the first hold ended with %v; want %v", err, ErrLost)
				}
				extensions := s.Hook.Count(locktest.Any)
				time.Sleep(ttl / 2)
				if n := extensions.Hits(); n != 1 {
					t.Errorf("%d extensions within half a ttl; want 1", n)
				}
				locktest.Unlock(t, m)
			})
		})
	}
}

// slow is a context that is not done yet when its deadline has passed.
type slow struct {
	context.Context
	deadline time.Time
}

func (s slow) Deadline() (time.Time, bool) { return s.deadline, true }

// If a connection reports a timeout before the context of Lock is done, Lock still returns the
// context's cause, not the connection's error.
func TestWaitThatHearsLateOfItsEnd(t *testing.T) {
	for _, lib := range onGoRedis() {
		t.Run(lib.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := locktest.Start(t)
				s.Hook.On(locktest.Any, -1, locktest.Fail(os.ErrDeadlineExceeded))
				late := errors.New("too late")
				ctx, end := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Minute, func() { end(late) })
				wait := slow{ctx, time.Now()}
				if err := lib.open(t, s.Client, ttl)(key).Lock(wait); err != late {
					t.Errorf("Lock = %v; want %v", err, late)
				}
			})
		})
	}
}
