// Package lock is stage 8: each hold has a fencing token, and the resource refuses
// requests with an older one.
//
// New: a fencing token, minted by the script when it grants the outermost hold. It
// belongs to that hold and is never looked up again. The holder sends it with every
// read and write (token.go). A resource that remembers the largest token it has seen,
// and refuses smaller ones, is safe from a holder that has lost the lock and does not
// know it. As in stage 7, Dragonfly needs a flag for the list that Unlock writes to.
//
// Holds:
//   - everything that stage 7 holds
//   - a later holder has a larger token, even after the lock was idle or Redis has
//     lost its keys
//   - a re-entry keeps the token
//   - a paused holder that resumes is refused by a resource that checks:
//     TestPausedHolderIsFenced
//
// Breaks:
//   - an owner that retries after a lost reply, without Unlock in between, is counted
//     twice, and the lock stays held until ttl has passed
//   - Unlock after a re-entry that Redis never saw releases the outer hold
//   - a lock that nobody unlocks is renewed forever
//   - if the resource does not check, a paused holder writes too late, as in
//     stage 7: TestPausedHolderIsFenced
//   - if the server's clock is set back by more than the time for which the last token is
//     kept, the resource refuses new holds until the clock has caught up
//
// TestPromises checks each line above that names no test.
package lock

import (
	"context"
	_ "embed"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrNotHeld is returned by Unlock if there was nothing to release: the lock has
// expired, and another holder may have it now.
var ErrNotHeld = errors.New("lock: not held")

// ErrLost is the cancellation cause of the context of a lost hold. Match it with
// errors.Is.
var ErrLost = errors.New("lock: lost while held")

// unlockTimeout limits Unlock, which runs even if its caller's context is cancelled. It
// ends a network call of go-redis only if Options.ContextTimeoutEnabled is set.
const unlockTimeout = 5 * time.Second

var (
	//go:embed lock.lua
	lockSource string
	lockScript = redis.NewScript(lockSource)

	//go:embed unlock.lua
	unlockSource string
	unlockScript = redis.NewScript(unlockSource)
)

// A Mutex is one holder's handle on the lock: every holder makes its own.
// It must not be used by several goroutines at once.
type Mutex struct {
	rdb redis.UniversalClient
	key string
	ttl time.Duration

	renewal *renewal // renewal of the current hold, or of the last one
	token   int64    // token of the current hold, or of the last one
}

// New returns a handle on the lock stored at key. It does not acquire the lock. Once
// acquired, the lock expires ttl after its holder stops renewing it. A quarter of ttl
// must be ample time for Redis to answer. The queue is stored under names that begin
// with key: on a cluster, key needs a hash tag.
func New(rdb redis.UniversalClient, key string, ttl time.Duration) *Mutex {
	return &Mutex{rdb: rdb, key: key, ttl: ttl}
}

// TryLock acquires the lock for the owner in ctx, if the lock is free or that owner
// already has it. False means that another owner holds it, or that others wait for it.
//
// After an error the outcome is unknown: Redis did not answer, and the lock may
// or may not have been acquired. Unlock releases it if it was; if it was not,
// and this was a re-entry, Unlock releases the outer hold.
func (m *Mutex) TryLock(ctx context.Context) (bool, error) {
	owner, err := ownerFrom(ctx)
	if err != nil {
		return false, err
	}
	n, err := m.ask(ctx, owner, 0)
	return n > 0, err
}

// Unlock releases the lock, even if ctx is already cancelled: a caller that
// gives up must not keep the others waiting. The next waiter gets the lock after
// as many calls to Unlock as there were successful calls to Lock and TryLock.
func (m *Mutex) Unlock(ctx context.Context) error {
	owner, err := ownerFrom(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockTimeout)
	defer cancel()

	// End the renewal first, because it must stop even if Redis fails.
	if r := leave(hold{m.rdb, m.key, owner}); r != nil {
		defer r.inFlight.Wait()
	}
	n, err := unlockScript.Run(ctx, m.rdb, m.keys(), owner).Int()
	if err != nil {
		return err
	}
	if n < 0 {
		return ErrNotHeld
	}
	return nil
}

// Context returns a copy of parent for the work under the lock. The copy is cancelled when the lock
// is released, or when it is lost, with ErrLost as the cause. While a machine is suspended, its
// clock stands still; the first renewal after that detects a loss.
func (m *Mutex) Context(parent context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(parent)
	mu.Lock()
	defer mu.Unlock()
	switch r := m.renewal; {
	case r == nil:
		cancel(ErrNotHeld)
	case r.over():
		cancel(r.cause)
	default:
		r.onEnd = append(r.onEnd, cancel)
	}
	return ctx
}

// Renewals returns the number of renewals of the current hold or, after its end, of the last hold.
func (m *Mutex) Renewals() int {
	mu.Lock()
	defer mu.Unlock()
	if m.renewal == nil {
		return 0
	}
	return m.renewal.renewed
}
