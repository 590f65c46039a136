package redlock

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"oversell/internal/locks/locktest"
)

func TestLongWorkKeepsLock(t *testing.T) {
	inBubble(t, func(t *testing.T, ns nodes) {
		key := locktest.Key(t)
		a, b := ns.mutex(key), ns.mutex(key)
		mustLock(t, a)
		ctx := a.Context(t.Context())
		for range 30 {
			time.Sleep(ttl/3 + tick)
			mustNotLock(t, b)
			if d := a.Validity(); d < ttl/2 {
				t.Errorf("valid for %v; want more than half the ttl", d)
			}
		}
		if ctx.Err() != nil {
			t.Error("the context has ended:", context.Cause(ctx))
		}
		if n := a.Renewals(); n != 30 {
			t.Errorf("renewed %d times; want 30", n)
		}
		unlock(t, a)
		if err := context.Cause(ctx); err != context.Canceled {
			t.Errorf("the context's cause is %v; want %v", err, context.Canceled)
		}
		ns.mustBeFree(t, key)
	})
}

// A renewal in flight does not restore what Unlock has deleted.
func TestUnlockDuringRenewal(t *testing.T) {
	inBubble(t, func(t *testing.T, ns nodes) {
		key := locktest.Key(t)
		a, b := ns.mutex(key), ns.mutex(key)
		pause := locktest.NewPause()
		ns.hooks()[:3].on(locktest.Script(renewSource), pause.Before)
		mustLock(t, a)
		<-pause.Parked()
		unlocked := make(chan error, 1)
		go func() { unlocked <- a.Unlock(t.Context()) }()
		synctest.Wait()
		pause.Release()
		if err := <-unlocked; err != nil {
			t.Error("Unlock:", err)
		}
		ns.mustBeFree(t, key)
		mustLock(t, b)
		unlock(t, b)
	})
}

func TestRenewalOutlivesErrors(t *testing.T) {
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, ns nodes) {
				a := ns.mutex(locktest.Key(t))
				mustLock(t, a)
				ctx := a.Context(t.Context())
				for range 10 {
					off := ns.hooks()[1:].on(locktest.Script(renewSource), fault.action)
					time.Sleep(ttl/3 + tick + limit) // a failed renewal
					off()
					time.Sleep(ttl/3 - limit) // a successful renewal
				}
				if ctx.Err() != nil {
					t.Error("the context has ended:", context.Cause(ctx))
				}
				if n := a.Renewals(); n != 10 {
					t.Errorf("renewed %d times; want 10", n)
				}
				unlock(t, a)
			})
		})
	}
}

// If a minority of nodes loses the key, the lock is not lost, and the key is
// not restored.
func TestForgetfulMinority(t *testing.T) {
	inBubble(t, func(t *testing.T, ns nodes) {
		key := locktest.Key(t)
		a := ns.mutex(key)
		mustLock(t, a)
		synctest.Wait()
		ctx := a.Context(t.Context())
		ns[0].Del(key)
		ns[1].Del(key)
		time.Sleep(10 * ttl)
		if ctx.Err() != nil {
			t.Error("the context has ended:", context.Cause(ctx))
		}
		for i, token := range ns.tokens(key) {
			if has, want := token != "", i >= 2; has != want {
				t.Errorf("node %d has the key: %v; want %v", i, has, want)
			}
		}
		unlock(t, a)
	})
}

func TestLossIsTold(t *testing.T) {
	tests := map[string]struct {
		lose   func(t *testing.T, ns nodes, key string)
		within time.Duration
		why    error
	}{
		"a majority forgot": {func(t *testing.T, ns nodes, key string) {
			for _, n := range ns[:3] {
				n.Del(key)
			}
		}, ttl / 3, ErrLost},
		"another's": {func(t *testing.T, ns nodes, key string) {
			for _, n := range ns[:3] {
				n.Del(key)
			}
			b := ns.mutex(key)
			mustLock(t, b)
			t.Cleanup(func() { _ = b.Unlock(context.Background()) })
		}, ttl / 3, ErrLost},
	}
	for name, fault := range faults {
		tests["a majority is "+name] = struct {
			lose   func(t *testing.T, ns nodes, key string)
			within time.Duration
			why    error
		}{func(t *testing.T, ns nodes, _ string) {
			ns.hooks()[:3].on(locktest.Any, fault.action)
		}, ttl - drift(ttl), fault.err}
	}
	for name, test := range tests {
		for _, held := range []time.Duration{tick, 3*ttl + tick} { // just acquired, or just renewed
			t.Run(fmt.Sprintf("%s after %v", name, held), func(t *testing.T) {
				inBubble(t, func(t *testing.T, ns nodes) {
					key := locktest.Key(t)
					a := ns.mutex(key)
					mustLock(t, a)
					ctx := a.Context(t.Context())
					time.Sleep(held)
					test.lose(t, ns, key)
					mustBeTold(t, a, ctx, test.within, test.why)
				})
			})
		}
	}
}

func mustBeTold(t *testing.T, a *Mutex, ctx context.Context, within time.Duration, why error) {
	t.Helper()
	start := time.Now()
	select {
	case <-ctx.Done():
	case <-time.After(2 * ttl):
	}
	if err := context.Cause(ctx); !errors.Is(err, ErrLost) || !errors.Is(err, why) {
		t.Errorf("the context's cause is %v; want %v, %v", err, ErrLost, why)
	}
	if d := time.Since(start); d > within {
		t.Errorf("told after %v; want within %v", d, within)
	}
	if d := a.Validity(); d != 0 {
		t.Errorf("valid for %v after the loss", d)
	}
	if late := a.Context(t.Context()); !errors.Is(context.Cause(late), ErrLost) {
		t.Errorf("a later context's cause is %v; want %v", context.Cause(late), ErrLost)
	}
}

func TestDeadHolderExpires(t *testing.T) {
	inBubble(t, func(t *testing.T, ns nodes) {
		key := locktest.Key(t)
		a, b := ns.mutex(key), ns.mutex(key)
		mustLock(t, a)
		die(a)
		time.Sleep(ttl - tick)
		mustNotLock(t, b)
		time.Sleep(tick)
		mustLock(t, b)
		unlock(t, b)
	})
}
