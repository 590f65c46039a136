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

// If a minority of nodes loses the key, the holder keeps the lock, and a renewal does not
// restore the key.
func TestForgetfulMinority(t *testing.T) {
	inBubble(t, func(t *testing.T, ns nodes) {
		a := ns.mutex()
		locktest.MustTryLock(t, a)
		synctest.Wait()
		ctx := a.Context(t.Context())
		ns[0].Del(key)
		ns[1].Del(key)
		time.Sleep(10 * ttl)
		if ctx.Err() != nil {
			t.Error("the context has ended:", context.Cause(ctx))
		}
		for i, token := range ns.tokens() {
			if has, want := token != "", i >= 2; has != want {
				t.Errorf("node %d has the key: %v; want %v", i, has, want)
			}
		}
		locktest.Unlock(t, a)
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
			b := ns.mutex()
			locktest.MustTryLock(t, b)
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
		for _, held := range []time.Duration{locktest.Tick, 3*ttl + locktest.Tick} { // just acquired, or just renewed
			t.Run(fmt.Sprintf("%s after %v", name, held), func(t *testing.T) {
				inBubble(t, func(t *testing.T, ns nodes) {
					a := ns.mutex()
					locktest.MustTryLock(t, a)
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
