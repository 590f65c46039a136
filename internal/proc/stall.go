package proc

import (
	"sync"
	"sync/atomic"
	"time"
)

// A process stands still because it was stopped, because too much else ran, or because
// the host of its virtual machine had no time for it. A process that does not run can
// neither keep a lease nor see it run out. So what a run shows of leases counts only
// while the processes in it ran.

// beat is the time between two looks at the clock.
const beat = 5 * time.Millisecond

// LongestStall is the longest of many stalls. It is safe for concurrent use; its
// zero value has seen none.
type LongestStall struct{ nanoseconds atomic.Int64 }

// Add takes note of a stall, and reports whether it is the longest so far.
func (l *LongestStall) Add(d time.Duration) bool {
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
func (l *LongestStall) Get() time.Duration { return time.Duration(l.nanoseconds.Load()) }

// Reset forgets all stalls.
func (l *LongestStall) Reset() { l.nanoseconds.Store(0) }

// StallWatch watches over its own process. Stop must be called in the end; the other
// methods are safe for concurrent use.
type StallWatch struct {
	LongestStall
	limit time.Duration
	tell  func(time.Duration)
	last  time.Time // the last look at the clock
	done  chan struct{}
	all   sync.WaitGroup
}

// WatchStalls watches for stalls of more than limit. It calls tell, unless it is nil,
// for each that is the longest since Reset, from one goroutine.
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
	if stalled := now.Sub(w.last) - beat; stalled > w.limit && w.Add(stalled) {
		w.tell(stalled)
	}
	w.last = now
}

// Stop ends the watch and returns the longest stall since Reset, or 0.
func (w *StallWatch) Stop() time.Duration {
	close(w.done)
	w.all.Wait()
	return w.Get()
}
