package pace

import (
	"sync/atomic"
	"time"
)

// LogLimit limits a log to one line a second, for errors that a whole crowd gets. The zero value
// is ready, and safe for concurrent use.
type LogLimit struct {
	next    atomic.Int64 // when the next line may be written, in Unix nanoseconds
	skipped atomic.Int64
}

// Allow reports whether a line may be written now, and how many were skipped since the
// last one.
func (l *LogLimit) Allow() (skipped int64, ok bool) {
	now, next := time.Now().UnixNano(), l.next.Load()
	if now < next || !l.next.CompareAndSwap(next, now+int64(time.Second)) {
		l.skipped.Add(1)
		return 0, false
	}
	return l.skipped.Swap(0), true
}
