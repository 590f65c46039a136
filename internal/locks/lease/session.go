package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"oversell/internal/guard"
)

// Session is a session with the server, which keeps the locks of this process as long as
// the session lasts. It is safe for concurrent use.
type Session struct {
	Ctx context.Context // ends with the session
	End context.CancelCauseFunc
	TTL time.Duration

	// Place returns a new place of this session for the queue of the lock named key. Place.Acquire
	// puts it into the queue.
	Place func(key string) Place

	source *Source

	mu      sync.Mutex
	sent    time.Time   // when the last request with an answer was sent
	alarm   *time.Timer // declares the session lost
	failed  error       // the error of the last renewal, or nil
	users   int         // attempts and holds
	retired bool        // the session ends once there are no users
}

// NewSession returns a session that the server has granted for the ttl. The ttl counts from the
// time sent, when the request was sent. The cause of a lost session wraps Kind.Lost and the error of
// the last renewal.
func (s *Source) NewSession(sent time.Time, ttl time.Duration) *Session {
	n := &Session{TTL: ttl, source: s, sent: sent}
	n.Ctx, n.End = context.WithCancelCause(s.Ctx)
	n.alarm = time.AfterFunc(time.Until(n.expires()), func() { n.Over() })
	return n
}

// expires returns when the session ends by this machine's clock. A tenth of the ttl is kept as a
// margin, because it takes time to notify the holder and this clock may be slower than the server's.
func (n *Session) expires() time.Time { return n.sent.Add(n.TTL - n.TTL/10) }

// Keep renews the session three times per ttl, until the session ends. If renew returns Kind.Lost,
// Keep ends the session. Any other error is not yet a loss: there is time left, and the next
// attempt may succeed.
func (n *Session) Keep(renew func() error) {
	defer n.alarm.Stop()
	for wait := time.Until(n.sent.Add(n.TTL / 3)); guard.Sleep(n.Ctx, wait) == nil; {
		sent := time.Now()
		err := renew()
		if errors.Is(err, n.source.kind.Lost) {
			n.End(err)
			return
		}
		n.renewed(sent, err)
		wait = time.Until(sent.Add(n.TTL / 3))
		if err != nil {
			wait = n.TTL / 10
		}
	}
}

// renewed records the outcome of a renewal that was sent at the given time.
func (n *Session) renewed(sent time.Time, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.failed = err
	if err != nil || n.over() { // if it is over, the answer came too late: the holders' contexts have ended
		return
	}
	n.sent = sent
	n.alarm.Reset(time.Until(n.expires()))
}

// Over reports whether the session has ended, and ends it if its time is over. It reads the
// clock, because timers may be late.
func (n *Session) Over() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.over()
}

// over is like Over, but the caller must hold mu.
func (n *Session) over() bool {
	if !time.Now().Before(n.expires()) {
		n.End(errors.Join(n.source.kind.Lost, n.failed))
	}
	return n.Ctx.Err() != nil
}

// enter counts a user, unless the session is over or retired.
func (n *Session) enter() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.retired || n.over() {
		return false
	}
	n.users++
	return true
}

// leave removes a user that enter counted.
func (n *Session) leave() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.users--
	n.endUnused()
}

// Retire prevents new users. The session ends once it has no users.
func (n *Session) Retire() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.retired = true
	n.endUnused()
}

var errUnused = errors.New("nobody uses the session")

func (n *Session) endUnused() {
	if n.retired && n.users == 0 {
		n.End(fmt.Errorf("%w: %w", n.source.kind.Lost, errUnused))
	}
}

// GivenUp reports whether this process has ended the session itself, rather than lost it.
func (n *Session) GivenUp() bool {
	cause := context.Cause(n.Ctx)
	return errors.Is(cause, errUnused) || errors.Is(cause, ErrClosed)
}

// lost returns the error for callers that were waiting when the session ended.
func (n *Session) lost() error {
	return n.source.errorf("while waiting: %w", context.Cause(n.Ctx))
}

// Rest pauses before an unanswered request is repeated. If ctx ends first, it returns the cause of ctx.
func Rest(ctx context.Context, ttl time.Duration) error {
	return guard.Sleep(ctx, min(ttl/20, 100*time.Millisecond))
}
