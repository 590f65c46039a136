package thirdparty

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
)

// extendable is a lock whose lease can be extended on request.
type extendable interface {
	TryLock(ctx context.Context) (bool, error)
	Lock(ctx context.Context) error
	Unlock(ctx context.Context) error
	Extend(ctx context.Context) error
	until() time.Time // when the lease ends that the last Lock or TryLock began
}

// Extended adds automatic extension to a lock of redsync or redislock, which these libraries leave
// to their users. While the lock is held, a goroutine extends the lease after each third of the
// ttl. It cancels the hold's context with ErrLost when the lock is no longer held, or when, by this
// machine's clock, the lease is over without a successful extension. An Extended must not be used
// by several goroutines at once.
type Extended struct {
	lock extendable
	ttl  time.Duration
	life context.Context // the goroutine ends when it ends

	held    context.Context // ends with the hold; nil if there is none
	lose    context.CancelCauseFunc
	stopped chan struct{} // closed when the goroutine has ended
}

// Extend returns an Extended for the lock, whose leases last for ttl. Its goroutine ends when life ends.
func Extend(lock extendable, ttl time.Duration, life context.Context) *Extended {
	return &Extended{lock: lock, ttl: ttl, life: life}
}

// TryLock asks for the lock once, as the library does.
func (e *Extended) TryLock(ctx context.Context) (bool, error) {
	ok, err := e.lock.TryLock(ctx)
	if ok {
		e.begin()
	}
	return ok, err
}

// Lock waits as the library does.
func (e *Extended) Lock(ctx context.Context) error {
	err := e.lock.Lock(ctx)
	if err == nil {
		e.begin()
	}
	return err
}

// begin starts the extension of a new hold, and ends that of a hold that was lost unnoticed.
func (e *Extended) begin() {
	e.end(ErrLost)
	e.held, e.lose = context.WithCancelCause(e.life)
	e.stopped = make(chan struct{})
	until := e.lock.until()
	if !time.Now().Before(until) { // the reply was late
		e.lose(errNotExtended)
	}
	go e.extend(e.held, e.lose, until, e.stopped)
}

var errNotExtended = fmt.Errorf("%w: not extended in time", ErrLost)

// extend extends the lease, which ends at until, until the hold ends.
func (e *Extended) extend(
	held context.Context, lose context.CancelCauseFunc, until time.Time, stopped chan struct{},
) {
	defer close(stopped)
	lease := time.AfterFunc(time.Until(until), func() { lose(errNotExtended) })
	defer lease.Stop()
	tick := time.NewTicker(e.ttl / 3)
	defer tick.Stop()
	for {
		select {
		case <-held.Done():
			return
		case <-tick.C:
		}
		sent := time.Now()
		switch err := e.lock.Extend(held); {
		case err == nil:
			lease.Reset(time.Until(sent.Add(usable(e.ttl))))
		case errors.Is(err, ErrNotHeld):
			lose(fmt.Errorf("%w: %w", ErrLost, err))
			return
		}
	}
}

// usable returns the part of a lease that its holder uses. As in redsync, the rest allows for clock drift.
func usable(ttl time.Duration) time.Duration { return ttl - ttl/100 }

// Unlock stops the goroutine, waits until it has returned, and then releases the lock, because
// neither library allows a lock to be extended and released at the same time.
func (e *Extended) Unlock(ctx context.Context) error {
	e.end(errReleased)
	return e.lock.Unlock(ctx)
}

// end ends the hold, if there is one, and waits until its goroutine has returned.
func (e *Extended) end(cause error) {
	if e.held != nil {
		e.lose(cause)
		<-e.stopped
		e.held = nil
	}
}

// Context returns a copy of ctx for the work under the lock. The copy is cancelled when the lock is
// released or lost. If it is lost, the cause wraps ErrLost.
func (e *Extended) Context(ctx context.Context) context.Context {
	held := e.held
	if held == nil {
		return ctx
	}
	inside, end := context.WithCancelCause(ctx)
	context.AfterFunc(held, func() { end(context.Cause(held)) })
	if held.Err() != nil { // AfterFunc takes a moment
		end(context.Cause(held))
	}
	return inside
}

func (m *RedsyncMutex) until() time.Time { return m.mutex.Until() }

// Extend sets the lease to the full ttl again. It returns an error unless Redis confirms that in time.
func (m *RedsyncMutex) Extend(ctx context.Context) error {
	ok, err := m.mutex.ExtendContext(ctx)
	if isTaken(err) {
		return fmt.Errorf("%w: %w", ErrNotHeld, err)
	}
	if err == nil && !ok {
		err = redsync.ErrExtendFailed
	}
	return err
}

func (m *RedislockMutex) until() time.Time { return m.ends }

// Extend sets the lease to the full ttl again.
func (m *RedislockMutex) Extend(ctx context.Context) error {
	held := m.held.Load()
	if held == nil {
		return redislock.ErrLockNotHeld
	}
	err := held.Refresh(ctx, m.lib.ttl, nil)
	if errors.Is(err, redislock.ErrNotObtained) {
		return fmt.Errorf("%w: %w", ErrNotHeld, err)
	}
	return err
}
