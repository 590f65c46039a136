package nativelock

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// A renewal keeps one hold alive, from its TryLock to its Unlock. It waits in two timers,
// not in a goroutine, so it costs short work very little.
type renewal struct {
	rdb   redis.Cmdable
	key   string
	token string
	ttl   time.Duration

	mu       sync.Mutex  // guards what follows
	next     *time.Timer // sends the next renewal
	lease    *time.Timer // declares the lock lost
	expires  time.Time   // when lease fires, by this machine's clock
	renewed  int         // how often Redis renewed it
	failed   error       // the error of the last renewal, nil if Redis answered
	cause    error       // why it ended, nil until then
	onEnd    []context.CancelCauseFunc
	inFlight sync.WaitGroup // the renewal in flight, if any
}

// renew begins to renew a lock that was asked for at the time sent.
func renew(rdb redis.Cmdable, key, token string, ttl time.Duration, sent time.Time) *renewal {
	r := &renewal{rdb: rdb, key: key, token: token, ttl: ttl, expires: sent.Add(ttl)}
	r.mu.Lock() // a timer may fire at once
	defer r.mu.Unlock()
	r.next = time.AfterFunc(ttl/3, r.ask)
	r.lease = time.AfterFunc(time.Until(r.expires), r.expire)
	return r
}

// ask asks Redis for another ttl. An error is not yet a loss: the lease has time left, and
// the next attempt may succeed.
func (r *renewal) ask() {
	r.mu.Lock()
	if r.over() { // ended while the timer fired
		r.mu.Unlock()
		return
	}
	r.inFlight.Add(1)
	r.mu.Unlock()
	defer r.inFlight.Done()

	sent := time.Now()
	ctx, cancel := context.WithDeadline(context.Background(), sent.Add(r.ttl/4))
	defer cancel()
	err := r.rdb.SetIFEQ(ctx, r.key, r.token, r.token, r.ttl).Err()

	r.mu.Lock()
	defer r.mu.Unlock()
	notMine := errors.Is(err, redis.Nil)
	if notMine {
		err = nil
	}
	r.failed = err
	switch {
	case r.cause != nil: // ended meanwhile
		return
	case notMine:
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
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over()
}

// over reports whether r has ended, and ends it if the last ttl that Redis granted has
// run out. It reads the clock, as timers may be late, and counts from before the request,
// so as not to outlast the lease in Redis. mu must be locked.
func (r *renewal) over() bool {
	if !time.Now().Before(r.expires) {
		r.end(errors.Join(ErrLost, r.failed))
	}
	return r.cause != nil
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

func (r *renewal) stop(cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end(cause)
}

// tell calls cancel when the hold ends, or at once if it has ended.
func (r *renewal) tell(cancel context.CancelCauseFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over() {
		cancel(r.cause)
		return
	}
	r.onEnd = append(r.onEnd, cancel)
}

func (r *renewal) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.renewed
}
