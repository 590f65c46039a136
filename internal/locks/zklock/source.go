package zklock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
	"golang.org/x/sync/semaphore"

	"oversell/internal/guard/keymutex"
	"oversell/internal/locks/lease"
)

var errClosed = errors.New("zklock: the source is closed")

// A Source is what all holders of a process share: a connection with its session, and
// for each lock a queue of its waiters in this process. It is safe for concurrent use.
type Source struct {
	conn    *zk.Conn
	timeout time.Duration
	group   *lease.Group // its requests and renewals
	local   keymutex.Mutex
	opening *semaphore.Weighted // only one goroutine gets a session at a time

	mu      sync.Mutex
	session *session // for new holds; nil before the first
}

// NewSource returns a source of locks that expire when ZooKeeper has not heard from
// this process for the timeout. It must be the timeout that the server granted, not
// the one that was requested. The connection stays the caller's, and its session
// should have no other use.
func NewSource(conn *zk.Conn, timeout time.Duration) *Source {
	return &Source{
		conn: conn, timeout: timeout,
		group: lease.NewGroup(), opening: semaphore.NewWeighted(1),
	}
}

// Close tells all holders that their locks are lost. Locks that they do not release
// end with the connection, which should be closed next. Close may be called more than
// once.
func (s *Source) Close() error {
	if !s.group.Close(fmt.Errorf("%w: %w", ErrLost, errClosed), answerTimeout) {
		return errors.New("zklock: ZooKeeper does not answer; requests in flight end with the connection")
	}
	return nil
}

// A hold is a lock that is held.
type hold struct {
	turn    *keymutex.Hold
	session *session
	path    string // of its node
	token   int64
	ctx     context.Context // ends with the hold
	end     context.CancelCauseFunc
}

// attempt tries to acquire the lock until ctx ends. It cancels ctx when the session
// ends. After an error it has left nothing behind, and the turn is over.
//
// ZooKeeper may have ended the session, which this process notices only at its next
// request. A caller that has no place in the queue yet has lost nothing, and goes on
// with the new session.
func (s *Source) attempt(ctx context.Context, cancel context.CancelCauseFunc, t *keymutex.Hold, wait bool) (*hold, error) {
	for {
		session, err := s.use(ctx)
		if err != nil {
			t.Unlock()
			return nil, err
		}
		h, err := session.attempt(ctx, cancel, t, wait)
		if !errors.Is(err, errReplaced) {
			if err != nil {
				t.Unlock()
			}
			return h, err
		}
		session.End(err)
	}
}

// attempt is one attempt in this session. The turn goes on if it fails.
func (n *session) attempt(ctx context.Context, cancel context.CancelCauseFunc, t *keymutex.Hold, wait bool) (*hold, error) {
	defer context.AfterFunc(n.Ctx, func() { cancel(n.lost()) })()
	place := newNode(n.source, t.Key())
	token, err := place.queue(ctx, n.id, wait)
	switch {
	case err == nil && !n.Over():
		h := &hold{turn: t, session: n, path: place.path, token: token}
		h.ctx, h.end = context.WithCancelCause(n.Ctx)
		_ = n.source.group.Go(h.attend) // if the source is closed, the hold is over
		return h, nil
	case n.Over():
		err = n.lost()
	}
	place.remove()
	return nil, err
}

// errDeleted is the cause when somebody has deleted the holder's node.
var errDeleted = fmt.Errorf("%w: the node was deleted", ErrLost)

// attend checks three times in a timeout that the node still exists: if it is deleted,
// the next holder gets the lock although the session goes on.
func (h *hold) attend() {
	s := h.session.source
	for lease.Sleep(h.ctx, s.timeout/3) == nil {
		if there, _, err := s.conn.Exists(h.path); err == nil && !there { // errors are left to the session
			h.end(errDeleted)
			return
		}
	}
}

// giveBack ends the hold, first in ZooKeeper and then in this process.
func (h *hold) giveBack(ctx context.Context) error {
	h.end(context.Canceled)
	s := h.session.source
	removed := make(chan error, 1)
	if !s.group.Go(func() {
		removed <- s.delete(h.path)
		h.turn.Unlock()
	}) {
		h.turn.Unlock()
		return ErrNotHeld // it goes with the connection
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
	defer cancel()
	select {
	case err := <-removed:
		if h.session.Over() {
			return ErrNotHeld // or was not held for a while
		}
		return err
	case <-h.session.Ctx.Done():
		return ErrNotHeld
	case <-ctx.Done():
		return fmt.Errorf("zklock: unlock: %w", ctx.Err())
	}
}

// delete removes a node. It retries until that is done or the source is closed: a
// session that counts as lost here may live on in ZooKeeper, with all its nodes.
func (s *Source) delete(path string) error {
	first := true
	return s.retry(func() error {
		err := s.conn.Delete(path, -1)
		if errors.Is(err, zk.ErrNoNode) {
			err = nil
			if first { // otherwise an earlier attempt may have deleted it
				return errStop{ErrNotHeld}
			}
		}
		first = false
		return err
	})
}

// errStop ends retry with the error in it.
type errStop struct{ error }

// retry repeats ask until there is an answer, asking again is useless, or the source
// is closed.
func (s *Source) retry(ask func() error) error {
	for {
		err := ask()
		if err == nil {
			return nil
		}
		if stop, ok := errors.AsType[errStop](err); ok {
			return stop.error
		}
		if final(err) {
			return err
		}
		if err := lease.Sleep(s.group.Ctx, lease.Rest(s.timeout)); err != nil {
			return err
		}
	}
}
