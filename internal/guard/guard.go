// Package guard runs a section of code under a lock. It contains what all locks share, so that no
// stage has to repeat it: how a caller waits (Policy), how a section is run and the lock released
// (Distributed), and two guards that need no server (None and Local). It uses the locks through
// their common interface, Lock.
package guard

import (
	"context"
	"time"
)

// Lock is the interface of every stage. A Lock belongs to one holder.
type Lock interface {
	// TryLock takes the lock if it is free. After an error it is unknown whether the lock was taken.
	TryLock(ctx context.Context) (bool, error)
	// Unlock releases the lock. It works even if ctx is already cancelled.
	Unlock(ctx context.Context) error
}

// Waiter is a Lock with its own way of waiting.
type Waiter interface {
	// Lock waits for the lock until ctx ends. If ctx ends it returns the cause, and the lock was not
	// taken. After any other error it is unknown whether the lock was taken, unless the error says
	// that it was not.
	Lock(ctx context.Context) error
}

// Entry names what a caller wants to enter, and the caller.
type Entry struct {
	Key   string // what is guarded; one holder at a time for each key
	Owner string // the caller's id, unique among all processes; a reentrant lock recognises its owner by it
}

// Stats are the figures of one Do. They are set even after an error.
type Stats struct {
	Attempts int           // how often the lock was asked for
	Waited   time.Duration // from the call to the entry, or to giving up
	Taking   time.Duration // the last part of Waited: the successful attempt; for a Waiter, including its wait
	Held     time.Duration // from the entry to the end of the release
	Renewals int           // how often the lease was renewed
	Lost     bool          // the lease had run out before the release
	Release  error         // the error of the release, except a lost lease
}

// Guard runs sections, one at a time for each key, or at least claims to. It is safe for
// concurrent use.
type Guard interface {
	// Do waits until the caller may enter, and runs section. When ctx ends, only waiting stops: a
	// section that has begun runs to its end. The section's context has the values of ctx, and is
	// cancelled with the reason when the guard learns that the lease was lost. Do returns the error of
	// section, the cause of ctx if that ended the wait, or the error of the lock.
	Do(ctx context.Context, e Entry, section func(ctx context.Context) error) (Stats, error)
}

// Sleep waits for d, or until ctx ends, and then returns the cause.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return context.Cause(ctx)
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// None guards nothing: all sections run at the same time.
type None struct{}

// Do runs section.
func (None) Do(ctx context.Context, _ Entry, section func(context.Context) error) (Stats, error) {
	start := time.Now()
	err := section(context.WithoutCancel(ctx)) // ctx ends only the waiting, see Guard
	return Stats{Attempts: 1, Held: time.Since(start)}, err
}

// Local is a mutex for each key in this process. The zero value is ready; it is safe only if there
// is one process.
type Local struct {
	Inner Guard // a second guard for the sections, for example between processes; may be nil
	Mutex KeyedMutex
}

// Do waits until no other section of this process runs for e.Key, and runs section.
func (l *Local) Do(ctx context.Context, e Entry, section func(context.Context) error) (Stats, error) {
	start := time.Now()
	hold, err := l.Mutex.Lock(ctx, e.Key)
	waited := time.Since(start)
	if err != nil {
		return Stats{Attempts: 1, Waited: waited}, err
	}
	defer hold.Unlock()
	inner := l.Inner
	if inner == nil {
		inner = None{}
	}
	s, err := inner.Do(ctx, e, section)
	s.Waited += waited
	return s, err
}
