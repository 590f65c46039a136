// Package stall finds out for how long a process stood still: because it was
// stopped, because too much else ran, or because the host of its virtual
// machine had no time for it. A lease can neither be kept nor be seen to run
// out by a process that does not run, so what a run shows of leases counts
// only as long as the processes in it ran.
package stall

import (
	"sync"
	"sync/atomic"
	"time"
)

// beat is the time between two looks at the clock.
const beat = 5 * time.Millisecond

// Longest is the longest of many stalls. It is safe for concurrent use; its
// zero value has seen none.
type Longest struct{ nanoseconds atomic.Int64 }

// Add takes note of a stall, and reports whether it is the longest so far.
func (l *Longest) Add(d time.Duration) bool {
	for {
		old := l.nanoseconds.Load()
		if int64(d) <= old {
			return false
		}
		if l.nanoseconds.CompareAndSwap(old, int64(d)) {
			return true
		}
	}
}

// Get returns the longest stall since Reset, or 0.
func (l *Longest) Get() time.Duration { return time.Duration(l.nanoseconds.Load()) }

// Reset forgets all stalls.
func (l *Longest) Reset() { l.nanoseconds.Store(0) }

// Watch watches over its own process. Stop must be called in the end; the other
// methods are safe for concurrent use.
type Watch struct {
	Longest
	limit time.Duration
	tell  func(time.Duration)
	last  time.Time // the last look at the clock
	done  chan struct{}
	all   sync.WaitGroup
}

// Start watches for stalls of more than limit. It calls tell, unless it is nil,
// for each that is the longest since Reset, from one goroutine.
func Start(limit time.Duration, tell func(time.Duration)) *Watch {
	if tell == nil {
		tell = func(time.Duration) {}
	}
	w := &Watch{limit: limit, tell: tell, last: time.Now(), done: make(chan struct{})}
	w.all.Go(w.run)
	return w
}

func (w *Watch) run() {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for {
		select {
		case <-w.done:
			return
		case <-ticker.C:
			w.look(time.Now())
		}
	}
}

func (w *Watch) look(now time.Time) {
	if stalled := now.Sub(w.last) - beat; stalled > w.limit && w.Add(stalled) {
		w.tell(stalled)
	}
	w.last = now
}

// Stop ends the watch and returns the longest stall since Reset, or 0.
func (w *Watch) Stop() time.Duration {
	close(w.done)
	w.all.Wait()
	return w.Get()
}
