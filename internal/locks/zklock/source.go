package zklock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
	"golang.org/x/sync/semaphore"

	"oversell/internal/locks/turns"
)

var errClosed = errors.New("zklock: the source is closed")

// A Source is what all holders of a process share: a connection with its session,
// and for each lock the line of those who want it. It is safe for concurrent use.
type Source struct {
	conn    *zk.Conn
	timeout time.Duration
	ctx     context.Context // ends with Close
	end     context.CancelCauseFunc
	lines   turns.Lines
	opening *semaphore.Weighted // one asks for a session at a time

	mu      sync.Mutex // guards what follows
	session *session   // new holds hang on it; nil before the first
	closed  bool
	running sync.WaitGroup
}

// NewSource returns a source of locks that go when ZooKeeper has not heard from
// this process for the timeout. It has to be the one that the server granted, not
// the one that it was asked for. The connection stays the caller's, and its session
// should have no other use.
func NewSource(conn *zk.Conn, timeout time.Duration) *Source {
	ctx, end := context.WithCancelCause(context.Background())
	return &Source{
		conn: conn, timeout: timeout, ctx: ctx, end: end,
		opening: semaphore.NewWeighted(1),
	}
}

// Close tells all holders that their locks are lost. Those that they do not give
// back go with the connection, which is to be closed next. Close may be called more
// than once.
func (s *Source) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.end(fmt.Errorf("%w: %w", ErrLost, errClosed))
	ended := make(chan struct{})
	go func() {
		s.running.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-time.After(answerTimeout):
		return errors.New("zklock: ZooKeeper does not answer; what is under way ends with the connection")
	}
}

// start runs f, for which Close will wait.
func (s *Source) start(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.running.Go(f)
	return true
}

// A hold is a lock that is had.
type hold struct {
	turn    *turns.Turn
	session *session
	path    string // of its node
	token   int64
	ctx     context.Context // ends with the hold
	end     context.CancelCauseFunc
}

// attempt tries to take the lock until ctx ends. It cancels ctx when the session
// ends. After an error nothing is left of it, and the turn has been passed on.
func (s *Source) attempt(ctx context.Context, cancel context.CancelCauseFunc, t *turns.Turn, wait bool) (*hold, error) {
	session, err := s.use(ctx)
	if err != nil {
		t.Pass()
		return nil, err
	}
	defer context.AfterFunc(session.ctx, func() { cancel(session.lost()) })()

	n := newNode(s, t.Key())
	token, err := n.queue(ctx, session.id, wait)
	switch {
	case err == nil && !session.over():
		h := &hold{turn: t, session: session, path: n.path, token: token}
		h.ctx, h.end = context.WithCancelCause(session.ctx)
		_ = s.start(h.attend) // or the source is closed, and the hold over
		return h, nil
	case session.over():
		err = session.lost()
	}
	n.remove()
	t.Pass()
	return nil, err
}

// errDeleted is the cause of a hold's end whose node somebody has deleted.
var errDeleted = fmt.Errorf("%w: the node was deleted", ErrLost)

// attend looks three times in a timeout whether the node is still there: without it
// the next one comes in, and the session lives on.
func (h *hold) attend() {
	s := h.session.source
	for pause(h.ctx, s.timeout/3) == nil {
		if there, _, err := s.conn.Exists(h.path); err == nil && !there { // an error is for the session to judge
			h.end(errDeleted)
			return
		}
	}
}

// giveBack ends the hold in ZooKeeper and then in this process.
func (h *hold) giveBack(ctx context.Context) error {
	h.end(context.Canceled)
	s := h.session.source
	removed := make(chan error, 1)
	if !s.start(func() {
		removed <- s.delete(h.path)
		h.turn.Pass()
	}) {
		h.turn.Pass()
		return ErrNotHeld // it goes with the connection
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
	defer cancel()
	select {
	case err := <-removed:
		if h.session.over() {
			return ErrNotHeld // or was not for a while
		}
		return err
	case <-h.session.ctx.Done():
		return ErrNotHeld
	case <-ctx.Done():
		return fmt.Errorf("zklock: unlock: %w", ctx.Err())
	}
}

// delete removes a node. It goes on until that is done or the source is closed: a
// session may live on, with all its nodes, after it was given up for lost here.
func (s *Source) delete(path string) error {
	first := true
	return s.insist(func() error {
		err := s.conn.Delete(path, -1)
		if errors.Is(err, zk.ErrNoNode) {
			err = nil
			if first { // later it may have been an earlier try
				return errStop{ErrNotHeld}
			}
		}
		first = false
		return err
	})
}

// errStop ends insist with the error in it.
type errStop struct{ error }

// insist asks until there is an answer, it is of no use to ask again, or the source
// is closed.
func (s *Source) insist(ask func() error) error {
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
		if err := pause(s.ctx, s.rest()); err != nil {
			return err
		}
	}
}

// pause waits for d, or returns the cause of ctx if that ends first.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
