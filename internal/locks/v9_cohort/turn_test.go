package lock

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"oversell/internal/locks/locktest"
)

// A holder that has lost the lock and hangs does not block other waiters. For the waiters of its own
// process, the process requests the lock again.
func TestLostHoldLetsItsProcessGoOn(t *testing.T) {
	for name, lose := range map[string]func(w *locktest.World, a *locktest.Holder){
		"key deleted": func(w *locktest.World, _ *locktest.Holder) { w.Del(w.Key) },
		"renewals rejected": func(_ *locktest.World, a *locktest.Holder) {
			rule := a.Hook.On(locktest.Script(renewSource), -1, locktest.Fail(locktest.ErrCut))
			time.AfterFunc(ttl, rule.Off)
		},
	} {
		locktest.Scenario(t, stage(), func(w *locktest.World) {
			a, c := w.Holder("a"), w.Holder("c")
			b, again := a.Sibling("b"), a.Sibling("a")
			a.MustLock()
			lost := a.Context()
			served, _ := b.Wait()
			lose(w, a)
			time.Sleep(ttl + ttl/3) // a hangs for longer than its lease
			mustBeServed(w, served, "b")
			w.Expect(errors.Is(context.Cause(lost), ErrLost), "%s: the cause of a's context is %v", name,
				context.Cause(lost))
			err := mutex(again).Lock(again.Ctx)
			w.Expect(errors.Is(err, ErrLost), "%s: a re-entry gets %v", name, err)
			ctx := b.Context()
			a.MustNotHold()
			a.MustNotHold()
			time.Sleep(2 * ttl)
			w.Expect(ctx.Err() == nil, "%s: a's Unlock ended b's hold: %v", name, context.Cause(ctx))
			c.MustNotLock()
			b.MustUnlock()
			c.MustLock()
			c.MustUnlock()
		})
	}
}

// A process does not hand on an expired hold, even if Unlock is called before the hold's timer fires.
func TestLostHoldIsNotHandedOn(t *testing.T) {
	locktest.Scenario(t, stage(), func(w *locktest.World) {
		a := w.Holder("a")
		b := a.Sibling("b")
		a.MustLock()
		served, _ := b.Wait()
		mu.Lock()
		lost := mutex(a).turn.hold
		lost.expires = time.Now() // although the timer has not fired yet
		mu.Unlock()
		asked := a.Hook.Count(locktest.Script(lockSource))
		a.MustNotHold()
		mustBeServed(w, served, "b")
		w.Expect(mutex(b).turn.hold != lost && asked.Hits() > 0, "b was let in by a hold that is lost")
		b.MustUnlock()
	})
}

func TestLateGrantLetsNobodyIn(t *testing.T) {
	locktest.Scenario(t, stage(), func(w *locktest.World) {
		a, b := w.Holder("a"), w.Holder("b")
		a.MustLock()
		// The message that wakes b arrives only after b's lease has expired.
		b.Hook.On(locktest.Command("blpop"), 1, func(_ context.Context, send func() error) error {
			err := send()
			time.Sleep(ttl)
			return err
		})
		served, _ := b.Wait()
		asked := b.Hook.Count(locktest.Script(lockSource))
		a.MustUnlock()
		time.Sleep(ttl + ttl/3)
		mustBeServed(w, served, "b")
		w.Expect(asked.Hits() > 0, "b was let in by a lease that is over")
		b.MustUnlock()
	})
}

// A renewal is counted only for the holder at the time, not for those to which the lock is handed on.
func TestRenewalIsCountedOnce(t *testing.T) {
	locktest.Scenario(t, stage(), func(w *locktest.World) {
		a := w.Holder("a")
		a.MustLock()
		q := w.Queued()
		var waiters []*locktest.Holder
		for i := range 50 {
			waiters = append(waiters, a.Sibling(fmt.Sprint("waiter ", i)))
			q.Add(waiters[i], 0)
		}
		sent := a.Hook.Count(locktest.Script(renewSource))
		time.Sleep(ttl / 2)
		a.MustUnlock()
		q.MustServe(0)
		own := mutex(a).Renewals()
		counted := own
		for _, h := range waiters {
			counted += mutex(h).Renewals()
		}
		w.Expect(counted == 1 && sent.Hits() == 1 && own == 1, "%d counted, %d of them by a; %d sent; want 1 of each",
			counted, own, sent.Hits())
	})
}

// Each holder's context ends with its own Unlock, even if the process keeps the lock.
// If the lock is lost, only the current holder's context reports it.
func TestContextEndsWithItsOwnTurn(t *testing.T) {
	locktest.Scenario(t, stage(), func(w *locktest.World) {
		a := w.Holder("a")
		b := a.Sibling("b")
		a.MustLock()
		before := a.Context()
		served, _ := b.Wait()
		a.MustUnlock()
		mustBeServed(w, served, "b")
		after, others := a.Context(), b.Context()
		for name, ctx := range map[string]context.Context{"before": before, "after": after} {
			w.Expect(context.Cause(ctx) == context.Canceled, "a's context of %s its Unlock has the cause %v", name,
				context.Cause(ctx))
		}
		w.Expect(others.Err() == nil, "b's context has ended: %v", context.Cause(others))
		w.Del(w.Key)
		<-others.Done()
		w.Expect(errors.Is(context.Cause(others), ErrLost), "b's context has the cause %v", context.Cause(others))
		late := context.Cause(a.Context())
		w.Expect(late == context.Canceled, "b's loss is told to a: %v", late)
		b.MustNotHold()
	})
}
