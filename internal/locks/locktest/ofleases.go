package locktest

import (
	"context"
	"errors"
	"testing/synctest"
	"time"
)

// ofLeases returns the promises of a lock that gives its holder a context for its work.
func ofLeases() []promise {
	return applying(func(l Lock) bool { _, ok := l.handle().(contextual); return ok }, []promise{
		{name: "the context of the work ends with the hold", scenario: contextEnds},
		{name: "a holder that loses the lock is told within the ttl", scenario: told},
		{name: "a renewal that fails does not lose the lock", scenario: failedRenewals},
		{name: "a hold that was lost is not entered again", scenario: reentryAfterLoss},
		{name: "a lease counts from its request, not from the reply", scenario: leaseFromRequest},
		{name: "Unlock ends the renewal", scenario: unlockEndsRenewal},
		{name: "Unlock waits for a renewal in flight", scenario: renewalInFlight},
	})
}

// endedWith ends the scenario unless ctx has ended with the given cause. A nil cause matches any cause.
func (w *World) endedWith(ctx context.Context, cause error, when string) {
	got := context.Cause(ctx)
	w.Expect(got != nil &&
		(cause == nil || errors.Is(got, cause)), "%s the cause of the context's end is %v", when, got)
}

func contextEnds(w *World) {
	a := w.Holder("a")
	w.endedWith(a.Context(), w.lock.NotHeld, "before the first hold")
	a.MustLock()
	ctx := a.Context()
	w.Expect(ctx.Err() == nil, "it has ended: %v", context.Cause(ctx))
	a.MustUnlock()
	w.endedWith(ctx, context.Canceled, "after Unlock")
	w.endedWith(a.Context(), context.Canceled, "asked for after Unlock,")
}

// told makes a holder lose the lock just after a renewal.
func told(w *World) {
	for name, loss := range losses() {
		a, b := w.Holder("a"), w.Holder("b")
		a.MustLock()
		ctx := a.Context()
		time.Sleep(3*TTL + Tick)
		w.Expect(ctx.Err() == nil, "told of a loss before it: %v", context.Cause(ctx))
		restore := loss.happens(a, b)
		time.Sleep(loss.within)
		synctest.Wait()
		w.endedWith(ctx, w.lock.Lost, name+":")
		w.endedWith(a.Context(), w.lock.Lost, name+": asked for later,")
		restore()
		a.MustNotHold()
		a.Stop()
		b.Unlock()
	}
}

type loss struct {
	happens func(a, b *Holder) (restore func())
	within  time.Duration // the holder must learn of the loss within this time
}

func losses() map[string]loss {
	faulty := func(action Action) loss {
		return loss{func(a, _ *Holder) func() { return a.Hook.On(Any, -1, action).Off }, TTL}
	}
	return map[string]loss{
		"Redis has lost the lock": {func(a, _ *Holder) func() {
			a.w.Del(a.w.Key)
			return func() {}
		}, TTL / 3},
		"another has the lock": {func(a, b *Holder) func() {
			a.w.Del(a.w.Key)
			b.MustLock()
			b.Stop()
			return b.GoOn
		}, TTL / 3},
		"Redis fails":        faulty(Fail(ErrCut)),
		"Redis is silent":    faulty(Drop),
		"the client is hung": {hang, TTL},
	}
}

// hang makes a's client ignore the deadlines of its commands.
func hang(a, _ *Holder) (restore func()) {
	hung := make(chan struct{})
	rule := a.Hook.On(Any, -1, func(context.Context, func() error) error {
		<-hung
		return ErrCut
	})
	return func() {
		rule.Off()
		close(hung)
	}
}

// Every other renewal fails.
func failedRenewals(w *World) {
	for name, fault := range faults {
		a, b := w.Holder("a"), w.Holder("b")
		a.MustLock()
		ctx := a.Context()
		for range 10 {
			failed := a.Hook.On(Any, 1, fault)
			time.Sleep(2*TTL/3 + Tick)
			b.MustNotLock()
			w.Expect(failed.Hits() == 1, "nothing is renewed")
		}
		w.Expect(ctx.Err() == nil, "%s: the context has ended: %v", name, context.Cause(ctx))
		a.MustUnlock()
	}
}

// If Redis has lost the lock, a re-entry either starts a new hold or learns of the loss.
func reentryAfterLoss(w *World) {
	outer, other := w.Holder("a"), w.Holder("b")
	inner := outer.Sibling("a")
	outer.MustLock()
	lost := outer.Context()
	w.Del(w.Key)
	inner.MustLock()
	ctx := inner.Context()
	time.Sleep(10 * TTL)
	w.endedWith(lost, w.lock.Lost, "after a re-entry")
	if ctx.Err() == nil {
		other.MustNotLock()
		inner.MustUnlock()
	} else {
		w.endedWith(ctx, w.lock.Lost, "in a re-entry")
		ok, err := inner.Mutex.TryLock(inner.Ctx)
		w.Expect(!ok && errors.Is(err, w.lock.Lost), "TryLock = %v, %v, when the loss was known", ok, err)
		inner.MustUnlock()
	}
	outer.MustNotHold()
}

func leaseFromRequest(w *World) {
	a, b := w.Holder("a"), w.Holder("b")
	pause := NewPause()
	a.Hook.On(Any, 1, pause.After)
	locked, _ := a.start(func(ctx context.Context) error { _, err := a.Mutex.TryLock(ctx); return err })
	<-pause.Parked()
	time.Sleep(TTL + Tick)
	b.MustLock()
	pause.Release()
	w.Expect(<-locked == nil, "the reply was late, not lost")
	w.endedWith(a.Context(), w.lock.Lost, "after a reply that came when the lease was over")
	a.MustNotHold()
	b.MustUnlock()

	const late = TTL / 5
	delayed := func(_ context.Context, send func() error) error {
		defer time.Sleep(late)
		return send()
	}
	w.toldAfter("request", TTL, func(a *Holder) {
		a.Hook.On(Any, 1, delayed)
		a.MustLock()
	})
	w.toldAfter("renewal", TTL/3+TTL, func(a *Holder) {
		a.MustLock()
		a.Hook.On(Any, 1, delayed)
		time.Sleep(TTL/3 + late + Tick)
	})
}

// toldAfter expects that a holder whose later renewals fail learns of the loss exactly when the
// lease ends.
func (w *World) toldAfter(what string, lease time.Duration, lock func(a *Holder)) {
	a, start := w.Holder("a"), time.Now()
	lock(a)
	ctx := a.Context()
	a.Hook.On(Any, -1, Fail(ErrCut))
	<-ctx.Done()
	took := time.Since(start)
	w.Expect(took == lease, "%s with a late reply: told of the loss after %v; want %v", what, took, lease)
	_ = a.Mutex.Unlock(a.Ctx)
	w.Outlast()
}

func unlockEndsRenewal(w *World) {
	outer, other := w.Holder("a"), w.Holder("b")
	last := outer
	outer.MustLock()
	if w.lock.WithOwner != nil {
		last = outer.Sibling("a")
		last.MustLock()
		outer.MustUnlock() // the outer hold is released first, which is the wrong order
		time.Sleep(2 * TTL)
		other.MustNotLock()
	}
	last.MustUnlock()
	sent := outer.Hook.Count(Any)
	time.Sleep(10 * TTL)
	w.Expect(sent.Hits() == 0, "%d commands were sent after Unlock", sent.Hits())
}

func renewalInFlight(w *World) {
	for _, where := range []parking{beforeIt, afterIt} {
		a, b := w.Holder("a"), w.Holder("b")
		a.MustLock()
		pause := NewPause()
		a.Hook.On(Any, 1, where(pause))
		<-pause.Parked()
		unlocked, _ := a.start(a.Mutex.Unlock)
		synctest.Wait()
		b.MustLock() // the release does not wait for the renewal
		w.Expect(errors.Is(unlocked.Now(), errGoesOn), "Unlock did not wait")
		pause.Release()
		err := unlocked.Now()
		w.Expect(err == nil, "Unlock = %v", err)
		b.MustUnlock()
	}
}
