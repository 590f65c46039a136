package guard

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// BatchSize limits the number of orders that are written in one statement. The slower the last
// statement was, the fewer orders the next one may have, so that it ends well before its timeout.
// It is safe for concurrent use.
type BatchSize struct {
	most int64
	next atomic.Int64
}

const (
	// maxStatement is the longest time that a statement should take: a tenth of its timeout.
	maxStatement = 500 * time.Millisecond
	// firstBatch is the maximum number of orders in the first statement.
	firstBatch = 32
)

// NewBatchSize returns a BatchSize that allows at most the given number of orders.
func NewBatchSize(most int) *BatchSize {
	b := &BatchSize{most: int64(most)}
	b.next.Store(min(int64(most), firstBatch))
	return b
}

// Size returns the maximum number of orders in the next statement.
func (b *BatchSize) Size() int { return int(b.next.Load()) }

// Wrote records how long it took to write n orders. The size then doubles, unless a statement of
// the doubled size is expected to take longer than maxStatement. In that case it becomes the
// largest size that is expected to stay within this limit.
func (b *BatchSize) Wrote(n int, took time.Duration) {
	if n == 0 {
		return
	}
	fits := b.most
	if perOrder := int64(took) / int64(n); perOrder > 0 {
		fits = int64(maxStatement) / perOrder
	}
	b.next.Store(max(1, min(b.most, fits, 2*max(b.next.Load(), int64(n)))))
}

// LogLimit limits a log to one line in each period, for errors that occur in large numbers. It is
// safe for concurrent use.
type LogLimit struct {
	Every time.Duration // the period; 0: a second

	next    atomic.Int64 // when the next line may be written, in Unix nanoseconds
	skipped atomic.Int64
}

// Log writes a line to log, with the number of lines that were skipped before it, or skips the line.
func (l *LogLimit) Log(log *slog.Logger, level slog.Level, text string, args ...any) {
	now, next := time.Now().UnixNano(), l.next.Load()
	if now < next || !l.next.CompareAndSwap(next, now+int64(cmp.Or(l.Every, time.Second))) {
		l.skipped.Add(1)
		return
	}
	log.Log(context.Background(), level, text, append(args, "not_logged_before", l.skipped.Swap(0))...)
}

// Background repeats a step in its own goroutine, from a call to Wake until the step reports that
// nothing is left to do or the context ends. It is safe for concurrent use.
type Background struct {
	Context context.Context
	Step    func(ctx context.Context) (more bool)

	mu      sync.Mutex
	woken   bool // Wake was called since the step began
	running bool
	all     sync.WaitGroup
}

// Wake starts the step, or makes it run once more if it is running.
func (b *Background) Wake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.running:
		b.woken = true
	case b.Context.Err() == nil:
		b.running = true
		b.all.Go(func() {
			for b.again(b.Step(b.Context)) {
			}
		})
	}
}

// again reports whether another step is due.
func (b *Background) again(more bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.running, b.woken = (more || b.woken) && b.Context.Err() == nil, false
	return b.running
}

// Idle reports whether no step is running.
func (b *Background) Idle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.running
}

// Wait waits until the last step has returned. The caller must have cancelled the context.
func (b *Background) Wait() {
	defer b.all.Wait()
	b.mu.Lock() // a concurrent Wake adds its goroutine first
	defer b.mu.Unlock()
}
