// Package lease has what the locks on etcd and ZooKeeper share: a session that is renewed
// and counted by this machine's clock, and the goroutines of a source of locks, which end
// with it.
package lease

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrNotHeld is wrapped by the errors of Unlock when there was nothing to release. Code that
// uses a lock without its client's library, such as a catalog, can match it.
var ErrNotHeld = errors.New("not held")

// Session is the time for which the server surely keeps the locks of this process. It is
// safe for concurrent use.
type Session struct {
	Ctx context.Context // ends with the session
	End context.CancelCauseFunc
	TTL time.Duration

	lost error
	next time.Time // when to renew it first

	mu      sync.Mutex
	expires time.Time   // by this machine's clock
	alarm   *time.Timer // declares the session lost
	failed  error       // the error of the last renewal, nil if it got an answer
}

// NewSession returns a session that the server has granted for the ttl, and that ends with
// parent at the latest. It is counted from when the request was sent. A tenth of the ttl
// is not used: it is a margin for telling the holder, and for a clock that is slower than
// the server's. The cause of a lost session wraps lost and the error of the last renewal.
func NewSession(parent context.Context, sent time.Time, ttl time.Duration, lost error) *Session {
	s := &Session{TTL: ttl, lost: lost, next: sent.Add(ttl / 3), expires: sent.Add(ttl - ttl/10)}
	s.Ctx, s.End = context.WithCancelCause(parent)
	s.alarm = time.AfterFunc(time.Until(s.expires), func() { s.Over() })
	return s
}

// Keep renews the session three times in a ttl, until it ends. If renew returns the error
// for a lost session, it ends the session. Another error is not yet a loss: there is time
// left, and the next attempt may succeed.
func (s *Session) Keep(renew func() error) {
	defer s.alarm.Stop()
	for wait := time.Until(s.next); Sleep(s.Ctx, wait) == nil; {
		sent := time.Now()
		err := renew()
		switch {
		case errors.Is(err, s.lost):
			s.End(err)
		case err != nil:
			s.note(err)
			wait = s.TTL / 10
		default:
			s.extend(sent.Add(s.TTL - s.TTL/10))
			wait = time.Until(sent.Add(s.TTL / 3))
		}
	}
}

func (s *Session) note(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = err
}

func (s *Session) extend(expires time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = nil
	if s.over() { // the answer came too late: the holder has been told of the loss
		return
	}
	s.expires = expires
	s.alarm.Reset(time.Until(expires))
}

// Over reports whether the session has ended, and ends it if its time has run out. It
// reads the clock, as timers may be late.
func (s *Session) Over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over()
}

// over is Over for callers that have locked mu.
func (s *Session) over() bool {
	if !time.Now().Before(s.expires) {
		s.End(errors.Join(s.lost, s.failed))
	}
	return s.Ctx.Err() != nil
}

// Context returns a copy of parent for the work under a lock. It ends with hold, the
// context of the hold, for the same cause, and is over already if the session is.
func (s *Session) Context(parent, hold context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(parent)
	if s.Over() {
		cancel(context.Cause(hold))
	} else {
		context.AfterFunc(hold, func() { cancel(context.Cause(hold)) })
	}
	return ctx
}

// Sleep waits for d, or returns the cause of ctx if that ends first.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// Rest returns the pause after a request that got no answer.
func Rest(ttl time.Duration) time.Duration { return min(ttl/20, 100*time.Millisecond) }
