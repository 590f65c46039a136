// Package lock is stage 7: waiters queue up in Redis, and each is handed the lock in turn.
//
// New: Lock waits (queue.go). The owner joins a queue in Redis and sleeps until a
// message arrives on its own list (BLPOP). The last Unlock hands the lock to the
// first owner in the queue and wakes only that one. Each waiter watches its own
// location, as in the queue locks of Mellor-Crummey and Scott (ACM TOCS 9(1), 1991).
// Each waiter blocks one connection of the client's pool, up to half of the pool. One
// goroutine polls the lists of all further waiters (sleep.go). Unlock writes to a
// list whose name only its script knows: Dragonfly needs
// --default_lua_flags=allow-undeclared-keys for that.
//
// Holds:
//   - everything that stage 6 holds
//   - first come, first served
//   - waiters do not poll if half of the pool is enough for them: TestWaitingTakesFewCommands
//   - half of the pool stays free, regardless of the number of waiters
//   - up to 1,000 polled waiters are woken at most 20 ms late, and lose no message:
//     TestPolledWaiterIsWokenSoon, TestPolledWaiterMissesNoMessage
//   - a dead waiter is skipped
//   - a waiter that gives up leaves nothing behind
//   - a lost wake-up costs at most a third of ttl
//
// Breaks:
//   - an owner that retries after a lost reply, without Unlock in between, is counted
//     twice, and the lock stays held until ttl has passed
//   - Unlock after a re-entry that Redis never saw releases the outer hold
//   - a lock that nobody unlocks is renewed forever
//   - as in stage 6, a process paused for longer than ttl learns of the loss only when
//     it resumes, maybe one write too late
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
