package lock

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed leave.lua
	leaveSource string
	leaveScript = redis.NewScript(leaveSource)
)

// leaving limits the number of waiters that try again to leave the queue at the same time.
var leaving = make(chan struct{}, 64)

// keys returns the keys of the lock, its queue, and its waiters' heartbeats.
func (m *Mutex) keys() []string { return []string{m.key, m.key + ":queue", m.key + ":waiters"} }

// wake returns the key of the list on which an owner waits to be woken.
func (m *Mutex) wake(owner string) string { return m.key + ":wake:" + owner }

// ask requests the lock once. If the lock is not free and wait is 1, the owner joins
// the queue. ask returns the owner's number of holds, or the milliseconds after which
// to ask again, as a negative number.
func (m *Mutex) ask(ctx context.Context, owner string, wait int) (int, error) {
	sent := time.Now()
	keys := append(m.keys(), tokenKey(m.key))
	grant, err := lockScript.Run(ctx, m.rdb, keys, owner, m.ttl.Milliseconds(), wait).Int64Slice()
	if err != nil {
		return 0, err
	}
	if n := int(grant[0]); n > 0 {
		m.renewal = enter(hold{m.rdb, m.key, owner}, m.ttl, sent, n)
		m.token = grant[1]
	}
	return int(grant[0]), nil
}

// Lock waits for the lock, first come, first served, and acquires it for the owner in
// ctx. An owner that already has the lock re-enters at once. If ctx ends first, Lock
// returns its cause, and there is nothing to release. After any other error the outcome
// is unknown, as with TryLock.
func (m *Mutex) Lock(ctx context.Context) error {
	owner, err := ownerFrom(ctx)
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	defer context.AfterFunc(ctx, func() { m.quit(owner) })()
	for {
		// A request in flight is not cancelled, because it may be granted the lock.
		n, err := m.ask(context.WithoutCancel(ctx), owner, 1)
		switch {
		case n > 0:
			return nil
		case err != nil || ctx.Err() != nil:
			go m.quit(owner) // quit again, now that no request is in flight
			return cmp.Or(err, context.Cause(ctx))
		}
		m.sleep(owner, time.Duration(1-n)*time.Millisecond)
	}
}

// sleep waits until the owner is woken, but for at most a third of ttl. After that it
// is time to renew the heartbeat, and to check whether a message was lost. It never
// sleeps for longer than left: by then the holder or the first waiter may have died
// without waking anybody. The message does not grant the lock: the owner asks again,
// and its lease counts from that request.
//
// A subscription would not wake the owner sooner, and a list keeps the message for a
// waiter whose connection broke.
func (m *Mutex) sleep(owner string, left time.Duration) {
	limit := min(m.ttl/3, time.Second, left) // the limit is below go-redis's read timeout
	_, err := receive(m.rdb, m.wake(owner), limit)
	if err != nil && err != redis.Nil {
		time.Sleep(limit / 10) // Redis is unavailable: the next request reports it
	}
}

// quit takes the owner out of the queue. If the owner has just been handed the lock,
// quit hands it on. If Redis fails, quit retries until the owner's heartbeat in Redis
// has expired. A late quit does no harm: it does not release a lock that the owner has
// since acquired.
func (m *Mutex) quit(owner string) {
	ctx, cancel := context.WithTimeout(context.Background(), m.ttl)
	defer cancel()
	if m.left(ctx, owner) {
		return
	}
	select {
	case leaving <- struct{}{}:
		defer func() { <-leaving }()
	default:
		return // so many attempts fail that Redis must be unavailable
	}
	for pause := m.ttl / 1000; ctx.Err() == nil; pause = min(2*pause, m.ttl/10) {
		time.Sleep(pause)
		if m.left(ctx, owner) {
			return
		}
	}
}

// left runs the script once, and reports whether quit can stop, because Redis has
// answered or the client is closed.
func (m *Mutex) left(ctx context.Context, owner string) bool {
	ctx, cancel := context.WithTimeout(ctx, unlockTimeout)
	defer cancel()
	err := leaveScript.Run(ctx, m.rdb, append(m.keys(), m.wake(owner)), owner, m.ttl.Milliseconds()).Err()
	return err == nil || errors.Is(err, redis.ErrClosed)
}
