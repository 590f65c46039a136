// Package loglimit limits how often a line is written to a log.
package loglimit

import (
	"sync/atomic"
	"time"
)

// Limit limits a log to one line a second, for errors that a whole crowd gets. The zero value
// is ready, and safe for concurrent use.
type Limit struct {
	next    atomic.Int64 // when the next line may be written, in Unix nanoseconds
	skipped atomic.Int64
}

// Allow reports whether a line may be written now, and how many were skipped since the
// last one.
func (s *Limit) Allow() (skipped int64, ok bool) {
	now, next := time.Now().UnixNano(), s.next.Load()
	if now < next || !s.next.CompareAndSwap(next, now+int64(time.Second)) {
		s.skipped.Add(1)
		return 0, false
	}
	return s.skipped.Swap(0), true
}
