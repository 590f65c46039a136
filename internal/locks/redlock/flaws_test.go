package redlock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"oversell/internal/locks/locktest"
)

// enter checks that b can acquire the lock while a holds it and does not know of the loss.
func enter(t *testing.T, a, b *Mutex, ctx context.Context) {
	t.Helper()
	var witness locktest.Witness
	defer witness.Enter("a")()
	locktest.MustTryLock(t, b)
	if ctx.Err() == nil && a.Validity() > 0 {
		defer witness.Enter("b")()
	}
	if n := witness.Most(); n != 2 {
		t.Errorf("%d holders; want 2: the flaw is gone", n)
	}
}

// A flaw: if the clocks of three of five nodes jump ahead by the ttl, a second holder gets the lock.
func TestClockJumpLetsSecondIn(t *testing.T) {
	inBubble(t, func(t *testing.T, ns nodes) {
		a, b := ns.mutex(), ns.mutex()
		locktest.MustTryLock(t, a)
		synctest.Wait()
		ctx := a.Context(t.Context())
		for _, n := range ns[:2] {
			n.FastForward(ttl)
		}
		locktest.MustNotLock(t, b) // the clocks of a minority do no harm
		time.Sleep(limit)
		ns[2].FastForward(ttl)
		enter(t, a, b, ctx)
		<-ctx.Done() // a's next renewal comes too late
		if err := context.Cause(ctx); !errors.Is(err, ErrLost) {
			t.Errorf("the context's cause is %v; want %v", err, ErrLost)
		}
		locktest.MustNotHold(t, a, ErrNotHeld)
		locktest.Unlock(t, b)
	})
}

// heldByThree lets a acquire the lock on three nodes while the other two are down. Those two
// come back, and then the third node crashes and loses its data.
func heldByThree(t *testing.T, ns nodes, a *Mutex) context.Context {
	t.Helper()
	off := ns.hooks()[3:].on(locktest.Any, locktest.Fail(locktest.ErrCut))
	locktest.MustTryLock(t, a)
	synctest.Wait()
	off()
	ns[2].FlushAll()
	return a.Context(t.Context())
}

// A flaw: if a crashed node restarts immediately without its data, it forms a majority with the two
// nodes that never saw a's lock, and a second holder gets the lock.
func TestEmptyRestartLetsSecondIn(t *testing.T) {
	inBubble(t, func(t *testing.T, ns nodes) {
		a, b := ns.mutex(), ns.mutex()
		ctx := heldByThree(t, ns, a)
		enter(t, a, b, ctx)
		locktest.Unlock(t, b)
		die(a)
	})
}

// If the crashed node stays down for longer than the ttl, a notices that it cannot renew the
// lock before anybody else can get it.
func TestDelayedRestart(t *testing.T) {
	inBubble(t, func(t *testing.T, ns nodes) {
		a, b := ns.mutex(), ns.mutex()
		ctx := heldByThree(t, ns, a)
		off := ns.hooks()[2:3].on(locktest.Any, locktest.Fail(locktest.ErrCut))
		time.AfterFunc(ttl+locktest.Tick, off)

		start := time.Now()
		for ok := false; !ok && time.Since(start) < 2*ttl; {
			ok, _ = b.TryLock(t.Context())
			if ok && ctx.Err() == nil {
				t.Fatalf("b is let in after %v, and a not told", time.Since(start))
			}
			time.Sleep(ttl / 50)
		}
		if err := context.Cause(ctx); !errors.Is(err, ErrLost) {
			t.Errorf("the context's cause is %v; want %v", err, ErrLost)
		}
		locktest.MustNotLock(t, ns.mutex()) // b has it
		locktest.Unlock(t, b)
	})
}
