// Package etcdlock is a lock on etcd: a queue of keys that hang on leases, made of
// plain transactions and watches.
//
// How it works: who asks puts a key that hangs on its lease under the lock's
// name. The oldest key holds the lock; every other one watches the key just before
// its own, and nobody else is woken. A lease that is not renewed takes its keys
// with it.
//
// New: what the mutex of etcd's own client does not do. It watches from a revision
// that is past already, and the server looks after such a watch only every 100 ms:
// two processes then hand a lock over 23 times a second. Here a watch tells of what
// comes from now on, and only once it stands is the key before looked for
// (queue.go): that makes more than 1000 a second on two idle cores
// (BenchmarkHandover). All goroutines of a process share one lease (session.go);
// they queue up in memory first, and one at a time goes to etcd (source.go). The
// lease is counted by this machine's clock, from before each renewal was sent, so
// that its loss is told before etcd can know of it.
//
// Holds:
//   - one holder at a time, in a process and among processes: TestExclusive
//   - first come, first served, in a process, and among processes by the order in
//     which etcd got their keys: TestFIFOInAProcess, TestFIFO
//   - whoever gives up leaves nothing behind: TestCancelLeavesNothing,
//     TestCancelAtAnyMoment, TestLatePut
//   - a cancelled caller still gives the lock back: TestUnlockAfterCancel
//   - a dead holder's lock is free after ttl: TestDeadHolderExpires
//   - a holder that comes late leaves the next one's lock alone:
//     TestLateUnlockSparesForeignLock
//   - a lost lock is told before the next holder has it: TestLossIsToldFirst
//   - a passing failure of etcd does no harm: TestShortOutageDoesNoHarm,
//     TestLostReply, TestLateLease
//   - a waiter is woken whenever the one before it goes, even if its watch breaks:
//     TestDepartureIsNotMissed, TestBrokenWatch
//   - each holder's token is greater than the one before: TestTokenGrows
//   - thousands of waiters need one lease and one key: TestOneLeaseForAll
//   - no call hangs while etcd is away: TestServerAway
//
// Breaks:
//   - what nobody unlocks, its process renews for ever
//   - a key or a lease that somebody else deletes is gone at once, and its holder
//     learns it up to a third of the ttl later: TestForeignDeleteIsToldLate; a waiter
//     learns it before it could go in: TestForeignDeleteOfPlace
//   - a process that is stopped for longer than ttl learns of its loss only as it
//     goes on, maybe one write too late: only a resource that checks the token
//     can refuse it
package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"oversell/internal/locks/turns"
)

// ErrNotHeld is what Unlock returns when there was nothing to give back: the
// lease has expired, and the lock may be another's by now.
var ErrNotHeld = errors.New("etcdlock: not held")

// ErrLost is the cause, to be matched by errors.Is, of a lost hold's context. Lock
// returns it, wrapped, when the lease or the place in the queue was lost while
// waiting.
var ErrLost = errors.New("etcdlock: lease lost")

// answerTimeout limits what is not limited by its caller's context.
const answerTimeout = 5 * time.Second

// A Mutex is one holder's handle on the lock: every holder makes its own.
// It must not be used by several goroutines at once.
type Mutex struct {
	source *Source
	key    string
	hold   *hold
}

// New returns a handle on the lock that is called key. It does not take it.
func New(source *Source, key string) *Mutex {
	return &Mutex{source: source, key: key}
}

// Lock waits for the lock, first come, first served. It returns the cause of ctx
// if that ends first, and an error when etcd was away for so long that the place
// in the queue was lost. After an error there is nothing to give back.
func (m *Mutex) Lock(ctx context.Context) error {
	t, err := m.source.lines.Wait(ctx, m.key)
	if err != nil {
		return err
	}
	_, err = m.enter(ctx, t, (*place).queue)
	return err
}

// TryLock takes the lock if it is free and nobody of this process waits for it.
// False means that it is not. After an error the lock is not held: should it have
// been taken, it is given back.
func (m *Mutex) TryLock(ctx context.Context) (bool, error) {
	t := m.source.lines.Try(m.key)
	if t == nil {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	return m.enter(ctx, t, (*place).try)
}

// enter takes the lock in etcd for one whose turn it is in this process. If that
// fails, the turn stays where it is until all is put in order, but the caller does
// not wait for that.
func (m *Mutex) enter(ctx context.Context, t *turns.Turn, take func(*place, context.Context) (bool, error)) (bool, error) {
	n, err := m.source.use(ctx)
	if err != nil {
		t.Pass()
		return false, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(n.ctx, func() { cancel(n.lost()) })()

	p := newPlace(n, t)
	had, err := take(p, ctx)
	switch {
	case n.over():
		err = n.lost()
	case had:
		m.hold = newHold(p)
		return true, nil
	case err == nil: // it left nothing behind
		p.leave()
		return false, nil
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	default:
		err = fmt.Errorf("etcdlock: %w", err)
	}
	p.abandon()
	return false, err
}

// Unlock gives the lock back, even when ctx is cancelled already: a caller that
// gives up must not keep the others waiting. When etcd does not answer in time
// Unlock returns an error, and the lock is given back as soon as etcd does, or goes
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
// lease is lost, with ErrLost as its cause, or when the lock is given back. It also
// ends so when somebody else has deleted the key, but up to a third of the ttl later:
// the next holder may be in by then.
//
// It ends before etcd lets the next holder in: the lease is counted from before its
// last renewal was sent, and etcd counts from when it got it; and of the lease a tenth
// is not relied upon. That takes it that no clock is a tenth slower than the other,
// and that this process runs at all.
func (m *Mutex) Context(parent context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(parent)
	h := m.hold
	switch {
	case h == nil:
		cancel(ErrNotHeld)
	case h.place.session.over():
		cancel(context.Cause(h.ctx))
	default:
		context.AfterFunc(h.ctx, func() { cancel(context.Cause(h.ctx)) })
	}
	return ctx
}

// Token returns the fencing number of the hold, 0 when there is none. It is the
// revision at which the holder's key was created: etcd numbers all its changes,
// and a key has to wait for every one that was created before it, so that each
// holder's number is greater than those of all holders before. It can be compared
// in etcd itself, too, in the transaction that does the work.
func (m *Mutex) Token() int64 {
	if m.hold == nil {
		return 0
	}
	return m.hold.place.rev
}
