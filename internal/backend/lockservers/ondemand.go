package lockservers

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"
)

// errClosed is the error of calls after Close, and of calls that are waiting when Close is called.
var errClosed = errors.New("the servers of locks are closed")

// retryAfter is the time for which all callers get the error of a failed start. Otherwise each
// request for a server that does not start would cost as much as a start.
const retryAfter = time.Second

// onDemand opens a T at the first call to get, and keeps the T. It is safe for
// concurrent use.
type onDemand[T io.Closer] struct {
	open func(ctx context.Context) (T, error)
	ctx  context.Context // context of all attempts: an attempt does not end with its caller
	end  context.CancelCauseFunc
	stop func() error

	mu   sync.Mutex
	last *attempt[T] // nil before the first call
}

// attempt is one call to open.
type attempt[T any] struct {
	done  chan struct{} // closed when the fields below are set
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

// get waits until the T is open, and returns it. It returns the error of open, the cause of ctx if
// ctx ends first, or errClosed.
func (d *onDemand[T]) get(ctx context.Context) (value T, err error) {
	a, err := d.attempt()
	if err != nil {
		return value, err
	}
	select {
	case <-a.done: // even if the caller's ctx has ended
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

// attempt returns the last attempt. If there is none, or it failed at least retryAfter ago,
// attempt begins a new one.
func (d *onDemand[T]) attempt() (*attempt[T], error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx.Err() != nil {
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

// stale reports whether the attempt failed at least retryAfter ago.
func (a *attempt[T]) stale() bool {
	select {
	case <-a.done:
		return a.err != nil && time.Since(a.ended) >= retryAfter
	default:
		return false
	}
}

// Close cancels an attempt in progress, waits for it to finish, and closes the T if one is open.
// Later calls to get open no T. Close may be called more than once.
func (d *onDemand[T]) Close() error { return d.stop() }

func (d *onDemand[T]) shut() error {
	d.mu.Lock()
	d.end(errClosed)
	a := d.last
	d.mu.Unlock()
	if a == nil {
		return nil
	}
	<-a.done
	if a.err != nil {
		return nil // the callers of get have received the error
	}
	return a.value.Close()
}
