package lab

import (
	"cmp"
	"errors"
	"fmt"
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
			// As a number without a sign, a lease without an end is the longest.
			slices.SortFunc(same, func(a, b lockState) int { return cmp.Compare(uint64(b.left), uint64(a.left)) })
			return same[most]
		}
	}
	return lockState{}
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
	o.of[value] = actor
}

// who returns which actor a value stands for, or "".
func (o *owners) who(value string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.of[value]
}

// show returns who holds the lock, and what is left of the lease in
// milliseconds, or nil if there is none.
func (o *owners) show(s lockState) (string, *float64) {
	if !s.held {
		return "free", nil
	}
	who := cmp.Or(o.who(s.value), "?")
	if s.count != "" && s.count != "0" && s.count != "1" { // 0: it was handed on, and not taken yet
		who = fmt.Sprintf("%s ×%s", who, s.count)
	}
	if s.left < 0 {
		return who, nil
	}
	ms := inMS(s.left)
	return who, &ms
}
