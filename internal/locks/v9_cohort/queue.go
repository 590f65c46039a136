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

// insisting bounds the tickets that are given up again and again at once.
var insisting = make(chan struct{}, 64)

// newTicket names one wish to have the lock. It is used for no other, so that a
// wake-up that comes late wakes nobody.
func newTicket() string { return uuid.NewString() }

// keys are the lock, its queue, the signs of life of those in it, and the token.
func (p place) keys() []string {
	return []string{p.key, p.key + ":queue", p.key + ":waiters", p.key + ":token"}
}

func (p place) wake(ticket string) string { return p.key + ":wake:" + ticket }

// request asks for the lock once, and queues up if it is not to be had now and
// wait is set. It returns the first token of the hold, or 0.
func (c *cohort) request(ctx context.Context, ticket string, ttl time.Duration, wait int) (int64, error) {
	return lockScript.Run(ctx, c.rdb, c.keys(), ticket, ttl.Milliseconds(), wait, maxPasses+1).Int64()
}

// sleep waits until ticket is woken, a third of the ttl at most: then it is time
// for a sign of life, and for a look whether a message was lost.
//
// A subscription would wake it no sooner (BenchmarkWakeUp). A list keeps the
// message for a waiter whose connection broke, and nothing has to be set up
// before the waiting and taken down after it.
func (c *cohort) sleep(ticket string, ttl time.Duration) (token int64) {
	limit := min(ttl/3, time.Second) // below go-redis's read timeout
	reply, err := c.rdb.Do(context.Background(), "blpop", c.wake(ticket), limit.Seconds()).StringSlice()
	if err != nil && err != redis.Nil {
		time.Sleep(limit / 10) // Redis is away: the next request will tell
	}
	if err == nil && len(reply) == 2 {
		_, _ = fmt.Sscanf(reply[1], "held:%d", &token) // or it says something else
	}
	return token
}

// ask gets the lock from Redis for those who wait, and lets the first of them
// in. It ends when nobody waits any more.
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
		gone := c.ticket != ticket // with the last who waited
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
			go c.giveUp(ticket, ttl) // again, now that no request for it is on its way
		}
		if done {
			return
		}
		ticket = next
	}
}

// giveUp takes a ticket out of Redis's queue, and gives the lock back should it
// have it. Where Redis fails to do so it is tried again, until the ticket's time
// has run out there: a ttl, as far as is known here.
func (c *cohort) giveUp(ticket string, ttl time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), ttl)
	defer cancel()
	if c.drop(ctx, ticket, ttl) {
		return
	}
	select {
	case insisting <- struct{}{}:
		defer func() { <-insisting }()
	default:
		return // so many fail that Redis is away
	}
	for pause := ttl / 1000; ctx.Err() == nil; pause = min(2*pause, ttl/10) {
		time.Sleep(pause)
		if c.drop(ctx, ticket, ttl) {
			return
		}
	}
}

// drop reports whether giveUp is done: Redis has answered, or nobody asks it any more.
func (c *cohort) drop(ctx context.Context, ticket string, ttl time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, unlockTimeout)
	defer cancel()
	n, err := leaveScript.Run(ctx, c.rdb, append(c.keys()[:3], c.wake(ticket)), ticket, ttl.Milliseconds()).Int()
	if err == nil && n == 1 {
		err = unlockScript.Run(ctx, c.rdb, c.keys(), ticket, ttl.Milliseconds(), "", maxPasses+1).Err()
	}
	return err == nil || errors.Is(err, redis.ErrClosed)
}
