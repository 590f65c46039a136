package stock

import (
	"context"
	"sync"
	"time"
)

// batcher turns many calls into one (group commit): items that arrive for a key while a call for
// that key is running form the batch of the next call. It has no timer: an item that arrives alone
// is sent immediately, and a batch holds the items that arrived during the previous call. It is
// safe for concurrent use, and runs one goroutine for each key with a running call.
type batcher[T any] struct {
	size func() int      // returns the maximum number of items in the next call
	call func(items []T) // called for one batch of a key at a time

	mu   sync.Mutex
	keys map[string]*queue[T]
}

// queue holds the items for the next call, in order of arrival. It is deleted when it is empty and
// no call is running.
type queue[T any] struct{ waiting []*slot[T] }

// slot is one item's slot in a queue.
type slot[T any] struct {
	item T
	sent bool          // a call has it, so it can no longer be withdrawn
	gone bool          // it was withdrawn before it was sent
	from time.Time     // when the call began
	done chan struct{} // closed when the call is over
}

func newBatcher[T any](size func() int, call func(items []T)) *batcher[T] {
	return &batcher[T]{size: size, call: call, keys: make(map[string]*queue[T])}
}

// do adds an item and waits for the call that handles it. It returns the time at which that call
// began. If wait ends before the call begins, do withdraws the item and returns the cause. Once the
// call has begun, do waits for it to return.
func (b *batcher[T]) do(wait context.Context, key string, item T) (time.Time, error) {
	if wait.Err() != nil {
		return time.Time{}, context.Cause(wait)
	}
	s := b.join(key, item)
	select {
	case <-s.done:
		return s.from, nil
	case <-wait.Done():
	}
	if b.leave(s) {
		return time.Time{}, context.Cause(wait)
	}
	<-s.done
	return s.from, nil
}

func (b *batcher[T]) join(key string, item T) *slot[T] {
	s := &slot[T]{item: item, done: make(chan struct{})}
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.keys[key]
	if q == nil {
		q = new(queue[T])
		b.keys[key] = q
		go b.run(key, q)
	}
	q.waiting = append(q.waiting, s)
	return s
}

// leave withdraws an item that has not been sent, and reports whether it did.
func (b *batcher[T]) leave(s *slot[T]) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	s.gone = !s.sent
	return s.gone
}

func (b *batcher[T]) run(key string, q *queue[T]) {
	for {
		batch := b.next(key, q)
		if len(batch) == 0 {
			return
		}
		items := make([]T, len(batch))
		for i, s := range batch {
			items[i] = s.item
		}
		b.call(items)
		for _, s := range batch {
			close(s.done)
		}
	}
}

// next takes the items of the next call off the queue. If there are none, it deletes the queue, and
// run ends.
func (b *batcher[T]) next(key string, q *queue[T]) []*slot[T] {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	var batch []*slot[T]
	n, most := 0, b.size()
	for ; n < len(q.waiting) && len(batch) < most; n++ {
		if s := q.waiting[n]; !s.gone {
			s.sent, s.from = true, now
			batch = append(batch, s)
		}
	}
	clear(q.waiting[:n])
	q.waiting = q.waiting[n:]
	if len(batch) == 0 {
		delete(b.keys, key)
	}
	return batch
}
