package lock

import (
	"context"
	"time"
)

// try asks for the lock once. The caller has locked mu.
func (c *cohort) try(ctx context.Context, m *Mutex, owner string) (bool, error) {
	if c.holder != nil || c.asking || c.waiting.Len() > 0 {
		return false, nil
	}
	ticket, sent := newTicket(), time.Now()
	c.asking = true
	mu.Unlock()
	token, err := c.request(ctx, ticket, m.ttl, 0)
	if err != nil {
		go c.giveUp(ticket, m.ttl) // it may have been taken, with only the reply lost
	}
	mu.Lock()
	c.asking = false
	if token > 0 {
		c.hold = newHold(c, ticket, token, m.ttl, sent)
		c.enter(m, owner)
	}
	c.step()
	return token > 0, err
}

// giveBack gives the lock to the first process in the queue. Those who still
// wait in this one queue up behind it, in the same step. Where Redis does not
// answer, it is tried again in the background. The caller has locked mu, and the
// holder has left.
func (c *cohort) giveBack(ctx context.Context) error {
	h := c.hold
	c.hold, c.asking = nil, true
	h.end(context.Canceled) // whatever Redis answers, the renewal must not go on
	if c.waiting.Len() > 0 {
		c.ticket = newTicket()
	}
	again, ttl := c.ticket, c.ttl
	mu.Unlock()
	sent := time.Now()
	n, err := unlockScript.Run(ctx, c.rdb, c.keys(), h.ticket, ttl.Milliseconds(), again, maxPasses+1).Int64()
	h.inFlight.Wait()
	mu.Lock()
	if err != nil {
		go c.giveUp(h.ticket, h.ttl)
	}
	if again != "" && c.ticket != again {
		go c.giveUp(again, ttl) // they have all left, maybe before it was in the queue
	}
	c.asking = false
	switch {
	case c.ticket == "": // nobody waits by again
	case err == nil && n > 0: // nobody else waits
		c.ticket = ""
		c.hold = newHold(c, again, n, ttl, sent)
	default:
		c.asking = true
		go c.ask(again)
	}
	c.step()
	if err == nil && n < 0 {
		err = ErrNotHeld
	}
	return err
}
