package redlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"oversell/internal/locks/locktest"
)

// patience limits the time that a failing test can hang.
const patience = 5 * time.Minute

// wait acquires the lock. It retries with random delays, because a node may answer too late
// while the machine is busy.
func wait(t *testing.T, m *Mutex) {
	t.Helper()
	for start := time.Now(); ; time.Sleep(rand.N(5 * time.Millisecond)) {
		ok, err := m.TryLock(t.Context())
		if ok {
			return
		}
		if err != nil && !errors.Is(err, ErrNoQuorum) || time.Since(start) > patience {
			t.Error("TryLock:", err)
			return
		}
	}
}

// giveBack releases the lock, and retries like wait.
func giveBack(t *testing.T, m *Mutex) {
	t.Helper()
	for start := time.Now(); ; {
		err := m.Unlock(t.Context())
		if err == nil || errors.Is(err, ErrNotHeld) && time.Since(start) > limit {
			return // on a retry: the first call may have released it
		}
		if !errors.Is(err, ErrNoQuorum) || time.Since(start) > patience {
			t.Error("Unlock:", err)
			return
		}
	}
}

func TestMinorityFails(t *testing.T) {
	eachFault(t, func(t *testing.T, ns nodes, fault locktest.Action, _ error) {
		a, b := ns.mutex(), ns.mutex()
		off := ns.hooks()[1:3].on(locktest.Any, fault)

		// The three healthy nodes answer at once. They decide the result, so no
		// caller waits for the other nodes.
		locktest.InTime(t, 0, func() {
			locktest.MustTryLock(t, a)
			locktest.MustNotLock(t, b)
			locktest.Unlock(t, a)
			locktest.MustTryLock(t, b)
			locktest.Unlock(t, b)
		})
		off()
		ns.mustBeFree(t)
	})
}

func TestNoQuorum(t *testing.T) {
	eachFault(t, func(t *testing.T, ns nodes, fault locktest.Action, unanswered error) {
		a, b := ns.mutex(), ns.mutex()
		off := ns.hooks()[:3].on(locktest.Any, fault)

		locktest.InTime(t, limit, func() {
			ok, err := a.TryLock(t.Context())
			if ok || !errors.Is(err, ErrNoQuorum) || !errors.Is(err, unanswered) {
				t.Errorf("TryLock = %v, %v; want false, %v, %v", ok, err, ErrNoQuorum, unanswered)
			}
		})
		if d := a.Validity(); d != 0 {
			t.Errorf("valid for %v", d)
		}
		off()
		ns.mustBeFree(t)
		locktest.MustTryLock(t, b)
		locktest.Unlock(t, b)
	})
}

// With an even number of nodes, a majority is more than half: three of four, or both of two.
func TestEvenNumber(t *testing.T) {
	for n, may := range map[int]int{1: 0, 2: 0, 3: 1, 4: 1, 5: 2} {
		inBubble(t, func(t *testing.T, ns nodes) {
			ns = ns[:n]
			m := ns.mutex()
			defer ns.hooks()[:may].on(locktest.Any, locktest.Fail(locktest.ErrCut))()
			locktest.MustTryLock(t, m)
			locktest.Unlock(t, m)
			defer ns.hooks()[may:may+1].on(locktest.Any, locktest.Fail(locktest.ErrCut))()
			mustFindNoQuorum(t, m) // may+1 of n are down
		})
	}
}

// If a majority refuses, TryLock returns false without an error. The refused caller leaves
// nothing behind and does not affect the holder.
func TestRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, ns nodes) {
		a, b := ns.mutex(), ns.mutex()
		off := ns.hooks()[3:].on(locktest.Any, locktest.Fail(locktest.ErrCut))
		locktest.MustTryLock(t, a) // on three nodes
		synctest.Wait()            // the other two nodes have refused a, too
		off()

		locktest.MustNotLock(t, b) // b had two nodes for a moment
		time.Sleep(limit)
		held := a.claim.token
		if got, want := fmt.Sprint(ns.tokens()), fmt.Sprint([]string{held, held, held, "", ""}); got != want {
			t.Errorf("the nodes have %s; want %s", got, want)
		}
		locktest.Unlock(t, a)
	})
}

func TestLostReplyIsUndone(t *testing.T) {
	for n := 1; n <= 5; n++ {
		inBubble(t, func(t *testing.T, ns nodes) {
			a := ns.mutex()
			off := ns.hooks()[:n].on(locktest.Command("set"), locktest.LoseReply(locktest.ErrCut))
			ok, err := a.TryLock(t.Context())
			off()
			if held := n <= 2; ok != held || errors.Is(err, ErrNoQuorum) == held {
				t.Errorf("%d replies lost: TryLock = %v, %v; want %v", n, ok, err, held)
			}
			if ok {
				locktest.Unlock(t, a)
			}
			ns.mustBeFree(t)
			locktest.MustNotHold(t, a, ErrNotHeld)
		})
	}
}

// A release reaches a node only after the SET that it undoes.
func TestReleaseAwaitsSet(t *testing.T) {
	inBubble(t, func(t *testing.T, ns nodes) {
		a := ns.mutex()
		pause := locktest.NewPause()
		ns[4].Hook.On(locktest.Command("set"), 1, pause.Before)

		locktest.MustTryLock(t, a) // with the other four nodes
		locktest.Unlock(t, a)
		synctest.Wait()
		pause.Release()
		ns.mustBeFree(t)
	})
}

// A release that arrives late does not affect the same handle's next attempt.
func TestLateReleaseSparesNextAttempt(t *testing.T) {
	inBubble(t, func(t *testing.T, ns nodes) {
		a := ns.mutex()
		off := ns.hooks()[:3].on(locktest.Command("set"), locktest.Drop)
		late := ns.hooks()[:3].on(locktest.Script(unlockSource), func(_ context.Context, send func() error) error {
			time.Sleep(limit - locktest.Tick)
			return send()
		})
		mustFindNoQuorum(t, a)
		off()
		locktest.MustTryLock(t, a)
		time.Sleep(2 * limit)
		late()
		for i, token := range ns.tokens() {
			if token != a.claim.token {
				t.Errorf("node %d has %q; want %q", i, token, a.claim.token)
			}
		}
		locktest.Unlock(t, a)
	})
}

// A harmless flaw: if a node executes a SET only after its release, the key stays until the
// ttl has passed.
func TestLateSetStaysUntilTTL(t *testing.T) {
	inBubble(t, func(t *testing.T, ns nodes) {
		a, hs := ns.own(t)
		b := ns.mutex()
		const late = time.Second
		off := hs[:3].on(locktest.Any, func(ctx context.Context, _ func() error) error {
			<-ctx.Done() // the command is delayed, and is sent later
			return ctx.Err()
		})
		mustFindNoQuorum(t, a)
		off()
		time.Sleep(late)
		for _, n := range ns[:3] {
			if ok, err := a.claim.set(t.Context(), n.Client); !ok {
				t.Fatal("the late SET:", err)
			}
		}
		locktest.MustNotLock(t, b)
		time.Sleep(ttl - locktest.Tick)
		locktest.MustNotLock(t, b)
		time.Sleep(locktest.Tick)
		locktest.MustTryLock(t, b)
		locktest.Unlock(t, b)
	})
}

// If a majority answers only after the validity has passed, TryLock does not get the lock.
func TestTooLateIsNotHeld(t *testing.T) {
	inBubble(t, func(t *testing.T, ns nodes) {
		a := ns.mutex()
		a.ttl = 6 * time.Millisecond
		defer ns.hooks().on(locktest.Command("set"), slow(4500*time.Microsecond))()
		mustFindNoQuorum(t, a)
		synctest.Wait() // no time passes, so the keys do not expire
		for i, token := range ns.tokens() {
			if token != "" {
				t.Errorf("node %d has the key still", i)
			}
		}
	})
}

// A flaw: if three callers try at the same moment, each may get only a minority of the nodes, and none
// gets the lock. No key is left behind. This is why attempts are repeated after random delays.
func TestSplitVote(t *testing.T) {
	inBubble(t, func(t *testing.T, ns nodes) {
		near := [][]int{{0, 1}, {2, 3}, {4}} // the nodes that each caller reaches first
		var wg sync.WaitGroup
		for _, own := range near {
			m, hs := ns.own(t)
			hs.on(locktest.Script(unlockSource), func(_ context.Context, send func() error) error {
				time.Sleep(locktest.Tick) // after the SETs of all callers
				return send()
			})
			for i, h := range hs {
				if len(own) > 0 && own[0] == i {
					own = own[1:]
					continue
				}
				h.On(locktest.Command("set"), 1, func(_ context.Context, send func() error) error {
					time.Sleep(limit / 2)
					return send()
				})
			}
			wg.Go(func() { locktest.MustNotLock(t, m) })
		}
		wg.Wait()
		ns.mustBeFree(t)
		m := ns.mutex()
		locktest.MustTryLock(t, m)
		locktest.Unlock(t, m)
	})
}

func TestCancelledTryLock(t *testing.T) {
	inBubble(t, func(t *testing.T, ns nodes) {
		a := ns.mutex()
		why := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		defer ns.hooks()[2:].on(locktest.Command("set"), slow(limit/2))()

		time.AfterFunc(limit/4, func() { cancel(why) })
		locktest.InTime(t, limit/4, func() {
			if ok, err := a.TryLock(ctx); ok || err != why {
				t.Errorf("TryLock = %v, %v; want false, %v", ok, err, why)
			}
		})
		ns.mustBeFree(t)

		sent := ns[0].Hook.Count(locktest.Any)
		if ok, err := a.TryLock(ctx); ok || err != why {
			t.Errorf("TryLock = %v, %v; want false, %v", ok, err, why)
		}
		if n := sent.Hits(); n != 0 {
			t.Errorf("%d commands sent; want none", n)
		}
	})
}

// An Unlock that does not reach a quorum returns soon, and the lock expires after the ttl.
func TestUnlockWithoutQuorum(t *testing.T) {
	eachFault(t, func(t *testing.T, ns nodes, fault locktest.Action, _ error) {
		a, b := ns.mutex(), ns.mutex()
		locktest.MustTryLock(t, a)
		ctx := a.Context(t.Context())
		off := ns.hooks()[:3].on(locktest.Any, fault)
		locktest.InTime(t, 2*limit, func() {
			if err := a.Unlock(t.Context()); !errors.Is(err, ErrNoQuorum) || errors.Is(err, ErrNotHeld) {
				t.Errorf("Unlock = %v; want %v", err, ErrNoQuorum)
			}
		})
		if err := context.Cause(ctx); err != context.Canceled {
			t.Errorf("the context's cause is %v; want %v", err, context.Canceled)
		}
		off()
		sent := ns[0].Hook.Count(locktest.Script(renewSource))
		time.Sleep(ttl)
		locktest.MustTryLock(t, b)
		if n := sent.Hits(); n != 0 {
			t.Errorf("%d renewals after Unlock; want none", n)
		}
		locktest.Unlock(t, b)
	})
}
