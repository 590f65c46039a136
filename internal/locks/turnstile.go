package locks

import (
	"context"
	"sync"
)

// turnstile lets one caller of this process at a time pass for each key, first
// come, first served. The zero value is ready, and safe for concurrent use.
type turnstile struct {
	mu   sync.Mutex
	keys map[string]*gate
}

// gate is the one place for a key. It is forgotten when nobody is there.
type gate struct {
	place chan struct{} // holds one value while the place is taken; waiters queue on it in order
	freed chan struct{} // holds a value after a lock for this key was released by this process
	here  int           // callers at the gate, waiting ones included
	held  int           // locks for this key that this process holds
}

// at returns the gate for key and counts the caller in; leave counts it out.
func (t *turnstile) at(key string) *gate {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.keys == nil {
		t.keys = make(map[string]*gate)
	}
	g := t.keys[key]
	if g == nil {
		g = &gate{place: make(chan struct{}, 1), freed: make(chan struct{}, 1)}
		t.keys[key] = g
	}
	g.here++
	return g
}

func (t *turnstile) leave(key string, g *gate) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if g.here--; g.here == 0 {
		delete(t.keys, key)
	}
}

// took and released keep count of the locks that this process holds, so that
// the head of a line knows whether asking at once can be worth it.
func (t *turnstile) took(g *gate) {
	t.mu.Lock()
	defer t.mu.Unlock()
	g.held++
}

func (t *turnstile) released(g *gate) {
	t.mu.Lock()
	g.held--
	t.mu.Unlock()
	select {
	case g.freed <- struct{}{}:
	default:
	}
}

func (t *turnstile) holding(g *gate) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return g.held > 0
}

// enter waits for the place until wait ends, and returns the cause then.
func (g *gate) enter(wait context.Context) error {
	if wait.Err() != nil {
		return context.Cause(wait)
	}
	select {
	case g.place <- struct{}{}:
		return nil
	case <-wait.Done():
		return context.Cause(wait)
	}
}

func (g *gate) exit() { <-g.place }
