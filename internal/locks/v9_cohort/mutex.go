// Package lock is stage 9: a process passes the lock between its own waiters before it
// lets another process have it.
//
// New: a cohort. The waiters of a process queue up in its memory, and one goroutine
// waits in the queue in Redis for all of them (queue.go). Unlock hands the lock to the
// next waiter in the process, at most maxPasses times and for no longer than the ttl,
// without a command to Redis (cohort.go); after that, to the first process in the
// queue. Lock cohorting was published by Dice, Marathe and Shavit (PPoPP 2012). The
// queue has tickets, not owners: a ticket is served once, and the process counts
// re-entries, so nothing is counted twice after a lost reply. Each holder of a cohort
// has a token of its own. Unlock writes to a list whose name only its script knows:
// Dragonfly needs --default_lua_flags=allow-undeclared-keys for that.
//
// Holds:
//   - everything that stage 8 holds
//   - half of the pool stays free, regardless of how many locks are waited for
//   - handing the lock on within a process takes no command to Redis:
//     TestFIFOInAProcess
//   - each of these holders has a token of its own, larger than the one before: TestProcessesTakeTurns
//   - processes take turns, however many waiters one has: TestProcessesTakeTurns
//   - nothing is counted twice after a lost reply, and a failed re-entry frees nothing
//   - a failed Unlock is retried until the ttl is over: TestFailedUnlockIsTriedAgain
//   - a holder that has lost the lock and hangs blocks nobody: TestLostHoldLetsItsProcessGoOn
//   - tokens keep growing if the clock is set back or Redis loses its data: a
//     resource that has seen a larger token says so, and the holder gets an even
//     larger one: TestTokenAfter
//   - no holder relies on a longer lease than Redis keeps: TestNobodyReliesOnMoreThanRedisKeeps
//
// Breaks:
//   - a lock that nobody unlocks is renewed forever: TestForgottenUnlock
//   - if the resource does not check, a paused holder writes too late, as in stage 7
//   - the waiters of other processes learn of a holder's death up to a third of ttl after the
//     lease has expired
//
// TestPromises checks each line above that names no test.
package lock

import (
	"context"
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

// A Mutex is one holder's handle on the lock: every holder makes its own.
// It must not be used by several goroutines at once.
type Mutex struct {
	at  location
	ttl time.Duration

	turn *turn // the current turn, or the last one
}

// New returns a handle on the lock stored at key. It does not acquire the lock. Once
// acquired, the lock expires ttl after its holder stops renewing it. A quarter of ttl
// must be ample time for Redis to answer. The queue is stored under names that begin
// with key: on a cluster, key needs a hash tag.
//
// All Mutexes with the same client and key count as one process: they share its
// place in the queue and, while they wait, one connection of the client's pool. If the
// process waits for more locks than half of the pool, it polls for the others (sleep.go).
func New(rdb redis.UniversalClient, key string, ttl time.Duration) *Mutex {
	return &Mutex{at: location{rdb, key}, ttl: ttl}
}

// Lock waits for the lock and acquires it for the owner in ctx. Waiters in one process
// are served in order of arrival; the process may pass the lock among them before an
// earlier waiter of another process. An owner that already has the lock re-enters at
// once, or gets ErrLost if the lock is lost. If ctx ends first, Lock returns its cause.
// If Redis fails, Lock returns the error. After an error there is nothing to release.
func (m *Mutex) Lock(ctx context.Context) error {
	owner, err := ownerFrom(ctx)
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	mu.Lock()
	c := m.cohort()
	if is, err := c.reenter(m, owner); is {
		mu.Unlock()
		return err
	}
	w := c.join(m, owner)
	c.step()
	mu.Unlock()
	select {
	case err := <-w.served:
		return err
	case <-ctx.Done():
	}
	mu.Lock()
	defer mu.Unlock()
	if c.quit(w) {
		return context.Cause(ctx)
	}
	return <-w.served // w has just been served
}

// TryLock acquires the lock for the owner in ctx, if it is already that owner's, or
// if it is free and nobody waits for it. In all other cases TryLock returns false.
// After an error the lock is not held: if it was acquired, it is released.
func (m *Mutex) TryLock(ctx context.Context) (bool, error) {
	owner, err := ownerFrom(ctx)
	if err != nil {
		return false, err
	}
	mu.Lock()
	defer mu.Unlock()
	c := m.cohort()
	if is, err := c.reenter(m, owner); is {
		return err == nil, err
	}
	return c.try(ctx, m, owner)
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

	mu.Lock()
	defer mu.Unlock()
	c := cohorts[m.at]
	if c == nil || c.turns[owner] == nil {
		return ErrNotHeld
	}
	t := c.turns[owner]
	if t.depth--; t.depth > 0 {
		return nil
	}
	return c.leave(ctx, t)
}
