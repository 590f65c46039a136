// Package thirdparty adapts three lock libraries as strategies: redsync, bsm/redislock and
// rueidislock. Each is used as its own documentation recommends, on one Redis, with its defaults
// and the shop's ttl. Its mutexes have the same methods as the stages: New, TryLock, Lock, Unlock.
// The adapters keep each library's defaults and weaknesses: they add no renewal, no fairness and no
// longer waits.
//
// They add only what a careful caller needs: Unlock and the hold do not depend on a context that
// has ended, Lock returns the cause of its context, and "no longer held" is the same error for all
// libraries. The lab shows what happens to a caller that is not careful. Its locks are Bare: the
// library gets the caller's contexts, and its errors are returned unchanged.
//
// How the libraries differ:
//
//	             waits                            lease          reports loss
//	redsync      asks every 50 to 250 ms,         not extended   no
//	             gives up after 32 tries
//	redislock    asks every 500 ms                not extended   no
//	rueidislock  asks when Redis reports a        extended       yes
//	             change, or every 20 ms where
//	             Redis cannot
//
// This is not a Redlock on five servers: each library is only as reliable as the one Redis that
// stores the lock.
package thirdparty

import (
	"context"
	"errors"
	"time"
)

// ErrNotHeld is wrapped by the error of Unlock if there was nothing to release: the lock has
// expired, and another holder may have it.
var ErrNotHeld = errors.New("lock: not held")

// ErrGaveUp is wrapped by the error of Lock if the library ended the wait before the caller did.
var ErrGaveUp = errors.New("lock: the library gave up waiting")

// ErrLost is the cancellation cause of the context of a lost hold.
var ErrLost = errors.New("lock: lost while held")

// unlockTimeout limits Unlock, which runs even if its caller's context is cancelled.
const unlockTimeout = 5 * time.Second

// unlocking returns the context for an Unlock: ctx itself if bare, or otherwise a context that
// lasts for unlockTimeout.
func unlocking(ctx context.Context, bare bool) (context.Context, context.CancelFunc) {
	if bare {
		return ctx, func() {}
	}
	return context.WithTimeout(context.WithoutCancel(ctx), unlockTimeout)
}

// over returns the cause of ctx if ctx has ended, and nil otherwise. A context whose deadline has
// passed counts as ended, because the timer of a connection with the same deadline may fire before
// the timer of ctx.
func over(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		<-ctx.Done() // ctx ends in a moment
	}
	return context.Cause(ctx)
}
