package lab

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"
)

// lockState is the lock in Redis.
type lockState struct {
	held  bool
	value string        // the token, or the owner
	count string        // of the owner's holds, where the lock counts
	left  time.Duration // of the lease, as of seen; negative for none
	seen  time.Time
}

// asOf is the lock with what is left of its lease as of that moment.
func (s lockState) asOf(at time.Time) lockState {
	if s.held {
		s.left, s.seen = asOf(at, s.left, s.seen), at
	}
	return s
}

// look reads the lock without faults. If that fails, the cell decides nothing.
func (w *World) look() lockState {
	lock, err := w.tryLook()
	w.unread(err)
	return lock
}

func (w *World) tryLook() (lockState, error) {
	if s := w.server.service; s != nil {
		// What is left of the lease is not asked: a service tells it in seconds.
		place, err := s.First(w.ctx, w.lockKey)
		return lockState{held: err == nil && place != "", value: place, left: w.TTL}, err
	}
	seen, errs := make([]lockState, len(w.sides)), make([]error, len(w.sides))
	var all sync.WaitGroup
	for i, space := range w.keepers() {
		all.Go(func() {
			var states map[string]keyState
			states, errs[i] = space.read(w.ctx, []string{w.redisKey()})
			seen[i] = states[w.redisKey()].lock()
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return lockState{}, err
	}
	w.seen.know(seen)
	return byMajority(seen), nil
}

// unread notes that the lock's servers could not be read, so that nothing is decided. At
// the end of a cell that does not matter.
func (w *World) unread(err error) {
	if err == nil || w.ctx.Err() != nil {
		return
	}
	v := Unknown.Because("the keys could not be read: %v", err)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failure = &v
}

// sights are the locks that the nodes had when they were last read.
type sights struct {
	mu   sync.Mutex
	last []lockState // by node
}

// know takes over what all nodes have.
func (s *sights) know(seen []lockState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = slices.Clone(seen)
}

// changed takes over what one node has, and returns what all have by now. Of several
// nodes only the one that was asked can have changed: the others' leases went on.
func (s *sights) changed(node int, seen lockState) []lockState {
	s.mu.Lock()
	s.last[node] = seen
	s.mu.Unlock()
	return s.now()
}

// now is what all nodes have by now.
func (s *sights) now() []lockState {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, at := slices.Clone(s.last), time.Now()
	for i := range now {
		if now[i].left < 0 {
			continue // it has no end
		}
		if now[i].left -= at.Sub(now[i].seen); ranOut(now[i].left) {
			now[i] = lockState{}
		}
		now[i].seen = at
	}
	return now
}

// byMajority is the lock that more than half of its servers have. Its lease is over when
// too few servers are left for a majority.
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

// owners knows which actor a lock's value belongs to: if it is a token, the actor that
// first used it, although another may have handed the lock on; otherwise the actor whose
// command created the key.
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
	if s.count != "" && s.count != "0" && s.count != "1" { // 0: it was handed on, and not taken yet
		who = fmt.Sprintf("%s ×%s", who, s.count)
	}
	if s.left < 0 {
		return who, nil
	}
	ms := float64(s.left) / float64(time.Millisecond)
	return who, &ms
}
