package lab

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"
)

// lockState is the lock as Redis has it.
type lockState struct {
	held  bool
	value string        // the token, or the owner
	count string        // of the owner's holds, where the lock counts
	left  time.Duration // of the lease; negative for none
}

// look reads the lock past all faults.
func (w *World) look() lockState {
	if s := w.server.service; s != nil {
		// What is left of the lease is not asked: a service tells it in seconds.
		place, err := s.first(w.ctx, w.lockKey)
		return lockState{held: err == nil && place != "", value: place, left: w.TTL}
	}
	seen := make([]lockState, len(w.sides))
	var all sync.WaitGroup
	for i, space := range w.keepers() {
		all.Go(func() { seen[i] = space.read(w.ctx, []string{w.redisKey()})[w.redisKey()].lock() })
	}
	all.Wait()
	w.seen.know(seen)
	return byMajority(seen)
}

// sights are what the nodes had when they were last looked at.
type sights struct {
	mu   sync.Mutex
	last []lockState // by node
	when []time.Time
}

// know takes over what all nodes have.
func (s *sights) know(seen []lockState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last, s.when = slices.Clone(seen), make([]time.Time, len(seen))
	for i := range s.when {
		s.when[i] = time.Now()
	}
}

// changed takes over what one node has, and returns what all have by now. Of several
// nodes only the one that was asked can have changed: the others' leases went on.
func (s *sights) changed(node int, seen lockState) []lockState {
	s.mu.Lock()
	s.last[node], s.when[node] = seen, time.Now()
	s.mu.Unlock()
	return s.now()
}

// now is what all nodes have by now.
func (s *sights) now() []lockState {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := slices.Clone(s.last)
	for i := range now {
		if now[i].left < 0 {
			continue // it has no end
		}
		if now[i].left -= time.Since(s.when[i]); now[i].left <= 0 {
			now[i] = lockState{}
		}
	}
	return now
}

// byMajority is the lock as more than half of its servers have it. Its lease is
// over when it is over on so many that the others are no majority.
func byMajority(seen []lockState) lockState {
	by := make(map[string][]lockState)
	for _, s := range seen {
		if s.held {
			by[s.value] = append(by[s.value], s)
		}
	}
	most := len(seen) / 2
	for _, same := range by {
		if len(same) > most {
			slices.SortFunc(same, func(a, b lockState) int { return cmp.Compare(lasting(b), lasting(a)) })
			return same[most]
		}
	}
	return lockState{}
}

// lasting is what is left of a lease, as a number that can be compared.
func lasting(s lockState) time.Duration {
	if s.left < 0 {
		return math.MaxInt64
	}
	return s.left
}

// owners knows which actor a lock's value stands for: the one who first used
// it, if it is a token, though another may have handed the lock on to it; or
// else the one whose command made the key.
type owners struct {
	mu sync.Mutex
	of map[string]string
}

// has notes whose a value is.
func (o *owners) has(actor, value string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.of == nil {
		o.of = make(map[string]string)
	}
	o.of[value] = actor
}

// who returns which actor a value stands for, or "?".
func (o *owners) who(value string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return cmp.Or(o.of[value], "?")
}

func (o *owners) changed(actor string, before, after lockState) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.of == nil {
		o.of = make(map[string]string)
	}
	if after.held && (!before.held || before.value != after.value) {
		o.of[after.value] = actor
	}
}

// show returns who holds the lock, and what is left of the lease in
// milliseconds, or nil if there is none.
func (o *owners) show(s lockState) (string, *float64) {
	if !s.held {
		return "free", nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	who := o.of[s.value]
	if who == "" {
		who = "?"
	}
	if s.count != "" && s.count != "1" {
		who = fmt.Sprintf("%s ×%s", who, s.count)
	}
	if s.left < 0 {
		return who, nil
	}
	ms := float64(s.left) / float64(time.Millisecond)
	return who, &ms
}
