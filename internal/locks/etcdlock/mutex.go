// Package etcdlock is a lock on etcd: a queue of keys attached to leases, made of
// plain transactions and watches.
//
// How it works: each contender puts a key, attached to its lease, under the lock's
// name. The oldest key holds the lock; every other contender watches the key just
// before its own, so a release wakes only one. When a lease expires, its keys are
// deleted.
//
// New, compared with the mutex of etcd's own client: that one watches from a past
// revision, and the server serves such a watch only every 100 ms, so two processes
// hand a lock over 23 times a second. Here a watch starts from now, and the key
// before is looked up only after the watch was created (queue.go): more than 1000
// hand-overs a second on two idle cores. All goroutines of a
// process share one lease (session.go); they queue up in memory first, and one at a
// time goes to etcd (source.go). The lease is counted by this machine's clock, from
// before each renewal was sent, so a holder is told of a loss before etcd acts on it.
//
// Holds:
//   - one holder at a time, in a process and among processes: TestPromises
//   - first come, first served, in a process, and among processes by the order in
//     which etcd got their keys: TestPromises
//   - a waiter that gives up leaves nothing behind: TestPromises, TestLatePut
//   - a cancelled caller still releases the lock: TestPromises
//   - a dead holder's lock is free after ttl: TestDeadHolderExpires
//   - a late holder leaves the next holder's lock alone: TestLossIsToldFirst
//   - a holder is told of a loss before the next one has the lock: TestLossIsToldFirst
//   - a transient failure of etcd does no harm: TestPromises,
//     TestLostReply, TestLateLease
//   - a waiter is woken whenever the one before it goes, even if its watch breaks:
//     TestDepartureIsNotMissed, TestBrokenWatch
//   - each holder's token is greater than the one before: TestPromises
//   - thousands of waiters need one lease and one key: TestOneLeaseForAll
//   - no call hangs while etcd is unavailable: TestPromises
//
// Breaks:
//   - a process renews for ever a lock that nobody unlocks
//   - if somebody else deletes a key or a lease, the holder learns it up to a third
//     of the ttl later: TestForeignDeleteIsToldLate; a waiter learns it before it
//     could get the lock: TestForeignDeleteOfPlace; a caller without a place in the queue
//     goes on with a new lease: TestRevokedLeaseIsReplaced
//   - a process paused for longer than ttl learns of the loss only when it resumes,
//     maybe one write too late: only a resource that checks the token can refuse it
package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"oversell/internal/guard/keymutex"
	"oversell/internal/locks/lease"
)

// ErrNotHeld is what Unlock returns when there was nothing to release: the
// lease has expired, and the lock may be another's by now.
var ErrNotHeld = fmt.Errorf("etcdlock: %w", lease.ErrNotHeld)

// ErrLost is the cause of a lost hold's context. Match it with errors.Is. Lock
// returns it, wrapped, when the lease or the place in the queue was lost while
// waiting.
var ErrLost = errors.New("etcdlock: lease lost")

// answerTimeout limits calls that their caller's context does not limit.
const answerTimeout = 5 * time.Second

// A Mutex is one holder's handle on the lock: every holder makes its own.
// It must not be used by several goroutines at once.
type Mutex struct {
	source *Source
	key    string
	hold   *hold
}

// New returns a handle on the lock named key. It does not acquire it.
func New(source *Source, key string) *Mutex {
	return &Mutex{source: source, key: key}
}

// Lock waits for the lock, first come, first served. It returns the cause of ctx
// if that ends first, and an error if the place in the queue was lost: etcd was
// unavailable for too long, or somebody deleted the key or revoked the lease. After an
// error there is nothing to release.
func (m *Mutex) Lock(ctx context.Context) error {
	t, err := m.source.local.Lock(ctx, m.key)
	if err != nil {
		return err
	}
	_, err = m.enter(ctx, t, (*place).queue)
	return err
}

// TryLock acquires the lock if it is free and nobody in this process waits for it.
// False means that it is not. After an error the lock is not held: if it was
// acquired, it is released.
func (m *Mutex) TryLock(ctx context.Context) (bool, error) {
	t := m.source.local.TryLock(m.key)
	if t == nil {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	return m.enter(ctx, t, (*place).try)
}

// enter acquires the lock in etcd for the caller whose turn it is in this process.
//
// Somebody may have revoked the lease of this process, which learns of it only at the
// next renewal. A caller that has no place in the queue yet has lost nothing, and goes on
// with a new lease.
func (m *Mutex) enter(ctx context.Context, t *keymutex.Hold, acquire func(*place, context.Context) (bool, error)) (bool, error) {
	for {
		n, err := m.source.use(ctx)
		if err != nil {
			t.Unlock()
			return false, err
		}
		p := newPlace(n, t)
		acquired, err := p.acquire(ctx, acquire)
		if errors.Is(err, errUnknown) && p.rev == 0 {
			n.leave()
			continue
		}
		switch {
		case acquired:
			m.hold = newHold(p)
		case err == nil: // it left nothing behind
			p.leave()
		default: // the turn ends only after the clean-up, but the caller does not wait for it
			p.abandon()
		}
		return acquired, err
	}
}

// Unlock releases the lock, even if ctx is already cancelled: a caller that
// gives up must not keep the others waiting. When etcd does not answer in time
// Unlock returns an error, and the lock is released as soon as etcd does, or goes
// with the lease.
func (m *Mutex) Unlock(ctx context.Context) error {
	h := m.hold
	if h == nil {
		return ErrNotHeld
	}
	m.hold = nil
	return h.giveBack(ctx)
}

// Context returns a copy of parent for the work under the lock. It ends when the
// lease is lost, with ErrLost as its cause, or when the lock is released. It also ends
// with ErrLost after somebody else has deleted the key, but up to a third of the ttl
// later: the next holder may have the lock by then.
//
// It ends before etcd lets the next holder in: the lease is counted from before its
// last renewal was sent, while etcd counts from when it received it, and the last tenth
// of the lease is not used. This assumes that neither clock is a tenth slower than the
// other, and that this process runs.
func (m *Mutex) Context(parent context.Context) context.Context {
	if h := m.hold; h != nil {
		return h.place.session.Context(parent, h.ctx)
	}
	ctx, cancel := context.WithCancelCause(parent)
	cancel(ErrNotHeld)
	return ctx
}

// Token returns the fencing token of the hold, or 0 if there is none. It is the
// revision at which the holder's key was created: etcd numbers all its changes, and
// a key waits for every key created before it, so each holder's token is greater
// than all earlier ones. It can also be compared in etcd itself, in the transaction
// that does the work.
func (m *Mutex) Token() int64 {
	if m.hold == nil {
		return 0
	}
	return m.hold.place.rev
}
