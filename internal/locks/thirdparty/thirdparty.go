// Package thirdparty makes strategies of three lock libraries that others wrote:
// redsync, bsm/redislock and rueidislock. Each is used as its own
// documentation uses it, on one Redis, with its defaults and the shop's ttl, and
// its mutexes have the shape that the stages have: New, TryLock, Lock, Unlock.
// The library's defaults decide, and its weaknesses are left as they are: the adapters
// add no renewal, no fairness and no longer waits.
//
// They add only what a careful caller needs: Unlock and the hold do not depend on a
// context that has ended, Lock returns the cause of its context, and "no longer held"
// is the same error for all. The lab shows what happens to a caller that is not careful:
// its locks are Bare, so the library gets the caller's contexts and its errors are
// returned.
//
// How the libraries differ:
//
//	             waits                            lease          reports loss
//	redsync      asks every 50 to 250 ms,         not extended   no
//	             gives up after 32 tries
//	redislock    asks every 500 ms                not extended   no
//	rueidislock  asks when Redis tells of a       extended       yes
//	             change, or every 20 ms where
//	             Redis cannot
//
// This is not a Redlock on five servers: here each library can only be as good as the
// one Redis that keeps the lock.
package thirdparty

import (
	"context"
	"errors"
	"time"
)

// ErrNotHeld is what Unlock returns, wrapped, when there was nothing to release:
// the lock has expired, and may be another's by now.
var ErrNotHeld = errors.New("lock: not held")

// ErrGaveUp is what Lock returns, wrapped, when the library ended the wait before the
// caller did.
var ErrGaveUp = errors.New("lock: the library gave up waiting")

// ErrLost is the cause of a lost hold's context.
var ErrLost = errors.New("lock: lost while held")

// unlockTimeout limits Unlock, which ignores that its caller's context is cancelled.
const unlockTimeout = 5 * time.Second

// unlocking returns the context for an Unlock.
func unlocking(ctx context.Context, bare bool) (context.Context, context.CancelFunc) {
	if bare {
		return ctx, func() {}
	}
	return context.WithTimeout(context.WithoutCancel(ctx), unlockTimeout)
}

// over returns the cause of ctx if that has ended, or else nil. A deadline in the past
// counts as ended: a connection has a timer of its own for it, which may fire before
// that of ctx.
func over(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		<-ctx.Done() // in an instant
	}
	return context.Cause(ctx)
}
