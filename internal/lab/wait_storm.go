package lab

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"oversell/internal/locks"
)

// oneOfMany takes the lock for a moment, and tells how long it waited.
func (w *World) oneOfMany(p *Process, guard locks.Guard, i int, served chan<- time.Duration) {
	who := fmt.Sprintf("%s/%d", p.name, i)
	e := locks.Entry{Key: w.lockKey, Owner: who, Wait: w.ctx}
	start := time.Now()
	for tries := 0; tries < 50; tries++ {
		called := w.history.call()
		_, err := guard.Do(w.ctx, e, func(context.Context) error {
			w.history.acquired(who, called)
			defer w.history.released(who)
			served <- time.Since(start)
			w.Sleep(4 * w.Delay)
			return nil
		})
		if err == nil {
			return
		}
	}
}

// storm is the verdict on commands sent for those who were served.
func (w *World) storm(commands, callers int, waits []time.Duration) verdict {
	need(len(waits) == callers, "%d of %d callers had the lock", len(waits), callers)
	slices.Sort(waits)
	note := fmt.Sprintf("%d commands for %d locks; the median wait is %s, the longest %s",
		commands, len(waits), about(waits[len(waits)/2]), about(waits[len(waits)-1]))
	if commands > commandsPerHold*len(waits) {
		return w.broke("", "%s", note)
	}
	return holds("%s", note)
}

// values are what a closed channel has left.
func values[T any](ch <-chan T) iter.Seq[T] {
	return func(yield func(T) bool) {
		for v := range ch {
			if !yield(v) {
				return
			}
		}
	}
}
