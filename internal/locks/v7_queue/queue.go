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

// leaving bounds the waiters that try again and again to leave the queue.
var leaving = make(chan struct{}, 64)

// keys are the lock, its queue, and the signs of life of those in it.
func (m *Mutex) keys() []string { return []string{m.key, m.key + ":queue", m.key + ":waiters"} }

// ask asks for the lock once, and has the owner queue up for it if wait is 1. It returns
// the owner's holds, or minus the milliseconds until it may be worth asking again.
func (m *Mutex) ask(ctx context.Context, owner string, wait int) (int, error) {
	sent := time.Now()
	n, err := lockScript.Run(ctx, m.rdb, m.keys(), owner, m.ttl.Milliseconds(), wait).Int()
	if n > 0 {
		m.renewal = enter(hold{m.rdb, m.key, owner}, m.ttl, sent, n)
	}
	return n, err
}

// Lock waits for the lock, first come, first served, and takes it for the owner in
// ctx; an owner that has it enters once more at once. Lock returns the cause of ctx if
// that ends first, and there is nothing to give back then. After another error nothing
// is known, as with TryLock.
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
		// A request that is on its way is not cut off: it may be granted the lock.
		n, err := m.ask(context.WithoutCancel(ctx), owner, 1)
		switch {
		case n > 0:
			return nil
		case err != nil || ctx.Err() != nil:
			go m.quit(owner) // again, now that no request is on its way
			return cmp.Or(err, context.Cause(ctx))
		}
		m.sleep(owner, time.Duration(1-n)*time.Millisecond)
	}
}

// sleep waits until the owner is woken, a third of ttl at most: then it is time for a
// sign of life, and for a look whether a message was lost. Where what keeps the owner
// waiting may be over before that, it is time then: nobody wakes it when a holder or a
// waiter has died. What wakes it grants nothing: the owner asks again, and the lease
// counts from that.
//
// A subscription would wake it no sooner (BenchmarkWakeUp in v9_cohort). A list keeps
// the message for a waiter whose connection broke.
func (m *Mutex) sleep(owner string, left time.Duration) {
	limit := min(m.ttl/3, time.Second, left) // below go-redis's read timeout
	err := m.rdb.Do(context.Background(), "blpop", m.key+":wake:"+owner, limit.Seconds()).Err()
	if err != nil && err != redis.Nil {
		time.Sleep(limit / 10) // Redis is away: the next request will tell
	}
}

// quit takes the owner out of the queue, and hands the lock on should it have been
// handed to it meanwhile. Where Redis fails it is tried again, until the owner's sign
// of life has run out there. It may come late: it takes no lock from an owner that
// has asked again.
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
		return // so many fail that Redis is away
	}
	for pause := m.ttl / 1000; ctx.Err() == nil; pause = min(2*pause, m.ttl/10) {
		time.Sleep(pause)
		if m.left(ctx, owner) {
			return
		}
	}
}

// left reports whether quit is done: Redis has answered, or nobody asks it any more.
func (m *Mutex) left(ctx context.Context, owner string) bool {
	ctx, cancel := context.WithTimeout(ctx, unlockTimeout)
	defer cancel()
	err := leaveScript.Run(ctx, m.rdb, m.keys(), owner, m.ttl.Milliseconds()).Err()
	return err == nil || errors.Is(err, redis.ErrClosed)
}
