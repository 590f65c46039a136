package redlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrNotHeld is returned by Unlock if a majority answers that there was nothing to release.
// Another holder may have the lock.
var ErrNotHeld = errors.New("redlock: not held")

// ErrLost is the cancellation cause of the context of a lost hold. Match it with errors.Is.
var ErrLost = errors.New("redlock: lost while held")

// ErrNoQuorum means that no majority of the nodes answered in time, so it is not known whether the
// lock is free. Errors that wrap it also wrap the errors of the nodes.
var ErrNoQuorum = errors.New("redlock: no majority of the nodes answered in time")

// A Mutex is one holder's handle on the lock: every holder makes its own.
// It must not be used by several goroutines at once.
type Mutex struct {
	nodes []redis.Cmdable
	key   string
	ttl   time.Duration

	claim   *claim   // the last attempt, nil before the first
	renewal *renewal // renewal of the current hold, or of the last one
}

// New returns a handle on the lock stored at key on all nodes. It does not acquire the lock. Once
// acquired, the lock expires ttl after its holder stops renewing it. All handles must have the
// same nodes. An odd number is best: four nodes tolerate no more failures than three.
//
// A client should set Options.ContextTimeoutEnabled, or else a network call may exceed NodeLimit.
// It should set MaxRetries to -1: a SET that is repeated because its reply was lost would fail
// because of its own key.
func New(nodes []redis.Cmdable, key string, ttl time.Duration) *Mutex {
	return &Mutex{nodes: nodes, key: key, ttl: ttl}
}

// TryLock acquires the lock if a majority of the nodes grants it. False means that a majority
// answered, but the lock was not free: it was held, possibly by this handle (there is no re-entry),
// or another caller tried at the same moment.
//
// It returns as soon as the outcome is certain: within NodeLimit, plus the same time to undo a failed attempt.
// A failed attempt is undone on all nodes, regardless of their answers, even if ctx has ended. Slow releases
// go on in the background for up to twice NodeLimit and are not repeated.
//
// A SET may be so slow that it is executed after its release. Then nobody has the lock, and the key
// stays on that node until the ttl of the late SET is over.
//
// After false the caller must wait for a random time before it retries. Callers that
// try at the same moment may split the nodes so that none gets a majority, and with
// equal delays they would do so every time.
func (m *Mutex) TryLock(ctx context.Context) (bool, error) {
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	if m.Validity() > 0 {
		return false, nil
	}
	c := newClaim(m.nodes, m.key, m.ttl)
	m.claim = c
	sent := time.Now()
	v := c.ask(ctx, NodeLimit(m.ttl), c.set, votes.decided)
	if v.won() {
		if r := keep(c, sent); r != nil {
			m.renewal = r
			return true, nil
		}
	}
	m.undo(ctx, v.yes)
	switch {
	case v.won():
		return false, fmt.Errorf("%w: one did after %v, too late for a ttl of %v", ErrNoQuorum, time.Since(sent), m.ttl)
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case v.answered():
		return false, nil
	}
	return false, v.noQuorum()
}

// undo releases a failed attempt. It waits, for at most NodeLimit, until as many nodes have
// released the lock as had granted it, so that the next attempt finds them free.
func (m *Mutex) undo(ctx context.Context, given int) {
	ctx, cancel := context.WithTimeout(ctx, NodeLimit(m.ttl))
	defer cancel()
	m.claim.release(ctx, func(v votes) bool { return v.yes >= given })
}

// Unlock releases the lock, even if ctx is already cancelled: a caller that gives up
// must not keep the others waiting. It takes at most twice NodeLimit. After ErrNoQuorum
// it may be called again; ErrNotHeld may then mean that the first call succeeded. The
// lock expires in any case. After an error of TryLock it undoes the attempt once more.
func (m *Mutex) Unlock(ctx context.Context) error {
	if m.claim == nil {
		return ErrNotHeld
	}
	if m.renewal != nil {
		m.renewal.stop() // stop first, because the renewal must end even if the nodes fail
	}
	v := m.claim.release(context.WithoutCancel(ctx), votes.settled)
	switch {
	case !v.answered():
		return v.noQuorum()
	case v.gone():
		return ErrNotHeld
	}
	return nil
}

// Context returns a copy of parent for the work under the lock. The copy is cancelled when the lock
// is released, or when it is lost, with ErrLost as the cause.
func (m *Mutex) Context(parent context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(parent)
	r := m.renewal
	if r == nil {
		cancel(ErrNotHeld)
		return ctx
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over() {
		cancel(r.cause)
	} else {
		r.onEnd = append(r.onEnd, cancel)
	}
	return ctx
}

// Validity returns how long the lock is certain to be held without another renewal. It returns 0 if
// the lock is not held.
func (m *Mutex) Validity() time.Duration {
	if m.renewal == nil {
		return 0
	}
	return m.renewal.valid()
}

// Renewals returns the number of renewals of the current hold or, after its end, of the last hold.
func (m *Mutex) Renewals() int {
	if m.renewal == nil {
		return 0
	}
	m.renewal.mu.Lock()
	defer m.renewal.mu.Unlock()
	return m.renewal.renewed
}
