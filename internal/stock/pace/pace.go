// Package pace limits how much a process does at once: how many orders it writes in one
// statement, and how many lines it writes into its log.
package pace

import (
	"sync/atomic"
	"time"
)

// Statement limits how many orders are written in one statement, by how long the last
// statement took: the slower the database, the fewer orders, so that a statement ends
// well before its timeout. It is safe for concurrent use.
type Statement struct {
	most int64
	next atomic.Int64
}

const (
	// target is how long a statement should take at most: a tenth of its timeout.
	target = 500 * time.Millisecond
	// start is how many orders the first statement has at most.
	start = 32
)

// NewStatement returns a Statement that allows at most so many orders.
func NewStatement(most int) *Statement {
	p := &Statement{most: int64(most)}
	p.next.Store(min(int64(most), start))
	return p
}

// Size is how many orders the next statement may have.
func (p *Statement) Size() int { return int(p.next.Load()) }

// Wrote records how long it took to write n orders. The size doubles as long as that
// fits the target, and is cut down to what fits otherwise.
func (p *Statement) Wrote(n int, took time.Duration) {
	if n == 0 {
		return
	}
	fits := p.most
	if perOrder := int64(took) / int64(n); perOrder > 0 {
		fits = int64(target) / perOrder
	}
	p.next.Store(max(1, min(p.most, fits, 2*max(p.next.Load(), int64(n)))))
}

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
