package chaos

import (
	"sync"
	"time"
)

// sales knows what the buyers were told, and when the item was last sold.
type sales struct {
	mu    sync.Mutex
	acked map[string]string // order id by idempotency key
	cut   map[string]bool   // keys of buyers with a cut-off request
	asked map[string]bool   // keys of all buyers
	since time.Time         // an order made from then on is awaited; zero: none
	found chan time.Time    // when a buyer is told of it
}

func newSales() *sales {
	return &sales{acked: make(map[string]string), cut: make(map[string]bool), asked: make(map[string]bool)}
}

// ask notes that a buyer has arrived.
func (s *sales) ask(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[key] = true
}

// cutOff notes that the reply to a request did not arrive.
func (s *sales) cutOff(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut[key] = true
}

// acknowledge notes that a buyer is told of an order, and when that was made.
func (s *sales) acknowledge(key, order string, made time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acked[key] = order
	if !s.since.IsZero() && !made.Before(s.since) {
		s.since = time.Time{}
		s.found <- time.Now()
	}
}

// acknowledged is how many buyers were told of an order.
func (s *sales) acknowledged() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(len(s.acked))
}

// next returns a channel that receives the time when the first buyer is told of an order
// made from then on; orders have their time in milliseconds. Only the last channel
// receives anything.
func (s *sales) next(from time.Time) <-chan time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since, s.found = from.Truncate(time.Millisecond), make(chan time.Time, 1)
	return s.found
}
