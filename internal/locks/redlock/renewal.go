package redlock

import (
	"context"
	"errors"
	"sync"
	"time"
)

// A renewal keeps one hold alive, from its TryLock to its Unlock. It uses two timers instead of a
// goroutine.
//
// It only extends existing keys. If a node no longer has the key, the renewal does not set it again: another
// caller may have held the lock in the meantime, and setting the key would hide that. So a long hold loses
// each node that forgets its key, and once a majority has forgotten it, the hold is lost.
type renewal struct {
	claim *claim

	mu      sync.Mutex
	next    *time.Timer // sends the next renewal
	lease   *time.Timer // declares the lock lost
	expires time.Time   // when lease fires, by this machine's clock
	renewed int         // number of renewals by a majority
	failed  error       // the reason why the last renewal got no majority, or nil
	cause   error       // the reason for its end; nil until then
	onEnd   []context.CancelCauseFunc
}

// drift returns the time that a node's clock may gain on this machine's clock during
// one ttl: 1 % of the ttl, plus 2 ms for the precision of key expiry.
func drift(ttl time.Duration) time.Duration { return ttl/100 + 2*time.Millisecond }

// validUntil returns the end of the validity of a lock that a majority granted for a request sent
// at the given time. The validity counts from before the request, so the key does not expire
// earlier on any of these nodes.
func validUntil(sent time.Time, ttl time.Duration) time.Time {
	return sent.Add(ttl - drift(ttl))
}

// keep starts the renewal of a claim that a majority granted for a request sent at the given time.
// It returns nil if the validity was over when the answer came.
func keep(c *claim, sent time.Time) *renewal {
	r := &renewal{claim: c, expires: validUntil(sent, c.ttl)}
	valid := time.Until(r.expires)
	if valid <= 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next = time.AfterFunc(time.Until(sent.Add(c.ttl/3)), r.renew)
	r.lease = time.AfterFunc(valid, r.expire)
	return r
}

// stop ends the renewal because the lock is released.
func (r *renewal) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.over() {
		r.end(context.Canceled)
	}
}

// end ends the renewal and cancels the holder's contexts. Only the first call has an effect. The
// caller must hold mu.
func (r *renewal) end(cause error) {
	if r.cause != nil {
		return
	}
	r.cause = cause
	r.next.Stop()
	r.lease.Stop()
	for _, cancel := range r.onEnd {
		cancel(cause)
	}
}

// renew asks the nodes for another ttl. A majority must agree. If too few answer, the lock is not
// lost yet: some validity is left, and the next attempt may succeed.
func (r *renewal) renew() {
	r.mu.Lock()
	over := r.over() // r may have ended while the timer fired
	r.mu.Unlock()
	if over {
		return
	}

	sent := time.Now()
	c := r.claim
	v := c.ask(context.Background(), NodeLimit(c.ttl), c.renew, votes.settled)

	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.cause != nil: // r ended during the request
		return
	case v.won():
		r.renewed++
		r.failed = nil
		r.expires = validUntil(sent, c.ttl)
		r.lease.Reset(time.Until(r.expires))
	case v.gone():
		r.end(ErrLost)
		return
	default:
		r.failed = v.noQuorum()
	}
	r.next.Reset(time.Until(sent.Add(c.ttl / 3)))
}

func (r *renewal) expire() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over()
}

// over reports whether r has ended, and ends it if the last granted validity is over. It reads the
// clock, because timers may be late. The caller must hold mu.
func (r *renewal) over() bool {
	if !time.Now().Before(r.expires) {
		r.end(errors.Join(ErrLost, r.failed))
	}
	return r.cause != nil
}

// valid returns the remaining validity, or 0 after its end.
func (r *renewal) valid() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over() {
		return 0
	}
	return time.Until(r.expires)
}
