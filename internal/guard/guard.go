// Package guard runs a section of code under a lock. It contains what all locks share, so that no
// stage has to repeat it: the ways of waiting for a lock (Policy), a guard that acquires the lock,
// runs the section and releases the lock (Distributed), and two guards that need no server (None
// and Local). It uses the locks through their common interface, Lock.
package guard

import (
	"cmp"
	"context"
	"time"
)

// Lock is the interface of every stage. A Lock belongs to one holder.
type Lock interface {
	// TryLock acquires the lock if it is free. After an error it is unknown whether the lock was acquired.
	TryLock(ctx context.Context) (bool, error)
	// Unlock releases the lock. It works even if ctx is already cancelled.
	Unlock(ctx context.Context) error
}

// Waiter is a Lock that has its own method of waiting.
type Waiter interface {
	// Lock waits for the lock until ctx ends. If ctx ends first, it returns the cause, and the lock
	// was not acquired. After any other error it is unknown whether the lock was acquired, unless
	// the error says that it was not.
	Lock(ctx context.Context) error
}

// Entry identifies a caller and the resource that it wants to use.
type Entry struct {
	Key   string // the guarded resource; each key has one holder at a time
	Owner string // the caller's id, unique among all processes; a reentrant lock uses it to recognise its owner
}

// Stats contains the figures of one call to Do. They are set even after an error.
type Stats struct {
	Attempts int           // number of requests for the lock
	Waited   time.Duration // time from the call until the section began or the caller gave up
	Taking   time.Duration // the last part of Waited: the successful request, which for a Waiter includes the wait
	Held     time.Duration // time from the start of the section to the end of the release
	Renewals int           // number of renewals of the lease
	Lost     bool          // the lease was over before the release
	Release  error         // the error of the release, unless it is a lost lease
}

// Guard runs sections, one at a time for each key (a faulty guard may run several at once). It is
// safe for concurrent use.
type Guard interface {
	// Do waits until the caller may enter, and runs section. If ctx ends, only the wait ends: a
	// section that has begun runs to its end. The section's context has the values of ctx, and is
	// cancelled with a cause when the guard learns that the lease was lost. Do returns the error of
	// section, the cause of ctx if that ended the wait, or the error of the lock.
	Do(ctx context.Context, e Entry, section func(ctx context.Context) error) (Stats, error)
}

// Sleep waits for d. If ctx ends first, it returns the cause of ctx.
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
	err := section(context.WithoutCancel(ctx)) // ctx ends only the wait (see Guard)
	return Stats{Attempts: 1, Held: time.Since(start)}, err
}

// Local is a guard with a mutex for each key in this process. It protects a resource only if all
// callers are in one process. The zero value is ready to use.
type Local struct {
	Inner Guard // a second guard for the sections, for example between processes; may be nil
	Mutex KeyedMutex
}

// Do waits until no other section runs for e.Key in this process, and then runs section.
func (l *Local) Do(ctx context.Context, e Entry, section func(context.Context) error) (Stats, error) {
	start := time.Now()
	hold, err := l.Mutex.Lock(ctx, e.Key)
	waited := time.Since(start)
	if err != nil {
		return Stats{Attempts: 1, Waited: waited}, err
	}
	defer hold.Unlock()
	s, err := cmp.Or[Guard](l.Inner, None{}).Do(ctx, e, section)
	s.Waited += waited
	return s, err
}
