package zklock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"oversell/internal/locks/lease"
)

// A session is the connection's session, or the part of it during which it is known to
// be alive by this machine's clock. After too long a gap a new one begins, even if
// ZooKeeper has not noticed the gap.
type session struct {
	*lease.Session
	source *Source
	id     int64
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
	if current != nil && !current.Over() {
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
		case <-s.group.Ctx.Done():
			return nil, errClosed
		}
		if err == nil && id != 0 && id == s.conn.SessionID() {
			return s.begin(id, sent)
		}
		if cause := lease.Sleep(ctx, lease.Rest(s.timeout)); cause != nil {
			return nil, errors.Join(cause, err)
		}
	}
}

func (s *Source) begin(id int64, sent time.Time) (*session, error) {
	n := &session{lease.NewSession(s.group.Ctx, sent, s.timeout, ErrLost), s, id}
	if !s.group.Go(func() { n.Keep(n.renew) }) {
		n.End(errClosed)
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

// renew gets an answer from ZooKeeper. The client library keeps its session alive by
// itself, but does not say when the server last heard it.
func (n *session) renew() error {
	err := n.source.ask()
	if err == nil && n.source.conn.SessionID() != n.id { // the answer is another session's
		return ErrLost
	}
	return err
}

// lost returns the error for those who waited when the session ended.
func (n *session) lost() error {
	return fmt.Errorf("zklock: while waiting: %w", context.Cause(n.Ctx))
}
