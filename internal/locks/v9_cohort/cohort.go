package lock

import (
	"container/list"
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// maxPasses is the number of times that a process hands the lock on to its own waiters
// before it lets a waiting process have it. After a whole ttl, a process lets others
// have the lock even sooner.
const maxPasses = 64

// A location is the lock at one key, reached through one client. Mutexes with the
// same location share a cohort.
type location struct {
	rdb redis.UniversalClient
	key string
}

// A cohort consists of the owners in this process that hold a lock or wait for it. One
// owner at a time is the holder. If the cohort does not have the lock in Redis, one
// goroutine acquires it for all owners.
type cohort struct {
	location
	ttl     time.Duration
	turns   map[string]*turn // by owner: the turns of the holder, and of owners that lost the lock and have not left
	holder  *turn            // nil if there is none
	waiting list.List        // of *waiter, in order of arrival
	hold    *hold            // nil if this process does not have the lock
	asking  bool             // a request to acquire or release the lock in Redis is under way
	ticket  string           // the ticket of all waiters in Redis's queue; "" if there is none
}

// A waiter is one call to Lock.
type waiter struct {
	mutex   *Mutex
	owner   string
	served  chan error // receives nil when the waiter holds the lock
	element *list.Element
}

var (
	mu      sync.Mutex               // guards cohorts, every cohort and every hold
	cohorts = map[location]*cohort{} // the cohorts that have a turn or a waiter
)

// cohort returns m's cohort. The callers of cohort and of the functions below must hold mu.
func (m *Mutex) cohort() *cohort {
	c := cohorts[m.at]
	if c == nil {
		c = &cohort{location: m.at, turns: map[string]*turn{}}
		cohorts[m.at] = c
	}
	c.ttl = m.ttl
	return c
}

// join puts a new waiter into the queue of this process.
func (c *cohort) join(m *Mutex, owner string) *waiter {
	w := &waiter{mutex: m, owner: owner, served: make(chan error, 1)}
	w.element = c.waiting.PushBack(w)
	return w
}

// quit takes w out of the queue and returns true, unless w has been served. The last
// waiter that quits gives up the ticket in Redis's queue.
func (c *cohort) quit(w *waiter) bool {
	if w.element == nil {
		return false
	}
	c.waiting.Remove(w.element)
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
	w.element = nil
	return w
}

// step takes the next step, if one is due: it lets the first waiter in, starts a
// request for the lock, or forgets the cohort.
func (c *cohort) step() {
	switch {
	case c.holder != nil || c.asking:
	case c.hold != nil && c.hold.over(): // over has ended it, and end has called step
	case c.waiting.Len() == 0:
		if len(c.turns) == 0 {
			delete(cohorts, c.location)
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

// fail sends err to all waiters.
func (c *cohort) fail(err error) {
	for c.waiting.Len() > 0 {
		c.next().served <- err
	}
}

// leave ends a turn. It hands the lock on in this process, or releases it in Redis. If
// the lock is lost, it does neither, because the cohort has continued without it.
func (c *cohort) leave(ctx context.Context, t *turn) error {
	h := t.hold
	lost := h.over()
	delete(c.turns, t.owner)
	t.end(context.Canceled)
	if lost {
		go c.giveUp(h.ticket, h.ttl) // the lock may not have expired in Redis yet
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
