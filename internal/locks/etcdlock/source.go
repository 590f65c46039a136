package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/semaphore"

	"oversell/internal/guard/keymutex"
	"oversell/internal/locks/lease"
)

var (
	errClosed = errors.New("etcdlock: the source is closed")
	errUnused = errors.New("nobody uses the lease")
)

// A Source is what all holders of a process share: a client, a lease, and for each
// lock a queue of its waiters in this process. It is safe for concurrent use.
type Source struct {
	client  *clientv3.Client
	ttl     time.Duration
	group   *lease.Group // its requests and renewals
	local   keymutex.Mutex
	opening *semaphore.Weighted // only one goroutine gets a lease at a time

	mu      sync.Mutex
	session *session // for new holds; nil before the first
}

// NewSource returns a source of locks that expire ttl after their process stops
// renewing them. etcd counts in seconds and has a minimum ttl, usually one or two
// seconds: the ttl is rounded up. The client stays the caller's.
func NewSource(client *clientv3.Client, ttl time.Duration) *Source {
	return &Source{
		client: client, ttl: ttl,
		group: lease.NewGroup(), opening: semaphore.NewWeighted(1),
	}
}

// Close revokes the lease, which releases whatever is still held. Call it before the
// client's own Close. It may be called more than once.
func (s *Source) Close() error {
	if !s.group.Close(fmt.Errorf("%w: %w", ErrLost, errClosed), answerTimeout) {
		return errors.New("etcdlock: etcd does not answer; requests in flight end with the client")
	}
	return nil
}

// use returns the session for new holds, and opens one if there is none. The caller
// must leave it.
func (s *Source) use(ctx context.Context) (*session, error) {
	if n := s.current(); n != nil {
		return n, nil
	}
	limited, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	type outcome struct {
		session *session
		err     error
	}
	opened := make(chan outcome)
	if !s.group.Go(func() {
		n, err := s.open(limited)
		select {
		case opened <- outcome{n, err}:
		case <-limited.Done():
			if err == nil {
				n.leave()
			}
		}
	}) {
		return nil, errClosed
	}
	var o outcome
	select {
	case o = <-opened:
	case <-limited.Done():
		o.err = limited.Err()
	}
	switch {
	case o.err == nil:
		return o.session, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return nil, fmt.Errorf("etcdlock: ask for a lease: %w", o.err)
}

// open opens a session for use. A cancelled request might leave behind a lease that
// nobody knows of, so it goes on after ctx has ended; the next caller can use it.
func (s *Source) open(ctx context.Context) (*session, error) {
	if err := s.opening.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer s.opening.Release(1)
	if n := s.current(); n != nil {
		return n, nil
	}
	n, err := s.newSession()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.session = n
	s.mu.Unlock()
	return n, nil
}

// current returns the open session, counting a user, or nil.
func (s *Source) current() *session {
	s.mu.Lock()
	n := s.session
	s.mu.Unlock()
	if n == nil || !n.enter() {
		return nil
	}
	return n
}
