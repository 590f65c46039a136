package stock

import (
	"context"
	"sync"
	"time"
)

// combiner makes one call of many: while a call for a key is under way, those
// who come with more for the key gather, and go together in the next. No timer
// is in it: who comes when nobody else is there goes at once, and how many
// gather is how many come while a call lasts. It is safe for concurrent use,
// and has a goroutine for each key with a call under way, and no other.
type combiner[T any] struct {
	size func() int      // most items in the next call
	call func(items []T) // is one at a time for each key

	mu   sync.Mutex
	keys map[string]*gathering[T]
}

// gathering has those who wait for the next call, in the order in which they
// came. It is forgotten when nobody waits and no call is under way.
type gathering[T any] struct{ waiting []*place[T] }

// place is one item's place among others.
type place[T any] struct {
	item T
	sent bool          // it is in a call: it can no longer be given up
	gone bool          // it was given up before
	from time.Time     // when the call began
	done chan struct{} // closed when the call is over
}

func newCombiner[T any](size func() int, call func(items []T)) *combiner[T] {
	return &combiner[T]{size: size, call: call, keys: make(map[string]*gathering[T])}
}

// do returns when a call with the item is over, with the time at which it
// began. If wait ends before it has begun, do returns the cause, and the item
// is in no call. What has begun is waited for: its outcome must have somebody
// whom it is told.
func (c *combiner[T]) do(wait context.Context, key string, item T) (time.Time, error) {
	if wait.Err() != nil {
		return time.Time{}, context.Cause(wait)
	}
	p := c.join(key, item)
	select {
	case <-p.done:
		return p.from, nil
	case <-wait.Done():
	}
	if c.leave(p) {
		return time.Time{}, context.Cause(wait)
	}
	<-p.done
	return p.from, nil
}

func (c *combiner[T]) join(key string, item T) *place[T] {
	p := &place[T]{item: item, done: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.keys[key]
	if g == nil {
		g = new(gathering[T])
		c.keys[key] = g
		go c.run(key, g)
	}
	g.waiting = append(g.waiting, p)
	return p
}

// leave gives up a place, and reports whether it was not too late for that.
func (c *combiner[T]) leave(p *place[T]) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	p.gone = !p.sent
	return p.gone
}

// run makes calls until nobody waits.
func (c *combiner[T]) run(key string, g *gathering[T]) {
	for {
		batch := c.next(key, g)
		if len(batch) == 0 {
			return
		}
		items := make([]T, len(batch))
		for i, p := range batch {
			items[i] = p.item
		}
		c.call(items)
		for _, p := range batch {
			close(p.done)
		}
	}
}

// next takes those who go in the next call, the first who came first. When
// there are none it forgets the gathering, and run has to end.
func (c *combiner[T]) next(key string, g *gathering[T]) []*place[T] {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	var batch []*place[T]
	n, most := 0, c.size()
	for ; n < len(g.waiting) && len(batch) < most; n++ {
		if p := g.waiting[n]; !p.gone {
			p.sent, p.from = true, now
			batch = append(batch, p)
		}
	}
	clear(g.waiting[:n])
	g.waiting = g.waiting[n:]
	if len(batch) == 0 {
		delete(c.keys, key)
	}
	return batch
}
