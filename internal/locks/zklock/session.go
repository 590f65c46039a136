package zklock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// A session is the connection's session, or the part of it during which it is known to
// be alive by this machine's clock. After too long a gap a new one begins, even if
// ZooKeeper has not noticed the gap.
type session struct {
	source *Source
	id     int64
	ctx    context.Context
	end    context.CancelCauseFunc

	mu      sync.Mutex
	expires time.Time   // by this machine's clock
	lease   *time.Timer // declares the session lost
	failed  error       // the error of the last request, nil if it got an answer
}

// use returns the session for new holds, and begins one if there is none.
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

// open waits until ZooKeeper answers, and keeps track of the session from then on.
func (s *Source) open(ctx context.Context) (*session, error) {
	for {
		id := s.conn.SessionID()
		sent := time.Now()
		failed := make(chan error, 1)
		go func() { failed <- s.ask() }() // it ends with the connection at the latest
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

// sure returns how much of the timeout is used. The rest is a margin for telling the
// holder, and for a clock that is slower than ZooKeeper's.
func (s *Source) sure() time.Duration { return s.timeout - s.timeout/10 }

// rest is the pause after a request that got no answer.
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

// ask makes the server catch up with its leader. A server that is cut off from the
// others still answers simpler requests for a while, when the session ends there.
func (s *Source) ask() error {
	_, err := s.conn.Sync(root)
	return err
}

// keep asks ZooKeeper three times in a timeout, until the session ends. The client
// library keeps its session alive by itself, but does not say when the server last
// heard it. An error is not yet a loss: the session has time left, and the next answer
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
	if n.expired() { // the answer came too late: the holder has been told of the loss
		return
	}
	n.expires = expires
	n.lease.Reset(time.Until(expires))
}

// over reports whether the session has ended, and ends it if it has run out. It
// reads the clock, as timers may be late.
func (n *session) over() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.expired()
}

// expired is over for callers that have locked mu.
func (n *session) expired() bool {
	if !time.Now().Before(n.expires) {
		n.end(errors.Join(ErrLost, n.failed))
	}
	return n.ctx.Err() != nil
}

// lost returns the error for those who waited when the session ended.
func (n *session) lost() error {
	return fmt.Errorf("zklock: while waiting: %w", context.Cause(n.ctx))
}
