package thirdparty

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// Redsync makes the locks of go-redsync/redsync: one pool and one Redsync a
// process, as in https://github.com/go-redsync/redsync/blob/master/README.md.
// It is safe for concurrent use and needs no closing.
//
// Its defaults (https://pkg.go.dev/github.com/go-redsync/redsync/v4#Option),
// all kept but the expiry of 8 s, which is the ttl:
//   - 32 tries, a random 50 to 250 ms between two: who had no luck in about
//     five seconds is told so, whatever time was left to wait;
//   - a twentieth of the ttl for each request (timeoutFactor 0.05): a reply
//     that takes longer counts as a try in vain;
//   - a hundredth of the ttl off the lease, for clocks that differ
//     (driftFactor 0.01);
//   - each try in vain is two requests, one to ask and one to take back what
//     may have been taken;
//   - no extension: ExtendContext is for the caller, and nobody calls it here.
//
// 5,000 waiters in a process all ask by themselves: about 33,000 tries a second
// are due, of two requests each, and the holder's release waits in the same queue
// for a connection. 2 to 74 a second were served, the fewer the busier the machine.
// Some use up their 32 tries.
type Redsync struct {
	redsync *redsync.Redsync
	ttl     time.Duration
}

// NewRedsync returns the locks on rdb, with leases of ttl.
func NewRedsync(rdb redis.UniversalClient, ttl time.Duration) *Redsync {
	return &Redsync{redsync: redsync.New(goredis.NewPool(rdb)), ttl: ttl}
}

// New returns a handle on the lock that lives at key. It does not take it.
func (r *Redsync) New(key string) *RedsyncMutex {
	return &RedsyncMutex{r.redsync.NewMutex(key, redsync.WithExpiry(r.ttl))}
}

// RedsyncMutex is one holder's handle on a lock. It must not be used by several
// goroutines at once.
type RedsyncMutex struct{ mutex *redsync.Mutex }

// TryLock asks for the lock once. After an error it is not held; if Redis could
// not be reached to take it back, nobody can have it until the ttl is over.
func (m *RedsyncMutex) TryLock(ctx context.Context) (bool, error) {
	err := m.mutex.TryLockContext(ctx)
	if isTaken(err) {
		return false, nil
	}
	return err == nil, err
}

// Lock waits as redsync does. It returns the cause of ctx when that has ended,
// ErrGaveUp after 32 tries, and an error of Redis only if the last try had one.
//
// A wait that ends while redsync asks may leave the lock behind until the ttl is
// over, taken by nobody: what would take it back has the context that has ended.
func (m *RedsyncMutex) Lock(ctx context.Context) error {
	err := m.mutex.LockContext(ctx)
	if err == nil {
		return nil
	}
	if cause := over(ctx); cause != nil {
		return cause // redsync says the same as when it gives up
	}
	if isTaken(err) || errors.Is(err, redsync.ErrFailed) {
		return fmt.Errorf("%w: %w", ErrGaveUp, err)
	}
	return err
}

// Unlock gives the lock back, even when ctx is cancelled already. It returns
// ErrNotHeld when the lock has expired or is another's.
func (m *RedsyncMutex) Unlock(ctx context.Context) error {
	ctx, cancel := unlocking(ctx)
	defer cancel()
	_, err := m.mutex.UnlockContext(ctx)
	if isTaken(err) || errors.Is(err, redsync.ErrLockAlreadyExpired) {
		return fmt.Errorf("%w: %w", ErrNotHeld, err)
	}
	return err
}

// isTaken reports whether redsync says that the lock is another's.
func isTaken(err error) bool {
	var taken *redsync.ErrTaken
	return errors.As(err, &taken)
}
