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

	mu sync.Mutex
	// queues holds the items for the next call of each key, in order of arrival. A key has no queue
	// when no call is running.
	queues map[string][]*slot[T]
}

// slot is one item's slot in a queue.
type slot[T any] struct {
	item T
	sent bool          // a call has it, so it can no longer be withdrawn
	gone bool          // it was withdrawn before it was sent
	from time.Time     // when the call began
	done chan struct{} // closed when the call is over
}

func newBatcher[T any](size func() int, call func(items []T)) *batcher[T] {
	return &batcher[T]{size: size, call: call, queues: make(map[string][]*slot[T])}
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
	queue, running := b.queues[key]
	b.queues[key] = append(queue, s)
	if !running {
		go b.run(key)
	}
	return s
}

// leave withdraws an item that has not been sent, and reports whether it did.
func (b *batcher[T]) leave(s *slot[T]) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	s.gone = !s.sent
	return s.gone
}

func (b *batcher[T]) run(key string) {
	for batch := b.next(key); len(batch) > 0; batch = b.next(key) {
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
func (b *batcher[T]) next(key string) []*slot[T] {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	queue, n, most := b.queues[key], 0, b.size()
	var batch []*slot[T]
	for ; n < len(queue) && len(batch) < most; n++ {
		if s := queue[n]; !s.gone {
			s.sent, s.from = true, now
			batch = append(batch, s)
		}
	}
	clear(queue[:n])
	b.queues[key] = queue[n:]
	if len(batch) == 0 {
		delete(b.queues, key)
	}
	return batch
}
