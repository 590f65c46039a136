package netfault

import "sync"

// maxHeld bounds a queue, in bytes. Adding more waits.
const maxHeld = 1 << 20

// queue holds what one side has sent until it is forwarded. One goroutine adds to it and one
// takes from it.
type queue struct {
	mu      sync.Mutex
	changed sync.Cond
	held    []byte
	ended   bool
}

func newQueue() *queue {
	q := new(queue)
	q.changed.L = &q.mu
	return q
}

// add waits until there is room, and copies p.
func (q *queue) add(p []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.held) > 0 && len(q.held)+len(p) > maxHeld {
		q.changed.Wait()
	}
	q.held = append(q.held, p...)
	q.changed.Signal()
}

// end says that nothing more will be added.
func (q *queue) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = true
	q.changed.Signal()
}

// take waits for data and returns all there is, or false at the end. The caller passes in
// the last buffer to be reused.
func (q *queue) take(last []byte) ([]byte, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.held) == 0 && !q.ended {
		q.changed.Wait()
	}
	all := q.held
	q.held = last[:0]
	q.changed.Signal()
	return all, len(all) > 0
}
