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
// It only extends existing keys. If a node no longer has the key, the renewal does not set it
// again: another caller may have held the lock meanwhile, and setting the key would hide that. So a
// long hold loses each node that forgets, and once a majority has forgotten, the hold is lost.
type renewal struct {
	claim *claim

	mu      sync.Mutex
	next    *time.Timer // sends the next renewal
	lease   *time.Timer // declares the lock lost
	expires time.Time   // when lease fires, by this machine's clock
	renewed int         // how often a majority renewed it
	failed  error       // why the last renewal got no majority, or nil
	cause   error       // why it ended; nil: it has not
	onEnd   []context.CancelCauseFunc
}

// drift is how much faster the nodes' clocks may run than this machine's during
// one ttl: 1 %, and 2 ms more for the precision at which keys expire.
func drift(ttl time.Duration) time.Duration { return ttl/100 + 2*time.Millisecond }

// validUntil returns the end of the validity that a majority granted for a request sent at that
// time. It counts from before the request, so that no node expires sooner.
func validUntil(sent time.Time, ttl time.Duration) time.Time {
	return sent.Add(ttl - drift(ttl))
}

// keep starts the renewal of a claim that a majority granted for a request sent at that time. It
// returns nil if the validity was over when the answer came.
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

// end cancels the holder's contexts; the first cause counts. mu must be locked.
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

// renew asks the nodes for another ttl. A majority must agree. Too few answers are not yet a loss:
// some validity is left, and the next attempt may get enough.
func (r *renewal) renew() {
	r.mu.Lock()
	over := r.over() // it may have ended while the timer fired
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
	case r.cause != nil: // it ended meanwhile
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

// over reports whether r has ended, and ends it if the last granted validity has run out. It reads
// the clock, because timers may be late. mu must be locked.
func (r *renewal) over() bool {
	if !time.Now().Before(r.expires) {
		r.end(errors.Join(ErrLost, r.failed))
	}
	return r.cause != nil
}

// valid returns the rest of the validity, 0 after the end.
func (r *renewal) valid() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over() {
		return 0
	}
	return time.Until(r.expires)
}
