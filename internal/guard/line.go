package guard

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"oversell/internal/guard/keymutex"
)

// Line queues the callers of this process for each key, first come, first served. Only
// the first one asks for the lock, after each delay, and at once when this process has
// released the lock. So Redis sees one caller for each process, however many wait. If
// 5,000 callers all asked on their own, most would never be served.
//
// A line is not a lock: the next caller asks while the last one is still in its section,
// and only the lock decides.
type Line struct {
	Delay time.Duration // mean time between two attempts, jittered by half

	asking keymutex.Mutex // held by the first caller of each key

	mu   sync.Mutex
	held map[string]*holds // the locks that this process holds
}

// holds are the holds of one key. There are several if the lock let several callers in.
type holds struct {
	n     int
	freed chan struct{} // closed when one of them is released
}

// Acquire implements Policy. The caller must call Released after it released the lock.
func (p *Line) Acquire(ctx context.Context, key string, try func() (bool, error)) error {
	first, err := p.asking.Lock(ctx, key)
	if err != nil {
		return err
	}
	defer first.Unlock()
	freed := p.freed(key)
	if freed != nil { // this process holds the lock, so asking at once would waste a command
		if err := p.pause(ctx, freed); err != nil {
			return err
		}
	}
	for {
		// Get the channel first: a release during the attempt must not be missed.
		freed = p.freed(key)
		ok, err := try()
		if ok && err == nil {
			p.took(key)
		}
		if ok || err != nil {
			return err
		}
		if err := p.pause(ctx, freed); err != nil {
			return err
		}
	}
}

// pause waits for the delay, or until this process releases the lock.
func (p *Line) pause(ctx context.Context, freed <-chan struct{}) error {
	select {
	case <-freed:
		return nil
	case <-time.After(p.Delay/2 + rand.N(p.Delay)):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// freed returns a channel that is closed when this process releases the lock of the key,
// or nil if it does not hold it.
func (p *Line) freed(key string) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if h := p.held[key]; h != nil {
		return h.freed
	}
	return nil
}

func (p *Line) took(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held == nil {
		p.held = make(map[string]*holds)
	}
	h := p.held[key]
	if h == nil {
		h = &holds{freed: make(chan struct{})}
		p.held[key] = h
	}
	h.n++
}

// Released makes the first caller for the key ask at once.
func (p *Line) Released(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.held[key]
	close(h.freed)
	if h.n--; h.n == 0 {
		delete(p.held, key)
	} else {
		h.freed = make(chan struct{})
	}
}

func (p *Line) String() string { return "line:" + p.Delay.String() }
