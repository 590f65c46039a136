package lock

import (
	"context"
	_ "embed"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed renew.lua
	renewSource string
	renewScript = redis.NewScript(renewSource)
)

// A hold is this process's possession of the lock, from the grant by Redis to the
// release in Redis, through the turns of all its holders. It renews the lock during
// this time, with two timers instead of a goroutine.
type hold struct {
	location
	cohort   *cohort
	ticket   string
	ttl      time.Duration // the ttl that is sent to Redis
	since    time.Time
	first    int64          // token of the first holder
	passes   int            // number of times that the lock was handed on in this process
	next     *time.Timer    // sends the next renewal
	lease    *time.Timer    // declares the lock lost
	expires  time.Time      // when lease fires, by this machine's clock
	failed   error          // the error of the last renewal; nil if Redis answered
	cause    error          // the reason for its end; nil until then
	inFlight sync.WaitGroup // counts the renewal in flight
}

// newHold starts a hold. The request that Redis granted was sent at the time sent. The
// caller must hold mu.
func newHold(c *cohort, ticket string, token int64, ttl time.Duration, sent time.Time) *hold {
	h := &hold{location: c.location, cohort: c, ticket: ticket, first: token, ttl: ttl, since: time.Now(),
		expires: sent.Add(ttl)}
	h.next = time.AfterFunc(time.Until(sent.Add(ttl/3)), h.renew)
	h.lease = time.AfterFunc(time.Until(h.expires), h.expire)
	return h
}

// end ends the renewal. If the cohort still has the hold, the lock is lost: the
// holder's contexts are cancelled with the cause, and the other owners continue, even
// if the holder hangs. The caller must hold mu.
func (h *hold) end(cause error) {
	if h.cause != nil {
		return
	}
	h.cause = cause
	h.next.Stop()
	h.lease.Stop()
	if c := h.cohort; c.hold == h {
		if c.holder != nil {
			c.holder.end(cause)
		}
		c.hold, c.holder = nil, nil
		c.step()
	}
}

// renew asks Redis for another ttl. An error is not yet a loss: time is left on the
// lease, and the next attempt may succeed.
func (h *hold) renew() {
	mu.Lock()
	if h.over() { // it ended while the timer fired
		mu.Unlock()
		return
	}
	h.inFlight.Add(1)
	mu.Unlock()
	defer h.inFlight.Done()

	sent := time.Now()
	ctx, cancel := context.WithDeadline(context.Background(), sent.Add(h.ttl/4))
	defer cancel()
	n, err := renewScript.Run(ctx, h.rdb, []string{h.key, h.keys()[3]}, h.ticket, h.ttl.Milliseconds()).Int()

	mu.Lock()
	defer mu.Unlock()
	h.failed = err
	switch {
	case h.cause != nil: // it ended during the request
		return
	case err == nil && n == 0:
		h.end(ErrLost)
		return
	case err == nil:
		h.cohort.holder.renewed++
		h.expires = sent.Add(h.ttl)
		h.lease.Reset(time.Until(h.expires))
	}
	h.next.Reset(time.Until(sent.Add(h.ttl / 3)))
}

func (h *hold) expire() {
	mu.Lock()
	defer mu.Unlock()
	h.over()
}

// over reports whether h has ended, and ends it if the last ttl that Redis granted is
// over. It reads the clock, because timers may be late. The ttl counts from before the
// request, so it never ends after the lease in Redis. The caller must hold mu.
func (h *hold) over() bool {
	if !time.Now().Before(h.expires) {
		h.end(errors.Join(ErrLost, h.failed))
	}
	return h.cause != nil
}
