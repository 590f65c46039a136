package locks

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"oversell/internal/locks/redlock"
)

const (
	// quorumTries is how often too few nodes may answer in a row. On a machine
	// that is busy they are sometimes late, all of them at once; when it is the
	// nodes that are away, the caller is to be told.
	quorumTries = 4
	// quorumDelay is the longest rest between two of these tries.
	quorumDelay = 50 * time.Millisecond
)

// quorumLock is a Redlock that asks again when too few nodes answered, instead
// of failing whoever waits in line for it.
type quorumLock struct{ *redlock.Mutex }

func (l quorumLock) TryLock(ctx context.Context) (ok bool, err error) {
	for try := range quorumTries {
		if try > 0 {
			// At random: those who collided must not do so again.
			if err := sleep(ctx, rand.N(quorumDelay)); err != nil {
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
