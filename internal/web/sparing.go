package web

import (
	"sync/atomic"
	"time"
)

// sparing keeps a log readable, and the shop from being busy with it, while a
// crowd meets the same failure: it lets one line a second through. The zero
// value is ready, and safe for concurrent use.
type sparing struct {
	next    atomic.Int64 // when the next line may be written, in Unix nanoseconds
	skipped atomic.Int64
}

// line reports whether a line may be written now, and how many were not
// written since the last.
func (s *sparing) line() (skipped int64, ok bool) {
	now, next := time.Now().UnixNano(), s.next.Load()
	if now < next || !s.next.CompareAndSwap(next, now+int64(time.Second)) {
		s.skipped.Add(1)
		return 0, false
	}
	return s.skipped.Swap(0), true
}
