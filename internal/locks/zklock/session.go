package zklock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// A session is the connection's session, or a part of it: that for which it is
// known to live by this machine's clock. After a gap that was too long for that a
// new one begins, even when ZooKeeper has not noticed.
type session struct {
	source *Source
	id     int64
	ctx    context.Context
	end    context.CancelCauseFunc

	mu      sync.Mutex
	expires time.Time   // by this machine's clock
	lease   *time.Timer // gives the session up for lost
	failed  error       // why the last question got no answer, nil if it did
}

// use returns the session that holds hang on, and begins one if there is none.
func (s *Source) use(ctx context.Context) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	if err := s.opening.Acquire(ctx, 1); err != nil {
		return nil, fmt.Errorf("zklock: wait for a session: %w", err)
	}
	defer s.opening.Release(1)

	s.mu.Lock()
	current := s.session
	s.mu.Unlock()
	if current != nil && !current.over() {
		return current, nil
	}
	fresh, err := s.open(ctx)
	if err != nil {
		return nil, fmt.Errorf("zklock: wait for a session: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.session = fresh
	return fresh, nil
}

// open waits until ZooKeeper answers, and watches over the session from then on.
func (s *Source) open(ctx context.Context) (*session, error) {
	for {
		id := s.conn.SessionID()
		sent := time.Now()
		failed := make(chan error, 1)
		go func() { failed <- s.ask() }() // it ends with the connection, at the latest
		var err error
		select {
		case err = <-failed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-s.ctx.Done():
			return nil, errClosed
		}
		if err == nil && id != 0 && id == s.conn.SessionID() {
			return s.begin(id, sent)
		}
		if cause := pause(ctx, s.rest()); cause != nil {
			return nil, errors.Join(cause, err)
		}
	}
}

// sure is for how long the session is relied upon. The rest is for what it takes to
// tell the holder, and for a clock that is slower than ZooKeeper's.
func (s *Source) sure() time.Duration { return s.timeout - s.timeout/10 }

// rest is the time between a question that got no answer and the next.
func (s *Source) rest() time.Duration { return min(s.timeout/20, 100*time.Millisecond) }

func (s *Source) begin(id int64, sent time.Time) (*session, error) {
	n := &session{source: s, id: id, expires: sent.Add(s.sure())}
	n.ctx, n.end = context.WithCancelCause(s.ctx)
	n.lease = time.AfterFunc(time.Until(n.expires), func() { n.over() })
	if !s.start(n.keep) {
		n.end(errClosed)
		return nil, errClosed
	}
	return n, nil
}

// ask has the server catch up with its leader. A server that is cut off from the
// rest answers simpler questions for a while by itself, as the session ends there.
func (s *Source) ask() error {
	_, err := s.conn.Sync(root)
	return err
}

// keep asks ZooKeeper three times in a timeout, until the session ends. The client
// library keeps its session alive by itself, but does not tell when it was last
// heard. An error is not yet a loss: the session has time left, and the next answer
// may come in time.
func (n *session) keep() {
	defer n.lease.Stop()
	s := n.source
	wait := s.timeout / 3
	for pause(n.ctx, wait) == nil {
		sent := time.Now()
		err := s.ask()
		switch {
		case err != nil:
			n.note(err)
			wait = s.timeout / 10
		case s.conn.SessionID() != n.id: // the answer is another session's
			n.end(ErrLost)
		default:
			n.extend(sent.Add(s.sure()))
			wait = time.Until(sent.Add(s.timeout / 3))
		}
	}
}

func (n *session) note(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.failed = err
}

func (n *session) extend(expires time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.failed = nil
	if n.expired() { // the answer came too late: who was told stays told
		return
	}
	n.expires = expires
	n.lease.Reset(time.Until(expires))
}

// over reports whether the session has ended, and ends it if it has run out. It
// reads the clock, for timers may be late.
func (n *session) over() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.expired()
}

// expired does it for those who have locked mu.
func (n *session) expired() bool {
	if !time.Now().Before(n.expires) {
		n.end(errors.Join(ErrLost, n.failed))
	}
	return n.ctx.Err() != nil
}

// lost is what a session that has ended says to those who waited with it.
func (n *session) lost() error {
	return fmt.Errorf("zklock: while waiting: %w", context.Cause(n.ctx))
}
