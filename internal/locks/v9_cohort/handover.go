package lock

import (
	"context"
	"time"
)

// try requests the lock once. The caller must hold mu.
func (c *cohort) try(ctx context.Context, m *Mutex, owner string) (bool, error) {
	if c.holder != nil || c.asking || c.waiting.Len() > 0 {
		return false, nil
	}
	ticket, sent := newTicket(), time.Now()
	c.asking = true
	mu.Unlock()
	token, err := c.request(ctx, ticket, m.ttl, 0)
	if err != nil {
		go c.giveUp(ticket, m.ttl) // Redis may have granted the lock, and only the reply was lost
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

// giveBack hands the lock to the first process in the queue. If this process still has
// waiters, the same script puts this process into the queue again, behind the other
// processes. If Redis does not answer, the release is retried in the background. The
// caller must hold mu, and the holder must have left.
func (c *cohort) giveBack(ctx context.Context) error {
	h := c.hold
	c.hold, c.asking = nil, true
	h.end(context.Canceled) // the renewal must stop even if Redis fails
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
		go c.giveUp(again, ttl) // all waiters have left, maybe before the ticket was queued
	}
	c.asking = false
	switch {
	case c.ticket == "": // nobody is waiting with this ticket any more
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
