package lab

import (
	"context"
	"errors"
	"time"

	"oversell/internal/locks"
)

func waitScenarios() []Scenario {
	return []Scenario{
		waitCancelled(), cancelNotTold(), waitLimit(), waitCutsLease(), errorTakenForHeld(), redisAway(),
		missedWakeUp(), overtaken(), retryStorm(),
	}
}

// waiting lets p wait for the lock as the column's guard does, until wait
// ends. What Do returns comes out of the channel.
func (w *World) waiting(p *Process, wait context.Context) <-chan error {
	out := make(chan error, 1)
	guard := w.column.guard(p, nil)
	w.Go(func() {
		called := w.history.call()
		e := locks.Entry{Key: w.lockKey, Owner: p.name + "/1", Wait: wait}
		_, err := guard.Do(w.ctx, e, func(context.Context) error {
			w.history.acquired(p.name, called)
			w.trace.add(p.name, Hold, "has the lock")
			w.history.released(p.name)
			w.trace.add(p.name, Release, "gives it back")
			return nil
		})
		if err != nil {
			w.Note(p.name, "stops waiting: %s", brief(err))
		}
		out <- err
	})
	return out
}

// errStillWaiting is what comes out of a wait that did not end.
var errStillWaiting = errors.New("it still waits")

// ended returns what comes out of a wait, and how long it took.
func (w *World) ended(out <-chan error, limit time.Duration) (took time.Duration, err error) {
	start := time.Now()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err = <-out:
		return time.Since(start), err
	case <-timer.C:
		return limit, errStillWaiting
	}
}

// stillWaits ends the scenario unless the wait is not over yet.
func stillWaits(who string, out <-chan error) {
	need(len(out) == 0, "%s does not wait for a lock that another has", who)
}

// kept has the lock held, for as long as the cell lasts, by somebody who is
// not of the column: so that no expiry gets in the way.
func (w *World) kept(by *Process) {
	h := by.Holder()
	h.MustLock()
	if w.column.inRedis() {
		for _, side := range w.sides {
			_ = side.Persist(w.ctx, w.redisKey()).Err()
		}
		w.look() // so that it is known of all nodes
		w.Note("", "the lock is kept, whatever its ttl")
	}
}

func waitCancelled() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "wait-not-cancelled",
			Sentence: "A caller that waits is cancelled, and waits on.",
			Sequence: "A keeps the lock. B waits for it, and is cancelled. B's wait must end within a fifth of the ttl.",
			Source:   "go-redsync/redsync PR #68: the wait slept on though its context was over",
		},
		record:    "-H- HHHHHHHHH HHH HHH",
		requires:  []claim{had("A")},
		senseless: needsLock,
		run: func(w *World) verdict {
			took, err := w.cancelledWait()
			if errors.Is(err, errStillWaiting) {
				return w.broke("B", "B still waits, %s after it was cancelled", about(took))
			}
			return holds("the wait ends at once")
		},
	}
}

// cancelledWait lets B wait for A's lock and be cancelled.
func (w *World) cancelledWait() (took time.Duration, err error) {
	a := w.Start("A")
	b := a.Another("B")
	w.kept(a)
	ctx, cancel := w.cancellable()
	defer cancel()
	out := w.waiting(b, ctx)
	w.Sleep(w.TTL / 5)
	stillWaits("B", out)
	w.Note("B", "is cancelled")
	cancel()
	return w.ended(out, w.TTL/5)
}

func cancelNotTold() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "cancel-not-told-apart",
			Sentence: "The error is the same whether the caller was cancelled or the lock was not to be had.",
			Sequence: "A keeps the lock. B waits for it, and is cancelled. B's error must be that of its context: the cause, or context.Canceled.",
			Source:   "go-redsync/redsync#164",
		},
		record:    "-H- HHHHHHHHH BHH HHH",
		requires:  []claim{had("A")},
		senseless: needsLock,
		run: func(w *World) verdict {
			_, err := w.cancelledWait()
			need(!errors.Is(err, errStillWaiting), "the wait did not end")
			ok := errors.Is(err, errCancelled) || errors.Is(err, context.Canceled)
			return w.verdict(ok, "B", "B is told that it was cancelled", "B, which was cancelled, is told: "+brief(err))
		},
	}
}

func waitLimit() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "wait-limit-wrong",
			Sentence: "The time limit of a wait is not kept: the wait is over at once, or lasts for ever.",
			Sequence: "A keeps the lock. B waits for it for at most two fifths of the ttl. Its wait must end then, not much sooner and not much later.",
			Source:   "a limit of n seconds that became n nanoseconds; a waiter that sleeps a whole ttl: python-redis-lock",
		},
		record:    "-H- HHHHHHHHH HHH HHH",
		requires:  []claim{had("A")},
		senseless: needsLock,
		run: func(w *World) verdict {
			a := w.Start("A")
			b := a.Another("B")
			w.kept(a)
			limit := w.TTL * 2 / 5
			ctx, cancel := context.WithTimeout(w.ctx, limit)
			defer cancel()
			took, err := w.ended(w.waiting(b, ctx), 2*w.TTL)
			need(err != nil, "B was granted a lock that A has")
			ok := took > limit/2 && took < 2*limit
			said := "a wait of at most " + about(limit) + " took about that"
			return w.verdict(ok, "B", said, "a wait of at most "+about(limit)+" took "+about(took))
		},
	}
}

func waitCutsLease() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "wait-limit-ends-the-hold",
			Sentence: "The time limit is meant for the wait, and cuts the hold short as well.",
			Sequence: "The lock is free. A waits for it for at most a quarter of the ttl, has it at once, and works for half the ttl. Is the lock still A's?",
			Source:   "a wait time that overwrites the ttl, as in the material this project grew out of",
		},
		record:    "--- HHHHHHHHH HHB HHH",
		requires:  []claim{had("A")},
		senseless: needsRemoteLock,
		run: func(w *World) verdict {
			a := w.Start("A")
			var there bool
			ctx, cancel := context.WithTimeout(w.ctx, w.TTL/4)
			defer cancel()
			guard := w.column.guard(a, nil)
			called := w.history.call()
			_, err := guard.Do(w.ctx, locks.Entry{Key: w.lockKey, Owner: "A/1", Wait: ctx}, func(context.Context) error {
				w.history.acquired("A", called)
				w.trace.add("A", Hold, "has the lock")
				w.Sleep(w.TTL / 2)
				there = w.look().held
				w.history.released("A")
				w.trace.add("A", Release, "gives it back")
				return nil
			})
			need(err == nil, "A did not get a lock that is free: %v", err)
			return w.verdict(there, "A", "the limit of the wait is none of the hold", "half a ttl into its hold the lock is gone: it went as the time for the wait ran out")
		},
	}
}
