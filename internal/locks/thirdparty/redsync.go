package thirdparty

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// Redsync creates locks of go-redsync/redsync. It uses one pool and one Redsync per process, as in
// https://github.com/go-redsync/redsync/blob/master/README.md. It is safe for concurrent use and
// needs no closing.
//
// Its defaults (https://pkg.go.dev/github.com/go-redsync/redsync/v4#Option) are as follows. The
// shop keeps them, except that the shop's ttl replaces the expiry of 8 s:
//   - 32 tries with random pauses of 50 to 250 ms: a waiter fails after about five seconds, even if
//     its caller would wait longer;
//   - a twentieth of the ttl for each request (timeoutFactor 0.05): a reply that takes
//     longer counts as a failed try;
//   - a hundredth of the ttl is subtracted from the lease, for clock drift (driftFactor 0.01);
//   - each failed try costs two requests, one to ask and one to undo;
//   - no extension: the caller must call ExtendContext, and this adapter does not.
//
// If 5,000 callers in a process wait, they all poll. About 33,000 tries a second are due, of two
// requests each, and the holder's release waits in the same queue for a connection. Between 2 and
// 74 waiters a second were served, fewer on a busier machine. Some used up their 32 tries.
type Redsync struct {
	Bare    bool // see the package comment; must be set before New
	redsync *redsync.Redsync
	options []redsync.Option
}

// NewRedsync returns a Redsync on rdb, with the given options.
func NewRedsync(rdb redis.UniversalClient, options ...redsync.Option) *Redsync {
	return &Redsync{redsync: redsync.New(goredis.NewPool(rdb)), options: options}
}

// New returns a handle on the lock stored at key. It does not acquire the lock.
func (r *Redsync) New(key string) *RedsyncMutex {
	return &RedsyncMutex{r.redsync.NewMutex(key, r.options...), r.Bare}
}

// RedsyncMutex is one holder's handle on a lock. It must not be used by several
// goroutines at once.
type RedsyncMutex struct {
	mutex *redsync.Mutex
	bare  bool
}

// TryLock asks for the lock once. After an error the lock is not held. If Redis could not be
// reached to undo the attempt, nobody can get the lock until the ttl is over.
func (m *RedsyncMutex) TryLock(ctx context.Context) (bool, error) {
	err := m.mutex.TryLockContext(ctx)
	if isTaken(err) {
		return false, nil
	}
	return err == nil, err
}

// Lock waits in redsync's way. If ctx ends, it returns the cause of ctx. After the last try it
// returns ErrGaveUp, or the error of Redis if that try failed.
//
// If a wait ends during a try, the lock may stay locked until the ttl is over, although nobody
// holds it, because redsync tries to undo the attempt with the context that has ended.
func (m *RedsyncMutex) Lock(ctx context.Context) error {
	err := m.mutex.LockContext(ctx)
	if err == nil || m.bare {
		return err
	}
	if cause := over(ctx); cause != nil {
		return cause // redsync returns the same error as when it gives up
	}
	if isTaken(err) || errors.Is(err, redsync.ErrFailed) {
		return fmt.Errorf("%w: %w", ErrGaveUp, err)
	}
	return err
}

// Unlock releases the lock, even if ctx is already cancelled. It returns ErrNotHeld if the lock
// has expired or belongs to another holder.
func (m *RedsyncMutex) Unlock(ctx context.Context) error {
	ctx, cancel := unlocking(ctx, m.bare)
	defer cancel()
	_, err := m.mutex.UnlockContext(ctx)
	if isTaken(err) || errors.Is(err, redsync.ErrLockAlreadyExpired) {
		return fmt.Errorf("%w: %w", ErrNotHeld, err)
	}
	return err
}

// isTaken reports whether redsync says that another holder has the lock.
func isTaken(err error) bool {
	var taken *redsync.ErrTaken
	return errors.As(err, &taken)
}
