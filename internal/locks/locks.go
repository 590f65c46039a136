// Package locks has the ways of guarding a section that the shop can switch
// between: nothing, a mutex in the process, and the Redis locks of the stages
// v1_setnx to v9_cohort in the folders below. It adds what is the same for
// all of them and so is no part of any lesson: waiting for a lock (Policy),
// running a section under it (Guard), and the catalog that says of each
// strategy what it adds, what it still breaks and what must come out.
package locks

import (
	"context"
	"time"
)

// Lock is the shape that every stage has. A Lock belongs to one holder.
type Lock interface {
	// TryLock takes the lock if it is free. After an error it is not known
	// whether the lock was taken.
	TryLock(ctx context.Context) (bool, error)
	// Unlock gives the lock back. It works when ctx is already cancelled.
	Unlock(ctx context.Context) error
}

// Waiter is a Lock that knows how to wait.
type Waiter interface {
	// Lock waits for the lock until ctx ends, and returns its cause then. There is
	// nothing to give back then. After another error it is not known whether the
	// lock was taken, unless the lock says that it was not.
	Lock(ctx context.Context) error
}

// Entry is one caller's wish to enter a guarded section.
type Entry struct {
	Key   string // what is guarded; one holder at a time for each key
	Owner string // who asks, unique among all processes; re-entry is told by it

	// Wait ends the waiting and nothing else: a section that has begun runs to
	// its end. Its cause is the error that Do returns.
	Wait context.Context
}

// Stats tells what one Do took. It is filled in when Do fails, too.
type Stats struct {
	Attempts int           // times the lock was asked for
	Waited   time.Duration // from the call to the entry, or to giving up
	Held     time.Duration // from the entry to the end of the release
	Renewals int           // times the lease was renewed
	Lost     bool          // the lease was gone before the section ended
	Release  error         // what the release failed with, a lost lease apart
}

// Guard runs sections, one at a time for each key, or claims to. It is safe
// for concurrent use.
type Guard interface {
	// Do waits for its turn and runs section, whose context lives on when
	// ctx is cancelled, but is cancelled with the reason when the guard
	// learns that the lease was lost. Do returns section's error, the cause
	// of e.Wait when the wait was ended, or the error of a lock that could
	// not be asked.
	Do(ctx context.Context, e Entry, section func(ctx context.Context) error) (Stats, error)
}

// sleep waits for d or until wait ends, and returns the cause in that case.
func sleep(wait context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-wait.Done():
		return context.Cause(wait)
	case <-timer.C:
		return nil
	}
}
