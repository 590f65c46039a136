// Package thirdparty makes strategies of three lock libraries that others wrote:
// redsync, bsm/redislock and rueidislock. Each is used as its own
// documentation uses it, on one Redis, with its defaults and the shop's ttl, and
// its mutexes have the shape that the stages have: New, TryLock, Lock, Unlock.
// Where the library is told nothing it decides, and what it does badly is left
// as it is: the adapters add no renewal, no fairness and no patience.
//
// What they do add is what a careful caller has to: Unlock and the hold do not
// depend on a context that has ended, Lock returns the cause of the wait that
// ended, and "no longer held" is one error for all.
//
// What the libraries do differently:
//
//	             waits                            lease          loss is told
//	redsync      asks every 50 to 250 ms,         not extended   no
//	             gives up after 32 tries
//	redislock    asks every 500 ms                not extended   no
//	rueidislock  asks when Redis tells of a       extended       yes
//	             change, or every 20 ms where
//	             Redis cannot
//
// A Redlock of five servers is not what this is: each library can only be as
// good here as the one Redis that keeps the lock.
package thirdparty

import (
	"context"
	"errors"
	"time"
)

// ErrNotHeld is what Unlock returns, to be matched by errors.Is, when there was
// nothing to give back: the lock has expired, and may be another's by now.
var ErrNotHeld = errors.New("lock: not held")

// ErrGaveUp is what Lock returns, to be matched by errors.Is, when the library
// ended the wait before the caller did: the lock was not had in time.
var ErrGaveUp = errors.New("lock: the library gave up waiting")

// ErrLost is the cause of a lost hold's context.
var ErrLost = errors.New("lock: lost while held")

// unlockTimeout limits Unlock, which does not listen to its caller's context.
const unlockTimeout = 5 * time.Second

// unlocking is the context of an Unlock.
func unlocking(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), unlockTimeout)
}

// over returns the cause of ctx when that has ended, and nil before. A deadline
// that is past is an end: a connection that keeps it hears of it from a timer of
// its own, at times before ctx does.
func over(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		<-ctx.Done() // in an instant
	}
	return context.Cause(ctx)
}
