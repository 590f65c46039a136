package catalog

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"oversell/internal/guard"
	"oversell/internal/locks/redlock"
)

const (
	// quorumTries is how often too few nodes may answer in a row before that is an error.
	// On a busy machine all nodes are sometimes late at once.
	quorumTries = 4
	// quorumDelay is the longest pause between two of these tries.
	quorumDelay = 50 * time.Millisecond
)

// quorumLock is a Redlock that tries again if too few nodes answered, instead of failing
// the caller at once.
type quorumLock struct{ *redlock.Mutex }

func (l quorumLock) TryLock(ctx context.Context) (ok bool, err error) {
	for try := range quorumTries {
		if try > 0 {
			// Random, so that callers that collided do not collide again.
			if err := guard.Sleep(ctx, rand.N(quorumDelay)); err != nil {
				return false, err
			}
		}
		ok, err = l.Mutex.TryLock(ctx)
		if !errors.Is(err, redlock.ErrNoQuorum) {
			return ok, err
		}
	}
	return false, err
}
