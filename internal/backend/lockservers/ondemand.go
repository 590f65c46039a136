package lockservers

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"
)

// errClosed is what those are told who ask for something that is closed, or is being
// closed.
var errClosed = errors.New("the servers of locks are closed")

// retryAfter is how long an error of a start is the answer to all who ask. A request to a
// server that does not start would otherwise cost as much as the start.
const retryAfter = time.Second

// onDemand opens a T when somebody first asks for it, and keeps it. It is safe for
// concurrent use.
type onDemand[T io.Closer] struct {
	open func(ctx context.Context) (T, error)
	ctx  context.Context // of every attempt: a caller that goes away does not end it
	end  context.CancelCauseFunc
	stop func() error

	mu     sync.Mutex
	last   *attempt[T] // nil: nobody has asked yet
	closed bool
}

// attempt is one call of open.
type attempt[T any] struct {
	done  chan struct{} // closed when what follows is set
	value T
	err   error
	ended time.Time
}

func newOnDemand[T io.Closer](open func(ctx context.Context) (T, error)) *onDemand[T] {
	d := &onDemand[T]{open: open}
	d.ctx, d.end = context.WithCancelCause(context.Background())
	d.stop = sync.OnceValue(d.shut)
	return d
}

// get returns the T, and waits for it until ctx ends. The error is that of open, the cause
// of ctx, or errClosed.
func (d *onDemand[T]) get(ctx context.Context) (value T, err error) {
	a, err := d.attempt()
	if err != nil {
		return value, err
	}
	select {
	case <-a.done: // also for a caller whose ctx has ended
		return a.value, a.err
	default:
	}
	select {
	case <-a.done:
		return a.value, a.err
	case <-ctx.Done():
		return value, context.Cause(ctx)
	}
}

// attempt returns the last attempt, or a new one where the last failed a while ago.
func (d *onDemand[T]) attempt() (*attempt[T], error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, errClosed
	}
	if d.last == nil || d.last.stale() {
		a := &attempt[T]{done: make(chan struct{})}
		d.last = a
		go func() {
			defer close(a.done)
			a.value, a.err = d.open(d.ctx)
			a.ended = time.Now()
		}()
	}
	return d.last, nil
}

// stale reports whether the attempt failed long enough ago for another one.
func (a *attempt[T]) stale() bool {
	select {
	case <-a.done:
		return a.err != nil && time.Since(a.ended) >= retryAfter
	default:
		return false
	}
}

// Close cancels an attempt that is under way, waits for its end, and closes what was
// opened. Nothing is opened afterwards. It may be called more than once.
func (d *onDemand[T]) Close() error { return d.stop() }

func (d *onDemand[T]) shut() error {
	d.mu.Lock()
	d.closed = true
	a := d.last
	d.mu.Unlock()
	d.end(errClosed)
	if a == nil {
		return nil
	}
	<-a.done
	if a.err != nil {
		return nil // those who asked were told
	}
	return a.value.Close()
}
