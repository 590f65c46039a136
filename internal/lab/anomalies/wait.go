package anomalies

import (
	"context"
	"errors"
	"time"

	"oversell/internal/fault"
	"oversell/internal/lab"
)

// waiting lets p wait for the lock with the subject's guard, until the context wait ends. The
// channel receives the error of Do.
func waiting(w *lab.World, p *lab.Process, wait context.Context) <-chan error {
	out := make(chan error, 1)
	g := p.Guard()
	w.Go(func() {
		_, err := g.Do(wait, w.Entry(p.Name+"/1"), func(context.Context) error {
			leave := w.Enters(p.Name)
			w.Trace(p.Name, lab.Hold, "has the lock")
			leave()
			w.Trace(p.Name, lab.Release, "gives it back")
			return nil
		})
		if err != nil {
			w.Note(p.Name, "stops waiting: %s", lab.Brief(err))
		}
		out <- err
	})
	return out
}

var errStillWaiting = errors.New("it still waits")

// ended returns how long a wait took and its error, which is errStillWaiting if the wait is not
// over after limit.
func ended(w *lab.World, out <-chan error, limit time.Duration) (took time.Duration, err error) {
	start := time.Now()
	select {
	case err = <-out:
		return time.Since(start), err
	case <-time.After(limit):
		return limit, errStillWaiting
	}
}

// stillWaits ends the scenario with the outcome Unknown if the wait is already over.
func stillWaits(who string, out <-chan error) {
	lab.Need(len(out) == 0, "%s does not wait for a lock that another has", who)
}

// kept makes a process hold the lock, without an expiry, until the end of the cell.
func kept(w *lab.World, by *lab.Process) {
	by.Holding()
	w.PersistLock()
}

var waitCancelled = lab.Try("wait-not-cancelled", needsLock, func(w *lab.World) lab.Verdict {
	took, err := cancelledWait(w)
	if errors.Is(err, errStillWaiting) {
		return w.Broke("B", "B still waits, %s after it was cancelled", lab.About(took))
	}
	return lab.Holds.Because("the wait ends at once")
}, had("A"))

// errCancelled is the cause of a cancelled wait. No other error equals it.
var errCancelled = errors.New("the buyer has left")

// cancelledWait lets B wait for A's lock, and cancels the wait.
func cancelledWait(w *lab.World) (took time.Duration, err error) {
	a := w.Start("A")
	b := a.Another("B")
	kept(w, a)
	ctx, cancel := context.WithCancelCause(w.Context())
	defer cancel(errCancelled)
	out := waiting(w, b, ctx)
	w.Sleep(w.TTL / 5)
	stillWaits("B", out)
	w.Note("B", "is cancelled")
	cancel(errCancelled)
	return ended(w, out, w.TTL/5)
}

var cancelNotTold = lab.Try("cancel-not-told-apart", needsLock, func(w *lab.World) lab.Verdict {
	_, err := cancelledWait(w)
	lab.Need(!errors.Is(err, errStillWaiting), "the wait did not end")
	if errors.Is(err, errCancelled) || errors.Is(err, context.Canceled) {
		return lab.Holds.Because("B is told that it was cancelled")
	}
	return w.Broke("B", "B, which was cancelled, is told: %s", lab.Brief(err))
}, had("A"))

var waitLimit = lab.Try("wait-limit-wrong", needsLock, func(w *lab.World) lab.Verdict {
	a := w.Start("A")
	b := a.Another("B")
	kept(w, a)
	limit := w.TTL * 2 / 5
	ctx, cancel := context.WithTimeout(w.Context(), limit)
	defer cancel()
	took, err := ended(w, waiting(w, b, ctx), 2*w.TTL)
	lab.Need(err != nil, "B was granted a lock that A has")
	if took > limit/2 && took < 2*limit {
		return lab.Holds.Because("a wait of at most %s took about that", lab.About(limit))
	}
	return w.Broke("B", "a wait of at most %s took %s", lab.About(limit), lab.About(took))
}, had("A"))

var waitCutsLease = lab.Try("wait-limit-ends-the-hold", needsRemoteLock, func(w *lab.World) lab.Verdict {
	a := w.Start("A")
	var there bool
	ctx, cancel := context.WithTimeout(w.Context(), w.TTL/4)
	defer cancel()
	g := a.Guard()
	_, err := g.Do(ctx, w.Entry("A/1"), func(context.Context) error {
		leave := w.Enters("A")
		w.Trace("A", lab.Hold, "has the lock")
		w.Sleep(w.TTL / 2)
		there = w.LockHeld()
		leave()
		w.Trace("A", lab.Release, "gives it back")
		return nil
	})
	lab.Need(err == nil, "A did not get a lock that is free: %v", err)
	return w.Verdict(there, "A", "the time limit of the wait does not limit the hold",
		"half a ttl into its hold the lock is gone: it ended with the time limit of the wait")
}, had("A"))

var errorTakenForHeld = lab.Try("error-taken-for-held", needsRedisLock, func(w *lab.World) lab.Verdict {
	a := w.Start("A")
	h := a.Holder()
	a.Inject(lab.AnyCommand, 1, "answered with an error",
		lab.Answer(fault.ErrorReply("OOM command not allowed when used memory > 'maxmemory'.")))
	ok, err := h.Ask()
	lab.Need(!ok, "A got the lock")
	return w.Verdict(err != nil, "A", "A is told of the error", "A is told that the lock is held, but it is free")
}, lab.IsLock)

var redisAway = lab.Try("redis-away-while-waiting", needsRemoteLock, func(w *lab.World) lab.Verdict {
	a, b := w.Start("A"), w.Start("B")
	kept(w, a)
	ctx, cancel := context.WithCancel(w.Context())
	defer cancel()
	out := waiting(w, b, ctx)
	w.Sleep(w.TTL / 5)
	stillWaits("B", out)
	b.Refuse()
	took, err := ended(w, out, 3*w.TTL)
	if errors.Is(err, errStillWaiting) || err == nil {
		return w.Broke("B", "after %s without Redis B still waits, and is told nothing", lab.About(took))
	}
	return lab.Holds.Because("B is told: %s", lab.Brief(err))
}, had("A"))
