package nativelock

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"oversell/internal/backend/backendtest"
	"oversell/internal/locks/locktest"
)

// Most tests here run in a bubble, where time.Sleep moves the clock of Redis
// and of the renewal's timers together. This is added to a sleep so that it
// ends after a timer of the same length, not beside it.
const tick = time.Millisecond

func TestLongWorkKeepsLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := locktest.StartTicking(t)
		key := locktest.Key(t)
		a, b := newLock(t, s.Client, key, ttl), newLock(t, s.Client, key, ttl)

		mustLock(t, as(t, "a"), a)
		ctx := a.Context(t.Context())
		for range 100 {
			time.Sleep(ttl/3 + tick)
			mustNotLock(t, as(t, "b"), b)
		}
		if ctx.Err() != nil {
			t.Error("the context has ended:", context.Cause(ctx))
		}
		if n := a.Renewals(); n != 100 {
			t.Errorf("renewed %d times; want 100", n)
		}
		unlock(t, as(t, "a"), a)
		if err := context.Cause(ctx); err != context.Canceled {
			t.Errorf("the context's cause is %v; want %v", err, context.Canceled)
		}
		mustLock(t, as(t, "b"), b)
		unlock(t, as(t, "b"), b)
	})
}

// The same test in real time.
func TestLongWorkKeepsLockInTime(t *testing.T) {
	backendtest.EachRedisWith(t, "DELEX|DELIFEQ", func(t *testing.T, rdb redis.UniversalClient) {
		const ttl = 2 * time.Second // a loaded machine stalls for part of it
		key := locktest.Key(t)
		a, b := newLock(t, rdb, key, ttl), newLock(t, rdb, key, ttl)

		mustLock(t, as(t, "a"), a)
		for range 7 {
			time.Sleep(ttl / 5)
			mustNotLock(t, as(t, "b"), b)
		}
		unlock(t, as(t, "a"), a)
		if a.Renewals() == 0 {
			t.Error("never renewed")
		}
		mustLock(t, as(t, "b"), b)
		unlock(t, as(t, "b"), b)
	})
}

func TestUnlockEndsRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := locktest.StartTicking(t)
		a := newLock(t, s.Client, locktest.Key(t), ttl)
		renewals := s.Hook.Count(isRenewal)

		mustLock(t, as(t, "a"), a)
		time.Sleep(ttl + tick)
		if n := renewals.Hits(); n != 3 {
			t.Errorf("%d renewals in 1 ttl; want 3", n)
		}
		ctx := a.Context(t.Context())
		unlock(t, as(t, "a"), a)
		if err := context.Cause(ctx); err != context.Canceled {
			t.Errorf("the context's cause is %v; want %v", err, context.Canceled)
		}
		time.Sleep(10 * ttl)
		if n := renewals.Hits(); n != 3 {
			t.Errorf("%d renewals after Unlock; want none", n-3)
		}
	})
}

// A renewal that arrives when the lock is another's, or nobody's, changes nothing.
func TestRenewalSparesForeignLock(t *testing.T) {
	for _, taken := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := locktest.StartTicking(t)
			key := locktest.Key(t)
			a, b := newLock(t, s.Client, key, ttl), newLock(t, s.Client, key, ttl)
			pause := locktest.NewPause()
			s.Hook.On(isRenewal, 1, pause.Before)

			mustLock(t, as(t, "a"), a)
			ctx := a.Context(t.Context())
			<-pause.Parked()
			s.Del(key)
			want := ""
			if taken {
				mustLock(t, as(t, "b"), b)
				want = b.token
			}
			time.Sleep(ttl / 100)
			left := s.TTL(key)
			pause.Release()
			<-ctx.Done()
			if err := context.Cause(ctx); err != ErrLost {
				t.Errorf("the context's cause is %v; want %v", err, ErrLost)
			}
			if got, _ := s.Get(key); got != want || s.TTL(key) != left {
				t.Errorf("after the renewal the lock is %q for %v; want %q for %v", got, s.TTL(key), want, left)
			}
			mustNotBeHeld(t, as(t, "a"), a)
			if taken {
				unlock(t, as(t, "b"), b)
			}
		})
	}
}

// isRenewal matches SET … IFEQ, and isAcquire SET … NX.
func isRenewal(cmd redis.Cmder) bool { return isSet(cmd, "ifeq") }
func isAcquire(cmd redis.Cmder) bool { return isSet(cmd, "nx") }

func isSet(cmd redis.Cmder, option string) bool {
	return cmd.Name() == "set" && slices.ContainsFunc(cmd.Args(), func(arg any) bool { return arg == option })
}

// Unlock does not return while a renewal is in flight, whether Redis has executed
// it already or not.
func TestUnlockAwaitsRenewalInFlight(t *testing.T) {
	pauses := map[string]func(*locktest.Pause) locktest.Action{
		"before": func(p *locktest.Pause) locktest.Action { return p.Before },
		"after":  func(p *locktest.Pause) locktest.Action { return p.After },
	}
	for name, where := range pauses {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := locktest.StartTicking(t)
				key := locktest.Key(t)
				a, b := newLock(t, s.Client, key, ttl), newLock(t, s.Client, key, ttl)
				pause := locktest.NewPause()
				s.Hook.On(isRenewal, 1, where(pause))

				mustLock(t, as(t, "a"), a)
				ctx := a.Context(t.Context())
				<-pause.Parked()
				unlocked := make(chan error, 1)
				go func() { unlocked <- a.Unlock(as(t, "a")) }()
				synctest.Wait()
				mustLock(t, as(t, "b"), b) // the lock itself does not wait
				select {
				case err := <-unlocked:
					t.Errorf("Unlock = %v while a renewal is in flight", err)
				default:
				}
				pause.Release()
				if err := <-unlocked; err != nil {
					t.Error("Unlock:", err)
				}
				if err := context.Cause(ctx); err != context.Canceled {
					t.Errorf("the context's cause is %v; want %v", err, context.Canceled)
				}
				unlock(t, as(t, "b"), b)
			})
		})
	}
}

func TestFailedUnlockEndsRenewal(t *testing.T) {
	faults := map[string]locktest.Action{
		"never sent": locktest.Fail(locktest.ErrCut),
		"lost reply": locktest.LoseReply(locktest.ErrCut),
		"silence":    locktest.Drop,
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := locktest.StartTicking(t)
				key := locktest.Key(t)
				a, b := newLock(t, s.Client, key, ttl), newLock(t, s.Client, key, ttl)
				renewals := s.Hook.Count(isRenewal)

				mustLock(t, as(t, "a"), a)
				s.Hook.On(locktest.Command("delex"), 1, fault)
				if err := a.Unlock(as(t, "a")); err == nil || errors.Is(err, ErrNotHeld) {
					t.Errorf("Unlock = %v; want the error of the fault", err)
				}
				time.Sleep(ttl)
				if n := renewals.Hits(); n != 0 {
					t.Errorf("%d renewals after Unlock; want none", n)
				}
				mustLock(t, as(t, "b"), b)
				unlock(t, as(t, "b"), b)
			})
		})
	}
}

func TestRenewalOutlivesErrors(t *testing.T) {
	faults := map[string]locktest.Action{
		"never sent": locktest.Fail(locktest.ErrCut),
		"lost reply": locktest.LoseReply(locktest.ErrCut),
		"silence":    locktest.Drop,
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := locktest.StartTicking(t)
				key := locktest.Key(t)
				a, b := newLock(t, s.Client, key, ttl), newLock(t, s.Client, key, ttl)

				mustLock(t, as(t, "a"), a)
				ctx := a.Context(t.Context())
				for range 10 {
					s.Hook.On(isRenewal, 1, fault)
					time.Sleep(2*ttl/3 + tick) // one that fails, one that succeeds
					mustNotLock(t, as(t, "b"), b)
				}
				if ctx.Err() != nil {
					t.Error("the context has ended:", context.Cause(ctx))
				}
				if n := a.Renewals(); n != 10 {
					t.Errorf("renewed %d times; want 10", n)
				}
				unlock(t, as(t, "a"), a)
			})
		})
	}
}

func TestLossIsTold(t *testing.T) {
	tests := map[string]struct {
		lose   func(t *testing.T, s *locktest.Server, key string)
		within time.Duration
		why    error
	}{
		"key deleted": {func(t *testing.T, s *locktest.Server, key string) {
			s.Del(key)
		}, ttl / 3, ErrLost},
		"another's": {func(t *testing.T, s *locktest.Server, key string) {
			s.Del(key)
			b := newLock(t, s.Client, key, ttl)
			mustLock(t, as(t, "b"), b)
			t.Cleanup(func() { unlock(t, context.Background(), b) })
		}, ttl / 3, ErrLost},
		"Redis fails": {func(t *testing.T, s *locktest.Server, key string) {
			s.Hook.On(locktest.Any, -1, locktest.Fail(locktest.ErrCut))
		}, ttl, locktest.ErrCut},
		"Redis is silent": {func(t *testing.T, s *locktest.Server, key string) {
			s.Hook.On(locktest.Any, -1, locktest.Drop)
		}, ttl, context.DeadlineExceeded},
		"client hangs": {func(t *testing.T, s *locktest.Server, key string) {
			hang := make(chan struct{}) // a client that ignores its deadline
			t.Cleanup(func() { close(hang) })
			s.Hook.On(locktest.Any, -1, func(context.Context, func() error) error {
				<-hang
				return locktest.ErrCut
			})
		}, ttl, ErrLost},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := locktest.StartTicking(t)
				key := locktest.Key(t)
				a := newLock(t, s.Client, key, ttl)

				mustLock(t, as(t, "a"), a)
				ctx := a.Context(t.Context())
				time.Sleep(3*ttl + tick) // it has just been renewed
				test.lose(t, s, key)
				start := time.Now()
				<-ctx.Done()
				if err := context.Cause(ctx); !errors.Is(err, ErrLost) || !errors.Is(err, test.why) {
					t.Errorf("the context's cause is %v; want %v, %v", err, ErrLost, test.why)
				}
				if d := time.Since(start); d > test.within {
					t.Errorf("told after %v; want within %v", d, test.within)
				}
				if late := a.Context(t.Context()); !errors.Is(context.Cause(late), ErrLost) {
					t.Errorf("a later context's cause is %v; want %v", context.Cause(late), ErrLost)
				}
				die(a)
			})
		})
	}
}

// Redis granted the lock, but it is another's by the time the reply arrives: the
// context must be cancelled from the start, not only when a timer fires.
func TestLateReplyIsLoss(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			s := locktest.StartTicking(t)
			key := locktest.Key(t)
			a, b := newLock(t, s.Client, key, ttl), newLock(t, s.Client, key, ttl)
			pause := locktest.NewPause()
			s.Hook.On(isAcquire, 1, pause.After)

			cause := make(chan error)
			go func() {
				mustLock(t, as(t, "a"), a)
				cause <- context.Cause(a.Context(t.Context()))
			}()
			<-pause.Parked()
			time.Sleep(ttl + tick)
			mustLock(t, as(t, "b"), b)
			pause.Release()
			if err := <-cause; !errors.Is(err, ErrLost) {
				t.Errorf("the context's cause is %v; want %v", err, ErrLost)
			}
			mustNotBeHeld(t, as(t, "a"), a)
			unlock(t, as(t, "b"), b)
		})
	}
}

// A late reply does not make the lease longer: the lease begins before the request
// was sent.
func TestLeaseCountsFromTheRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := locktest.StartTicking(t)
		const late = ttl / 5
		s.Hook.On(isRenewal, 1, func(_ context.Context, send func() error) error {
			defer time.Sleep(late)
			return send()
		})
		a := newLock(t, s.Client, locktest.Key(t), ttl)
		start := time.Now()
		mustLock(t, as(t, "a"), a)
		ctx := a.Context(t.Context())
		time.Sleep(ttl/3 + late + tick)
		s.Hook.On(isRenewal, -1, locktest.Fail(locktest.ErrCut))
		<-ctx.Done()
		if took, want := time.Since(start), ttl/3+ttl; took != want {
			t.Errorf("told of the loss after %v, want %v", took, want)
		}
		_ = a.Unlock(as(t, "a"))
	})
}

// Nothing renews a lock whose reply was lost: it expires.
func TestLostReplyRenewsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := locktest.StartTicking(t)
		key := locktest.Key(t)
		a, b := newLock(t, s.Client, key, ttl), newLock(t, s.Client, key, ttl)

		s.Hook.On(isAcquire, 1, locktest.LoseReply(locktest.ErrCut))
		if _, err := a.TryLock(as(t, "a")); !errors.Is(err, locktest.ErrCut) {
			t.Errorf("TryLock: %v; want %v", err, locktest.ErrCut)
		}
		mustNotLock(t, as(t, "a"), a)
		time.Sleep(ttl)
		mustLock(t, as(t, "b"), b)
		unlock(t, as(t, "b"), b)
	})
}

func TestContextOfNoHold(t *testing.T) {
	s := locktest.Start(t)
	m := newLock(t, s.Client, locktest.Key(t), ttl)
	if err := context.Cause(m.Context(t.Context())); err != ErrNotHeld {
		t.Errorf("before TryLock the context's cause is %v; want %v", err, ErrNotHeld)
	}
	mustLock(t, as(t, "a"), m)
	unlock(t, as(t, "a"), m)
	if err := context.Cause(m.Context(t.Context())); err != context.Canceled {
		t.Errorf("after Unlock the context's cause is %v; want %v", err, context.Canceled)
	}
}

// A flaw: a paused process does not see time pass. When it resumes, the lock is
// another's, and it does not know it yet.
func TestPausedHolderWritesTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := locktest.StartTicking(t)
		key := locktest.Key(t)
		a, b := newLock(t, s.Client, key, ttl), newLock(t, s.Client, key, ttl)
		sold := locktest.NewCounter(t, s.Client)

		mustLock(t, as(t, "a"), a)
		ctx := a.Context(t.Context())
		seen := sold.Get()
		s.FastForward(ttl) // a is paused
		mustLock(t, as(t, "b"), b)
		sold.Set(sold.Get() + 1)
		if ctx.Err() != nil {
			t.Error("the context has ended:", context.Cause(ctx))
		}
		sold.Set(seen + 1)
		if n := sold.Get(); n != 1 {
			t.Errorf("two holders sold one each, and %d are on record; want 1: a wrote over b", n)
		}
		<-ctx.Done() // at its next renewal, which comes too late
		if err := context.Cause(ctx); err != ErrLost {
			t.Errorf("the context's cause is %v; want %v", err, ErrLost)
		}
		mustNotBeHeld(t, as(t, "a"), a)
		unlock(t, as(t, "b"), b)
	})
}

// A flaw: a lock that nobody unlocks is renewed for as long as the process lives.
func TestForgottenUnlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := locktest.StartTicking(t)
		key := locktest.Key(t)
		a, b := newLock(t, s.Client, key, ttl), newLock(t, s.Client, key, ttl)

		ctx, cancel := context.WithCancel(as(t, "a"))
		mustLock(t, ctx, a)
		cancel() // and returns
		time.Sleep(time.Hour)
		mustNotLock(t, as(t, "b"), b)
		unlock(t, ctx, a)
	})
}
