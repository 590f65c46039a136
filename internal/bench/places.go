package bench

import (
	"sync"
	"time"
)

// places bounds the requests in flight, and knows when the oldest was sent. It is safe
// for concurrent use.
type places struct {
	mu    sync.Mutex
	free  []int
	since []time.Time // by place; zero: free
}

func newPlaces(n int) *places {
	p := &places{since: make([]time.Time, n)}
	for i := range n {
		p.free = append(p.free, i)
	}
	return p
}

// take takes a place, if one is free.
func (p *places) take() (place int, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.free) == 0 {
		return 0, false
	}
	place = p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	p.since[place] = time.Now()
	return place, true
}

// leave gives a place back.
func (p *places) leave(place int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since[place] = time.Time{}
	p.free = append(p.free, place)
}

// earliest is a time before which no request in flight, or later, was sent.
func (p *places) earliest() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	earliest := time.Now()
	for _, t := range p.since {
		if !t.IsZero() && t.Before(earliest) {
			earliest = t
		}
	}
	return earliest
}
