package fleet

import (
	"sync"
	"sync/atomic"
	"time"
)

// A process stalls because it was stopped, because the machine is busy, or because the host of a
// virtual machine does not schedule it. A stalled process can neither renew a lease nor notice that
// the lease expires. So the results of a run that tests leases are valid only if its processes did
// not stall.

// beat is the time between two readings of the clock.
const beat = 5 * time.Millisecond

// LongestStall records the longest of many stalls. It is safe for concurrent use. The zero
// value is ready to use.
type LongestStall struct{ nanoseconds atomic.Int64 }

// Add records a stall.
func (l *LongestStall) Add(d time.Duration) {
	for old := l.nanoseconds.Load(); int64(d) > old; old = l.nanoseconds.Load() {
		if l.nanoseconds.CompareAndSwap(old, int64(d)) {
			return
		}
	}
}

// Get returns the longest stall since Reset, or 0.
func (l *LongestStall) Get() time.Duration { return time.Duration(l.nanoseconds.Load()) }

// Reset forgets all stalls.
func (l *LongestStall) Reset() { l.nanoseconds.Store(0) }

// StallWatch detects stalls of this process. Call Stop at the end. The other methods are safe
// for concurrent use.
type StallWatch struct {
	LongestStall
	limit time.Duration
	total atomic.Int64 // nanoseconds
	tell  func(time.Duration)
	last  time.Time // when the clock was last read
	done  chan struct{}
	all   sync.WaitGroup
}

// WatchStalls starts to watch for stalls longer than limit. It calls tell for each stall,
// from one goroutine. tell may be nil.
func WatchStalls(limit time.Duration, tell func(time.Duration)) *StallWatch {
	if tell == nil {
		tell = func(time.Duration) {}
	}
	w := &StallWatch{limit: limit, tell: tell, last: time.Now(), done: make(chan struct{})}
	w.all.Go(w.run)
	return w
}

func (w *StallWatch) run() {
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

func (w *StallWatch) look(now time.Time) {
	if stalled := now.Sub(w.last) - beat; stalled > w.limit {
		w.total.Add(int64(stalled))
		w.Add(stalled)
		w.tell(stalled)
	}
	w.last = now
}

// Total returns the sum of all stalls so far.
func (w *StallWatch) Total() time.Duration { return time.Duration(w.total.Load()) }

// Stop ends the watch, and returns the longest stall since Reset, or 0. It must be called once.
func (w *StallWatch) Stop() time.Duration {
	close(w.done)
	w.all.Wait()
	return w.Get()
}
