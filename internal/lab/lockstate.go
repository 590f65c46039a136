package lab

import (
	"fmt"
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

// look reads the lock past all faults. It does not ask of which type the key
// is: one of the two answers is an error.
func (w *World) look() lockState {
	pipe := w.side.Pipeline()
	text := pipe.Get(w.ctx, w.redisKey())
	hash := pipe.HGetAll(w.ctx, w.redisKey())
	left := pipe.PTTL(w.ctx, w.redisKey())
	_, _ = pipe.Exec(w.ctx)

	s := lockState{left: left.Val()}
	if text.Err() == nil {
		s.held, s.value = true, text.Val()
	}
	for owner, count := range hash.Val() {
		s.held, s.value, s.count = true, owner, count
	}
	return s
}

// owners knows which actor a lock's value stands for: the one who first used
// it, if it is a token, though another may have handed the lock on to it; or
// else the one whose command made the key.
type owners struct {
	mu sync.Mutex
	of map[string]string
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
