// Package zklock is a lock on ZooKeeper: a queue of ephemeral, sequential nodes.
//
// How it works: who asks puts a numbered node under the lock's name. The node with
// the lowest number holds the lock; every other one watches the node just before
// its own, so that a release wakes one waiter and not the herd. When a session ends
// ZooKeeper removes its nodes. This is the recipe of ZooKeeper's own documentation.
//
// New: all goroutines of a process share one session, queue up in memory first, and
// one at a time goes to ZooKeeper (source.go). The session is counted by this
// machine's clock, from before each question that was answered, so that its loss is
// told before ZooKeeper can know of it (session.go): the client library tells it
// only when it has reached a server again, which may be long after.
//
// Holds:
//   - one holder at a time, in a process and among processes: TestExclusive
//   - first come, first served, in a process, and among processes by the order in
//     which ZooKeeper got their nodes: TestFIFOInAProcess, TestFIFO
//   - a release wakes one waiter: TestOnlyTheNextIsWoken
//   - whoever gives up leaves nothing behind: TestCancelLeavesNothing,
//     TestCancelAtAnyMoment
//   - a node is found again whose creation was not confirmed: TestLostReply
//   - a cancelled caller still gives the lock back: TestUnlockAfterCancel
//   - a dead holder's lock is free after the session's timeout:
//     TestDeadHolderExpires
//   - a holder that comes late leaves the next one's lock alone:
//     TestLateUnlockSparesForeignLock
//   - a lost lock is told before the next holder has it: TestLossIsToldFirst
//   - a passing failure of ZooKeeper does no harm: TestShortOutageDoesNoHarm
//   - each holder's token is greater than the one before, even when the lock's
//     name was removed in between: TestTokenGrows, TestTokenOutlivesTheName
//   - the names of locks that nobody uses are removed: TestTokenOutlivesTheName
//   - no call hangs while ZooKeeper is away: TestServerAway
//
// Breaks:
//   - what nobody unlocks, its process keeps for ever
//   - a node that somebody else deletes is gone at once, and its holder learns it up
//     to a third of the timeout later: TestForeignDeleteIsToldLate
//   - in an ensemble, a server that has answered tells the leader so only at the
//     next tick, half a tick later at most: should it die in between, the leader
//     counts from the answer before, and may end the session that much earlier
//   - a process that is stopped for longer than the timeout learns of its loss only
//     as it goes on, maybe one write too late: only a resource that checks the token
//     can refuse it
package zklock

import (
	"context"
	"errors"
	"time"

	"oversell/internal/locks/turns"
)

// ErrNotHeld is what Unlock returns when there was nothing to give back: the
// session has ended, and the lock may be another's by now.
var ErrNotHeld = errors.New("zklock: not held")

// ErrLost is the cause, to be matched by errors.Is, of a lost hold's context. Lock
// returns it, wrapped, when the session was lost while waiting.
var ErrLost = errors.New("zklock: session lost")

// errLocked is what an attempt ends with that is not to wait.
var errLocked = errors.New("zklock: locked")

// answerTimeout limits what is not limited by its caller's context.
const answerTimeout = 5 * time.Second

// A Mutex is one holder's handle on the lock: every holder makes its own.
// It must not be used by several goroutines at once.
type Mutex struct {
	source *Source
	key    string
	hold   *hold
}

// New returns a handle on the lock that is called key. It does not take it. Any key
// will do: its name in ZooKeeper is /oversell/ and the key, with %XX for what may
// not stand in a name there.
func New(source *Source, key string) *Mutex {
	return &Mutex{source: source, key: key}
}

// Lock waits for the lock, first come, first served. It returns the cause of ctx
// if that ends first, and an error when ZooKeeper was away for so long that the
// place in the queue was lost. After an error there is nothing to give back.
func (m *Mutex) Lock(ctx context.Context) error {
	t, err := m.source.lines.Wait(ctx, m.key)
	if err != nil {
		return err
	}
	return m.enter(ctx, t, true)
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
	err := m.enter(ctx, t, false)
	if errors.Is(err, errLocked) {
		return false, nil
	}
	return err == nil, err
}

// enter takes the lock in ZooKeeper for one whose turn it is in this process. The
// client library's calls cannot be cancelled, and take as long as ZooKeeper is away;
// enter does not wait for them when ctx or the session has ended, but the turn stays
// where it is until all is put in order.
func (m *Mutex) enter(ctx context.Context, t *turns.Turn, wait bool) error {
	type outcome struct {
		hold *hold
		err  error
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	taken, gone := make(chan outcome), make(chan struct{})
	started := m.source.start(func() {
		h, err := m.source.attempt(ctx, cancel, t, wait)
		select {
		case taken <- outcome{h, err}:
		case <-gone:
			if h != nil {
				_ = h.giveBack(context.Background()) // it sees to it
			}
		}
	})
	if !started {
		t.Pass()
		return errClosed
	}
	select {
	case o := <-taken:
		m.hold = o.hold
		if o.err != nil && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return o.err
	case <-ctx.Done():
		close(gone)
		return context.Cause(ctx)
	}
}

// Unlock gives the lock back, even when ctx is cancelled already: a caller that
// gives up must not keep the others waiting. When ZooKeeper does not answer in time
// Unlock returns an error, and the lock is given back as soon as ZooKeeper does, or
// goes with the session.
func (m *Mutex) Unlock(ctx context.Context) error {
	h := m.hold
	if h == nil {
		return ErrNotHeld
	}
	m.hold = nil
	return h.giveBack(ctx)
}

// Context returns a copy of parent for the work under the lock. It ends when the
// session is lost, with ErrLost as its cause, or when the lock is given back. It also
// ends so when somebody else has deleted the node, but up to a third of the timeout
// later: the next holder may be in by then.
//
// It ends before ZooKeeper lets the next holder in: the session's timeout is counted
// from before the last question was sent that ZooKeeper answered, and ZooKeeper
// counts from when it got it; and of the timeout a tenth is not relied upon. That
// takes it that no clock is a tenth slower than the other, and that this process runs
// at all; see the package comment for ensembles.
func (m *Mutex) Context(parent context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(parent)
	h := m.hold
	switch {
	case h == nil:
		cancel(ErrNotHeld)
	case h.session.over():
		cancel(context.Cause(h.ctx))
	default:
		context.AfterFunc(h.ctx, func() { cancel(context.Cause(h.ctx)) })
	}
	return ctx
}

// Token returns the fencing number of the hold, 0 when there is none. It is the
// czxid of the holder's node, the number of the change that created it: ZooKeeper
// numbers all its changes, and a node has to wait for every one that was created
// before it, so that each holder's number is greater than those of all holders
// before.
//
// The number at the end of the node's name would not do. It counts the changes to
// the lock's name, and starts again at 0 when that was removed and made anew.
func (m *Mutex) Token() int64 {
	if m.hold == nil {
		return 0
	}
	return m.hold.token
}
