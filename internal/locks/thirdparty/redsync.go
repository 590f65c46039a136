package thirdparty

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// Redsync makes the locks of go-redsync/redsync: one pool and one Redsync per process, as in
// https://github.com/go-redsync/redsync/blob/master/README.md. It is safe for concurrent use and
// needs no closing.
//
// Its defaults (https://pkg.go.dev/github.com/go-redsync/redsync/v4#Option), which the shop keeps,
// except that its ttl replaces the expiry of 8 s:
//   - 32 tries with random pauses of 50 to 250 ms: a waiter fails after about five seconds, however
//     long it was willing to wait;
//   - a twentieth of the ttl for each request (timeoutFactor 0.05): a reply that takes
//     longer counts as a failed try;
//   - a hundredth of the ttl is taken off the lease, for clock drift (driftFactor
//     0.01);
//   - each failed try costs two requests, one to ask and one to undo it;
//   - no extension: calling ExtendContext is left to the caller, and is not done here.
//
// 5,000 waiters in a process all poll: about 33,000 tries a second are due, of two
// requests each, and the holder's release waits in the same queue for a connection. 2
// to 74 a second were served, fewer on a busier machine. Some use up their 32 tries.
type Redsync struct {
	Bare    bool // see the package comment; set it before New
	redsync *redsync.Redsync
	options []redsync.Option
}

// NewRedsync returns the locks on rdb, with the given options.
func NewRedsync(rdb redis.UniversalClient, options ...redsync.Option) *Redsync {
	return &Redsync{redsync: redsync.New(goredis.NewPool(rdb)), options: options}
}

// New returns a handle on the lock stored at key. It does not acquire it.
func (r *Redsync) New(key string) *RedsyncMutex {
	return &RedsyncMutex{r.redsync.NewMutex(key, r.options...), r.Bare}
}

// RedsyncMutex is one holder's handle on a lock. It must not be used by several
// goroutines at once.
type RedsyncMutex struct {
	mutex *redsync.Mutex
	bare  bool
}

// TryLock asks for the lock once. After an error it is not held; if Redis could not be reached to
// undo the try, nobody can get the lock until the ttl is over.
func (m *RedsyncMutex) TryLock(ctx context.Context) (bool, error) {
	err := m.mutex.TryLockContext(ctx)
	if isTaken(err) {
		return false, nil
	}
	return err == nil, err
}

// Lock waits like redsync. It returns the cause of ctx if ctx has ended, ErrGaveUp after the last
// try, and an error of Redis only if the last try had one.
//
// A wait that ends during a try may leave the lock held by nobody until the ttl is
// over: redsync undoes the try with the context that has ended.
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

// Unlock releases the lock, even if ctx is already cancelled. It returns ErrNotHeld when the lock
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
