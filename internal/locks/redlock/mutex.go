package redlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrNotHeld is what Unlock returns when there was nothing to give back: a
// majority of the nodes says so. The lock may be another's by now.
var ErrNotHeld = errors.New("redlock: not held")

// ErrLost is the cause, to be matched by errors.Is, of a lost hold's context.
var ErrLost = errors.New("redlock: lost while held")

// ErrNoQuorum says that fewer nodes than a majority answered in time: whether
// the lock is free is not known. Errors that wrap it wrap the nodes' own, too.
var ErrNoQuorum = errors.New("redlock: no majority of the nodes answered in time")

// A Mutex is one holder's handle on the lock: every holder makes its own.
// It must not be used by several goroutines at once.
type Mutex struct {
	nodes []redis.UniversalClient
	key   string
	ttl   time.Duration

	claim   *claim   // the last attempt, nil before the first
	renewal *renewal // of the hold, or of the last one
}

// New returns a handle on the lock that lives at key on all of nodes. It does
// not take it. Once taken, the lock expires ttl after its holder stops renewing
// it. All handles must have the same nodes, and an odd number is best: of four,
// no more may fail than of three.
//
// A client should have Options.ContextTimeoutEnabled, or it does not keep to
// NodeLimit on the wire, and MaxRetries -1: a SET that is sent twice, because the
// first reply was lost, is refused by its own key.
func New(nodes []redis.UniversalClient, key string, ttl time.Duration) *Mutex {
	return &Mutex{nodes: nodes, key: key, ttl: ttl}
}

// TryLock takes the lock if a majority of the nodes gives it. False means that
// a majority answered and somebody else was in the way: a holder, another who
// tried at the same moment, this handle's own hold (there is no re-entry).
//
// It returns as soon as the outcome is certain, at the latest after NodeLimit,
// and once more as long to undo a failed attempt. An attempt that fails is undone
// on all nodes, whatever they answered, and also when ctx ends. What is slow of
// that goes on in the background for up to twice NodeLimit and is not repeated.
//
// A SET that is slower still may be carried out after its release. Then nobody
// has the lock, and the key stays on that node, until the ttl of the late SET is
// over and no longer.
//
// Whoever is told false must wait for a random time before trying again. Those
// who try at the same moment may share out the nodes so that none has a
// majority, and with equal delays they would do so again and again.
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

// undo releases a failed attempt. It waits, but not for long, until as many
// nodes have done so as had given the lock: the next one to try finds them free.
func (m *Mutex) undo(ctx context.Context, given int) {
	ctx, cancel := context.WithTimeout(ctx, NodeLimit(m.ttl))
	defer cancel()
	m.claim.release(ctx, func(v votes) bool { return v.yes >= given })
}

// Unlock gives the lock back, even when ctx is cancelled already: a caller
// that gives up must not keep the others waiting. It takes twice NodeLimit at
// most. After ErrNoQuorum it may be called again, and ErrNotHeld may then mean
// that the first call did it; the ttl frees the lock anyway. After an error of
// TryLock it undoes the attempt once more.
func (m *Mutex) Unlock(ctx context.Context) error {
	if m.claim == nil {
		return ErrNotHeld
	}
	if m.renewal != nil {
		m.renewal.stop() // first: whatever the nodes answer, it must not go on
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

// Context returns a copy of parent for the work under the lock. It ends when
// the lock is lost, with ErrLost as its cause, or when it is given back.
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

// Validity returns for how long the lock is surely held if it is not renewed any
// more, and 0 when it is not held.
func (m *Mutex) Validity() time.Duration {
	if m.renewal == nil {
		return 0
	}
	return m.renewal.valid()
}

// Renewals returns how often the hold has been renewed, or the last one was.
func (m *Mutex) Renewals() int {
	if m.renewal == nil {
		return 0
	}
	m.renewal.mu.Lock()
	defer m.renewal.mu.Unlock()
	return m.renewal.renewed
}
