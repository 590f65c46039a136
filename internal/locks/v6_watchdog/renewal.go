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

// A hold identifies a lock that is renewed: one owner's lock at one key, even if it was
// entered through several Mutexes. It includes the owner, because the timer that renews
// the lock has no context from which to read it.
type hold struct {
	rdb   redis.Cmdable
	key   string
	owner string
}

// A renewal keeps one hold alive, from its outermost TryLock to its last Unlock. It
// uses two timers instead of a goroutine, so it costs little if the work is short.
type renewal struct {
	hold
	ttl      time.Duration
	depth    int         // number of calls of TryLock without a matching Unlock so far
	next     *time.Timer // sends the next renewal
	lease    *time.Timer // declares the lock lost
	expires  time.Time   // when lease fires, by this machine's clock
	renewed  int         // number of renewals that Redis confirmed
	failed   error       // the error of the last renewal; nil if Redis answered
	cause    error       // the reason for its end; nil until then
	onEnd    []context.CancelCauseFunc
	inFlight sync.WaitGroup // counts the renewal in flight
}

var (
	mu    sync.Mutex            // guards holds and every renewal
	holds = map[hold]*renewal{} // until the last Unlock, even if lost
)

// enter counts a TryLock that was sent at the given time and gave the owner its nth
// hold. The outermost TryLock starts a renewal.
//
// Depth is counted here because the count in Redis may be too high: there, a call
// repeated after a lost reply counts twice. The caller's last Unlock would leave that
// count above zero, and the renewal would never stop.
func enter(h hold, ttl time.Duration, sent time.Time, n int) *renewal {
	mu.Lock()
	defer mu.Unlock()
	r := holds[h]
	if r != nil && n == 1 {
		r.end(ErrLost) // Redis no longer has the outer hold
	}
	if r == nil || r.over() {
		r = &renewal{hold: h, ttl: ttl, expires: sent.Add(ttl)}
		r.next = time.AfterFunc(ttl/3, r.renew)
		r.lease = time.AfterFunc(time.Until(r.expires), r.expire)
		holds[h] = r
	}
	r.depth++
	return r
}

// leave counts an Unlock. For the last Unlock, it ends the renewal and returns it, so
// that the caller can wait for a request in flight; otherwise it returns nil.
func leave(h hold) *renewal {
	mu.Lock()
	defer mu.Unlock()
	r := holds[h]
	if r == nil {
		return nil
	}
	if r.depth--; r.depth > 0 {
		return nil
	}
	delete(holds, h)
	r.end(context.Canceled)
	return r
}

// end ends the renewal and cancels the holder's contexts. Only the first call has an
// effect. The caller must hold mu.
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

// renew asks Redis for another ttl. An error is not yet a loss: time is left on the
// lease, and the next attempt may succeed.
func (r *renewal) renew() {
	mu.Lock()
	if r.over() { // it ended while the timer fired
		mu.Unlock()
		return
	}
	r.inFlight.Add(1)
	mu.Unlock()
	defer r.inFlight.Done()

	sent := time.Now()
	ctx, cancel := context.WithDeadline(context.Background(), sent.Add(r.ttl/4))
	defer cancel()
	n, err := renewScript.Run(ctx, r.rdb, []string{r.key}, r.owner, r.ttl.Milliseconds()).Int()

	mu.Lock()
	defer mu.Unlock()
	r.failed = err
	switch {
	case r.cause != nil: // it ended during the request
		return
	case err == nil && n == 0:
		r.end(ErrLost)
		return
	case err == nil:
		r.renewed++
		r.expires = sent.Add(r.ttl)
		r.lease.Reset(time.Until(r.expires))
	}
	r.next.Reset(time.Until(sent.Add(r.ttl / 3)))
}

func (r *renewal) expire() {
	mu.Lock()
	defer mu.Unlock()
	r.over()
}

// over reports whether r has ended, and ends it if the last ttl that Redis granted is
// over. It reads the clock, because timers may be late. The ttl counts from before the
// request, so it never ends after the lease in Redis. The caller must hold mu.
func (r *renewal) over() bool {
	if !time.Now().Before(r.expires) {
		r.end(errors.Join(ErrLost, r.failed))
	}
	return r.cause != nil
}
