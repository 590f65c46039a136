package lock

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

var (
	//go:embed lock.lua
	lockSource string
	lockScript = redis.NewScript(lockSource)

	//go:embed unlock.lua
	unlockSource string
	unlockScript = redis.NewScript(unlockSource)

	//go:embed leave.lua
	leaveSource string
	leaveScript = redis.NewScript(leaveSource)
)

// retrying limits the number of tickets that giveUp retries at the same time.
var retrying = make(chan struct{}, 64)

// newTicket returns a name for one request for the lock. The name is never used again,
// so a late wake-up wakes nobody.
func newTicket() string { return uuid.NewString() }

// keys returns the keys of the lock, its queue, its waiters' heartbeats, and the last token.
func (l location) keys() []string {
	return []string{l.key, l.key + ":queue", l.key + ":waiters", l.key + ":token"}
}

func (l location) wake(ticket string) string { return l.key + ":wake:" + ticket }

// request asks Redis for the lock once, and queues the ticket if the lock is not free
// and wait is 1. It returns the first token of the hold, or 0.
func (c *cohort) request(ctx context.Context, ticket string, ttl time.Duration, wait int) (int64, error) {
	return lockScript.Run(ctx, c.rdb, c.keys(), ticket, ttl.Milliseconds(), wait, maxPasses+1).Int64()
}

// sleep waits until the ticket is woken, but for at most a third of the ttl. After that
// it is time to renew the heartbeat, and to check whether a message was lost.
//
// A subscription would not wake it sooner. A list keeps the message for a waiter whose
// connection broke, and needs no setup or cleanup.
func (c *cohort) sleep(ticket string, ttl time.Duration) (token int64) {
	limit := min(ttl/3, time.Second) // the limit is below go-redis's read timeout
	reply, err := receive(c.rdb, c.wake(ticket), limit)
	if err != nil && err != redis.Nil {
		time.Sleep(limit / 10) // Redis is unavailable: the next request reports it
	}
	if err == nil {
		_, _ = fmt.Sscanf(reply, "held:%d", &token) // any other message has no token: the ticket was given up
	}
	return token
}

// ask gets the lock from Redis for the waiters, and lets the first waiter in. It
// returns when nobody is waiting any more.
func (c *cohort) ask(ticket string) {
	for {
		mu.Lock()
		ttl := c.ttl
		mu.Unlock()
		sent := time.Now()
		token, err := c.request(context.Background(), ticket, ttl, 1)
		if err == nil && token == 0 {
			token = c.sleep(ticket, ttl)
		}
		mu.Lock()
		gone := c.ticket != ticket // the last waiter has left
		next, done := ticket, gone || err != nil || token > 0
		switch {
		case gone && c.waiting.Len() > 0:
			c.ticket = newTicket()
			next, done = c.ticket, false
		case gone || err != nil:
			c.fail(err)
			c.asking, c.ticket = false, ""
			c.step()
		case token > 0:
			c.hold = newHold(c, ticket, token, ttl, sent)
			c.asking, c.ticket = false, ""
			c.step()
		}
		mu.Unlock()
		if gone || err != nil {
			go c.giveUp(ticket, ttl) // give it up again, now that no request for it is in flight
		}
		if done {
			return
		}
		ticket = next
	}
}

// giveUp takes a ticket out of Redis's queue, and releases the lock if the ticket has
// it. If Redis fails, giveUp retries for at most one ttl: by then the ticket has
// expired.
func (c *cohort) giveUp(ticket string, ttl time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), ttl)
	defer cancel()
	if c.drop(ctx, ticket, ttl) {
		return
	}
	select {
	case retrying <- struct{}{}:
		defer func() { <-retrying }()
	default:
		return // so many attempts fail that Redis must be unavailable
	}
	for pause := ttl / 1000; ctx.Err() == nil; pause = min(2*pause, ttl/10) {
		time.Sleep(pause)
		if c.drop(ctx, ticket, ttl) {
			return
		}
	}
}

// drop tries once to give up the ticket, and reports whether giveUp can stop, because
// Redis has answered or the client is closed.
func (c *cohort) drop(ctx context.Context, ticket string, ttl time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, unlockTimeout)
	defer cancel()
	n, err := leaveScript.Run(ctx, c.rdb, append(c.keys()[:3], c.wake(ticket)), ticket, ttl.Milliseconds()).Int()
	if err == nil && n == 1 {
		err = unlockScript.Run(ctx, c.rdb, c.keys(), ticket, ttl.Milliseconds(), "", maxPasses+1).Err()
	}
	return err == nil || errors.Is(err, redis.ErrClosed)
}
