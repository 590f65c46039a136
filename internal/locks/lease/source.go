// Package lease contains the code that the locks on etcd and ZooKeeper share. All goroutines of a
// process use one session with the server. The session is renewed, and timed by this machine's
// clock. The goroutines queue up in memory first, and one at a time takes a place in the server's
// queue. A kind of lock only needs to implement how a session is opened and renewed, and a place in
// the queue (see Kind and Place).
package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"oversell/internal/guard"
)

var (
	// ErrNotHeld is wrapped by the error of Unlock if there was nothing to release: the session has
	// ended, and another holder may have the lock.
	ErrNotHeld = errors.New("not held")

	// ErrClosed is wrapped by the errors of a source that is closed.
	ErrClosed = errors.New("the source is closed")

	// ErrReplaced is wrapped by an error, or by the cause of a session's end, if the server no
	// longer knows the session.
	ErrReplaced = errors.New("the server does not know the session")
)

// AnswerTimeout limits calls that the caller's context does not limit.
const AnswerTimeout = 5 * time.Second

// Kind describes a kind of lock.
type Kind struct {
	Name string // prefix of error texts
	Lost error  // wrapped by the cause of a lost session

	// Open opens a session, retrying until ctx ends, and keeps it alive (see Source.NewSession and Source.Go).
	Open func(ctx context.Context, s *Source) (*Session, error)
}

// A Source is shared by all holders in a process. It contains their session, and for each lock a
// queue of the waiters in this process. It is safe for concurrent use.
type Source struct {
	kind    Kind
	local   guard.KeyedMutex
	opening *semaphore.Weighted // only one goroutine opens a session at a time

	Ctx     context.Context // ends with Close
	end     context.CancelCauseFunc
	running sync.WaitGroup // requests and renewals

	mu      sync.Mutex // also orders Go and Close
	session *Session   // for new holds; nil before the first session
}

// NewSource returns a source of locks.
func NewSource(kind Kind) *Source {
	s := &Source{kind: kind, opening: semaphore.NewWeighted(1)}
	s.Ctx, s.end = context.WithCancelCause(context.Background())
	return s
}

// Go runs f in a goroutine and returns true, unless the source is closed.
func (s *Source) Go(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Ctx.Err() != nil {
		return false
	}
	s.running.Go(f)
	return true
}

// Close cancels the contexts of all holds with Kind.Lost as the cause. It also ends the session, if
// the server answers. Call it before the client's own Close. It may be called more than once.
func (s *Source) Close() error {
	s.mu.Lock()
	s.end(fmt.Errorf("%w: %w", s.kind.Lost, ErrClosed))
	s.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		s.running.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-time.After(AnswerTimeout):
		return s.errorf("the server does not answer; requests in flight end with the client")
	}
}

// use returns the session for new holds, and opens one if there is none. The caller must call its leave
// method.
func (s *Source) use(ctx context.Context) (*Session, error) {
	if n := s.current(); n != nil {
		return n, nil
	}
	ctx, cancel := context.WithTimeout(ctx, AnswerTimeout)
	defer cancel()
	if err := s.opening.Acquire(ctx, 1); err != nil {
		return nil, s.errorf("wait for a session: %w", err)
	}
	defer s.opening.Release(1)
	if n := s.current(); n != nil {
		return n, nil
	}
	// The caller's context is not used here, because an interrupted request might leave behind a
	// session that no process knows of. If this caller gives up, the next one can use the session.
	own, end := context.WithTimeout(s.Ctx, AnswerTimeout)
	defer end()
	n, err := s.kind.Open(own, s)
	if err != nil {
		return nil, s.errorf("open a session: %w", err)
	}
	n.enter()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.session = n
	return n, nil
}

// current returns the open session and counts a user of it. It returns nil if there is no open session.
func (s *Source) current() *Session {
	s.mu.Lock()
	n := s.session
	s.mu.Unlock()
	if n == nil || !n.enter() {
		return nil
	}
	return n
}

func (s *Source) notHeld() error { return s.errorf("%w", ErrNotHeld) }

func (s *Source) errorf(format string, args ...any) error {
	return fmt.Errorf(s.kind.Name+": "+format, args...)
}
