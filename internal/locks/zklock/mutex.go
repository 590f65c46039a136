// Package zklock is a lock on ZooKeeper: a queue of ephemeral, sequential nodes.
//
// How it works: each contender puts a numbered node under the lock's name. The node
// with the lowest number holds the lock; every other contender watches the node just
// before its own, so a release wakes one waiter and not the herd. When a session ends,
// ZooKeeper removes its nodes. This is the recipe of ZooKeeper's own documentation.
//
// New: all goroutines of a process share one session, queue up in memory first, and
// one at a time goes to ZooKeeper (source.go). The session is tracked by this
// machine's clock, from before each request that was answered, so a holder is told of
// a loss before ZooKeeper acts on it (package lease): the client library reports it only
// when it has reached a server again, which may be much later.
//
// Holds:
//   - one holder at a time, in a process and among processes: TestPromises
//   - first come, first served, in a process, and among processes by the order in
//     which ZooKeeper got their nodes: TestPromises
//   - a release wakes one waiter: TestOnlyTheNextIsWoken
//   - a waiter that gives up leaves nothing behind: TestPromises
//   - a node whose creation was not confirmed is found again: TestLostReply
//   - a cancelled caller still releases the lock: TestPromises
//   - a dead holder's lock is free after the session's timeout:
//     TestDeadHolderExpires
//   - a late holder leaves the next holder's lock alone: TestLossIsToldFirst
//   - a holder is told of a loss before the next one has the lock: TestLossIsToldFirst
//   - a transient failure of ZooKeeper does no harm: TestPromises
//   - each holder's token is greater than the one before, even when the lock's
//     name was removed in between: TestPromises, TestTokenOutlivesTheName
//   - the names of locks that nobody uses are removed: TestTokenOutlivesTheName
//   - no call hangs while ZooKeeper is unavailable: TestPromises
//
// Breaks:
//   - a process keeps for ever a lock that nobody unlocks
//   - if somebody else deletes a node, its holder learns it up to a third of the
//     timeout later: TestForeignDeleteIsToldLate
//   - if ZooKeeper ends the session, a holder learns it just as late; a caller without a
//     place in the queue goes on with a new session: TestEndedSessionIsReplaced
//   - in an ensemble, a server reports an answer to the leader only at its next tick,
//     at most half a tick later: if it dies in between, the leader counts from the
//     previous answer, and may end the session that much earlier
//   - a process paused for longer than the timeout learns of the loss only when it
//     resumes, maybe one write too late: only a resource that checks the token can
//     refuse it
package zklock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"oversell/internal/guard/keymutex"
	"oversell/internal/locks/lease"
)

// ErrNotHeld is what Unlock returns when there was nothing to release: the
// session has ended, and the lock may be another's by now.
var ErrNotHeld = fmt.Errorf("zklock: %w", lease.ErrNotHeld)

// ErrLost is the cause of a lost hold's context. Match it with errors.Is. Lock
// returns it, wrapped, when the session was lost while waiting.
var ErrLost = errors.New("zklock: session lost")

// errLocked ends an attempt that does not wait for a held lock.
var errLocked = errors.New("zklock: locked")

// answerTimeout limits calls that their caller's context does not limit.
const answerTimeout = 5 * time.Second

// A Mutex is one holder's handle on the lock: every holder makes its own.
// It must not be used by several goroutines at once.
type Mutex struct {
	source *Source
	key    string
	hold   *hold
}

// New returns a handle on the lock named key. It does not acquire it. Any
// key will do: its name in ZooKeeper is /oversell/ and the key, with %XX for bytes
// that are not allowed in a name.
func New(source *Source, key string) *Mutex {
	return &Mutex{source: source, key: key}
}

// Lock waits for the lock, first come, first served. It returns the cause of ctx
// if that ends first, and an error if the place in the queue was lost: ZooKeeper was
// unavailable for too long, ended the session, or somebody deleted the node. After an
// error there is nothing to release.
func (m *Mutex) Lock(ctx context.Context) error {
	t, err := m.source.local.Lock(ctx, m.key)
	if err != nil {
		return err
	}
	return m.enter(ctx, t, true)
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
	err := m.enter(ctx, t, false)
	if errors.Is(err, errLocked) {
		return false, nil
	}
	return err == nil, err
}

// enter acquires the lock in ZooKeeper for the caller whose turn it is in this process.
// The client library's calls cannot be cancelled, and last as long as ZooKeeper is
// unavailable; enter does not wait for them when ctx or the session has ended, but the
// turn ends only after the clean-up.
func (m *Mutex) enter(ctx context.Context, t *keymutex.Hold, wait bool) error {
	type outcome struct {
		hold *hold
		err  error
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	attempted, gone := make(chan outcome), make(chan struct{})
	started := m.source.group.Go(func() {
		h, err := m.source.attempt(ctx, cancel, t, wait)
		select {
		case attempted <- outcome{h, err}:
		case <-gone:
			if h != nil {
				_ = h.giveBack(context.Background()) // it retries until that is done
			}
		}
	})
	if !started {
		t.Unlock()
		return errClosed
	}
	select {
	case o := <-attempted:
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

// Unlock releases the lock, even if ctx is already cancelled: a caller that
// gives up must not keep the others waiting. When ZooKeeper does not answer in time
// Unlock returns an error, and the lock is released as soon as ZooKeeper does, or
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
// session is lost, with ErrLost as its cause, or when the lock is released. It also
// ends with ErrLost after somebody else has deleted the node, but up to a third of the
// timeout later: the next holder may have the lock by then.
//
// It ends before ZooKeeper lets the next holder in: the session's timeout is counted
// from before the last answered request was sent, while ZooKeeper counts from when it
// received it, and the last tenth of the timeout is not used. This assumes that neither
// clock is a tenth slower than the other, and that this process runs; see the package
// comment for ensembles.
func (m *Mutex) Context(parent context.Context) context.Context {
	if h := m.hold; h != nil {
		return h.session.Context(parent, h.ctx)
	}
	ctx, cancel := context.WithCancelCause(parent)
	cancel(ErrNotHeld)
	return ctx
}

// Token returns the fencing token of the hold, or 0 if there is none. It is the czxid
// of the holder's node, the number of the change that created it: ZooKeeper numbers
// all its changes, and a node waits for every node created before it, so each holder's
// token is greater than all earlier ones.
//
// The number at the end of the node's name would not do. It counts the changes to
// the lock's name, and starts again at 0 when that was removed and created again.
func (m *Mutex) Token() int64 {
	if m.hold == nil {
		return 0
	}
	return m.hold.token
}
