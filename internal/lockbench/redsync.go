package lockbench

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"

	"oversell/internal/locks"
)

// redsyncs are redsync on one server, used as its README does: one pool and one
// Redsync a process, NewMutex for each holder, Lock, Unlock.
func redsyncs() Catalog {
	return Catalog{
		{
			Name:  "redsync",
			Waits: "asks every 50 to 250 ms, 32 times",
			About: "every default: a lease of 8 s, 32 tries, a random 50 to 250 ms between two. " +
				"Who had no luck in 32 tries is told so.",
			Make: madeOfRedsync(),
		},
		{
			Name:  "redsync:best",
			Waits: "asks every 0.2 to 1 s until it has it",
			About: "Tries without end, for nobody who waits is to be turned away. The delay is longer than the " +
				"default, not shorter: each try in vain is a SET and a script, and the tries of thousands leave " +
				"the holder no server to release on.",
			Make: madeOfRedsync(
				redsync.WithTries(1<<30),
				redsync.WithRetryDelayFunc(func(int) time.Duration {
					return 200*time.Millisecond + rand.N(800*time.Millisecond)
				}),
				redsync.WithFailFast(true),
			),
		},
	}
}

func madeOfRedsync(options ...redsync.Option) func(Process) (locks.Guard, error) {
	return func(p Process) (locks.Guard, error) {
		rs := redsync.New(goredis.NewPool(p.Redis))
		return &locks.Distributed{
			New:     func(key string) locks.Lock { return redsyncLock{rs.NewMutex(key, options...)} },
			Policy:  locks.Blocking{},
			NotHeld: []error{redsync.ErrLockAlreadyExpired},
		}, nil
	}
}

// redsyncLock has a redsync Mutex wait in its own way.
type redsyncLock struct{ *redsync.Mutex }

func (l redsyncLock) TryLock(ctx context.Context) (bool, error) {
	err := l.TryLockContext(ctx)
	var taken *redsync.ErrTaken
	if errors.As(err, &taken) {
		return false, nil
	}
	return err == nil, err
}

func (l redsyncLock) Lock(ctx context.Context) error { return l.LockContext(ctx) }

func (l redsyncLock) Unlock(ctx context.Context) error {
	ok, err := l.UnlockContext(ctx)
	var taken *redsync.ErrTaken
	if errors.As(err, &taken) {
		return errors.Join(redsync.ErrLockAlreadyExpired, err) // it is another's
	}
	if err == nil && !ok {
		return errors.New("redsync: unlock says false")
	}
	return err
}
