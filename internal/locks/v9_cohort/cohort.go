package lock

import (
	"container/list"
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// maxPasses is how often a process hands the lock on to one of its own before
// it lets another process have it, if one waits. A process that has had the lock
// for as long as the ttl lets others have it even sooner.
const maxPasses = 64

// A place is where a lock lives, and who goes there.
type place struct {
	rdb redis.UniversalClient
	key string
}

// A cohort is those of this process who hold a lock or wait for it. One at a
// time is the holder. When the cohort has no hold on the lock in Redis, one
// goroutine gets it one for all.
type cohort struct {
	place
	ttl     time.Duration
	turns   map[string]*turn // by owner: of the holder, and of those who lost the lock and have not left
	holder  *turn            // nil: there is none
	waiting list.List        // of *waiter, first come first
	hold    *hold            // nil: the lock is not this process's
	asking  bool             // somebody talks to Redis about getting or giving back the lock
	ticket  string           // stands in Redis's queue for those who wait; "" when none does
}

// A waiter is one call of Lock.
type waiter struct {
	mutex  *Mutex
	owner  string
	served chan error // nil: it holds the lock
	place  *list.Element
}

var (
	mu      sync.Mutex            // guards cohorts, every cohort and every hold
	cohorts = map[place]*cohort{} // those with a turn or a waiter
)

// cohort returns m's. The caller has locked mu, here and below.
func (m *Mutex) cohort() *cohort {
	c := cohorts[m.at]
	if c == nil {
		c = &cohort{place: m.at, turns: map[string]*turn{}}
		cohorts[m.at] = c
	}
	c.ttl = m.ttl
	return c
}

// join queues up.
func (c *cohort) join(m *Mutex, owner string) *waiter {
	w := &waiter{mutex: m, owner: owner, served: make(chan error, 1)}
	w.place = c.waiting.PushBack(w)
	return w
}

// quit takes w out of the queue, unless it has been served. The last to go
// gives up the place in Redis's queue.
func (c *cohort) quit(w *waiter) bool {
	if w.place == nil {
		return false
	}
	c.waiting.Remove(w.place)
	if c.waiting.Len() == 0 && c.ticket != "" {
		go c.giveUp(c.ticket, c.ttl)
		c.ticket = ""
	}
	c.step()
	return true
}

// next takes the first waiter out of the queue.
func (c *cohort) next() *waiter {
	w := c.waiting.Remove(c.waiting.Front()).(*waiter)
	w.place = nil
	return w
}

// step does what is to be done next: it lets the first waiter in, sees to it
// that the lock is asked for, or forgets the cohort.
func (c *cohort) step() {
	switch {
	case c.holder != nil || c.asking:
	case c.hold != nil && c.hold.over(): // its end has done the step
	case c.waiting.Len() == 0:
		if len(c.turns) == 0 {
			delete(cohorts, c.place)
		}
	case c.hold != nil:
		w := c.next()
		c.enter(w.mutex, w.owner)
		w.served <- nil
	default:
		c.asking, c.ticket = true, newTicket()
		go c.ask(c.ticket)
	}
}

// fail tells all who wait that the lock cannot be had.
func (c *cohort) fail(err error) {
	for c.waiting.Len() > 0 {
		c.next().served <- err
	}
}

// leave ends a turn. The lock is handed on in this process, or given back in
// Redis. One that is lost is neither: the cohort has gone on without it.
func (c *cohort) leave(ctx context.Context, t *turn) error {
	h := t.hold
	lost := h.over()
	delete(c.turns, t.owner)
	t.end(context.Canceled)
	if lost {
		go c.giveUp(h.ticket, h.ttl) // Redis may keep it for longer than was known here
		c.step()
		return ErrNotHeld
	}
	c.holder = nil
	if c.waiting.Len() > 0 && h.passes < maxPasses && time.Since(h.since) < c.ttl {
		h.passes++
		c.step()
		return nil
	}
	return c.giveBack(ctx)
}
