package promises

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"oversell/internal/locks/locktest"
)

// A waitLock is a lock with its own way of waiting.
type waitLock interface {
	Lock(ctx context.Context) error
}

// wait acquires the lock before ctx ends. A lock that cannot wait is asked again and again.
func (p *process) wait(ctx context.Context) error {
	if m, ok := p.mutex.(waitLock); ok {
		return m.Lock(ctx)
	}
	for {
		if ok, err := p.mutex.TryLock(ctx); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(p.ttl / 100):
		}
	}
}

// attempt runs f in a goroutine, with the process's context until cancel is called. The
// channel has its error, and is closed when it has returned.
func (p *process) attempt(f func(ctx context.Context) error) (ended <-chan error, cancel func()) {
	ctx, cancel := context.WithCancel(p.ctx)
	got := make(chan error, 1)
	go func() {
		defer close(got)
		got <- f(ctx)
	}()
	return got, cancel
}

// errNoEnd is the error of an attempt that does not end in time.
var errNoEnd = errors.New("it has not returned")

func endWithin(ended <-chan error, limit time.Duration) error {
	select {
	case err := <-ended:
		return err
	case <-time.After(limit):
		return errNoEnd
	}
}

// A room notes who is inside at once, and the tokens in the order of entry.
type room struct {
	locktest.Witness

	mu     sync.Mutex
	tokens []int64
}

// enter notes that p is inside until leave is called.
func (r *room) enter(p *process) (leave func()) {
	if m, ok := p.mutex.(tokenLock); ok {
		r.mu.Lock()
		r.tokens = append(r.tokens, m.Token())
		r.mu.Unlock()
	}
	return r.Enter(p.name)
}

// judge ends the scenario if two were inside at once, or the tokens do not grow. A lock without
// tokens has none that could.
func (r *room) judge(w *world) {
	for _, overlap := range r.Overlaps() {
		w.expect(false, overlap)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := 1; i < len(r.tokens); i++ {
		w.expect(r.tokens[i-1] < r.tokens[i], fmt.Sprintf("the token %d came after %d", r.tokens[i], r.tokens[i-1]))
	}
}

// Holders of one process ask for the lock while one of them has it, and then each has it once.
func together(w *world) {
	first := w.start("a")
	var others []*process
	for _, name := range []string{"b", "c", "d", "e"} {
		others = append(others, first.sibling(name))
	}
	first.mustLock()
	var r room
	leave := r.enter(first)
	for _, p := range others {
		w.expect(!p.lock(), "a second holder of the process came in")
	}
	var all []<-chan error
	for _, p := range others {
		ended, cancel := p.attempt(func(ctx context.Context) error { return p.visit(ctx, &r) })
		defer cancel()
		all = append(all, ended)
	}
	time.Sleep(w.ttl / 20) // they wait
	leave()
	given := first.unlock()
	var failed error
	for _, ended := range all {
		failed = errors.Join(failed, endWithin(ended, w.ttl))
	}
	r.judge(w)
	w.expect(given, "it cannot be given back")
	w.expect(failed == nil, fmt.Sprint("a waiter of the process does not enter and leave: ", failed))
}

// visit waits for the lock, works, and releases the lock.
func (p *process) visit(ctx context.Context, r *room) error {
	if err := p.wait(ctx); err != nil {
		return err
	}
	leave := r.enter(p)
	time.Sleep(p.ttl / 20)
	leave()
	return p.mutex.Unlock(p.ctx)
}

func waits(w *world) {
	a, b, c := w.start("a"), w.start("b"), w.start("c")
	m, ok := b.mutex.(waitLock)
	w.expect(ok, "it has no method Lock(context.Context) error")
	a.mustLock()
	ended, cancel := b.attempt(m.Lock)
	defer func() {
		cancel()
		_ = endWithin(ended, w.ttl) // before the lock is released for the last time
	}()
	err := endWithin(ended, w.ttl/2)
	w.expect(errors.Is(err, errNoEnd), fmt.Sprintf("Lock returned %v while another holder had the lock", err))
	w.expect(a.unlock(), "the holder could not give the lock back")
	err = endWithin(ended, w.ttl/3)
	w.expect(err == nil, fmt.Sprintf("the lock was free for a third of the ttl, and its waiter has not got it: %v", err))
	w.expect(!c.lock(), "Lock returned without the lock")
	w.expect(b.unlock() && c.lock(), "the waiter could not give the lock back")
}
