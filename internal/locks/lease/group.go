package lease

import (
	"context"
	"sync"
	"time"
)

// Group has the goroutines of a source of locks. It is safe for concurrent use.
type Group struct {
	Ctx context.Context // ends with Close

	end     context.CancelCauseFunc
	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
}

// NewGroup returns an empty group.
func NewGroup() *Group {
	g := new(Group)
	g.Ctx, g.end = context.WithCancelCause(context.Background())
	return g
}

// Go runs f in a goroutine, unless the group is closed.
func (g *Group) Go(f func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.running.Go(f)
	return true
}

// Close ends Ctx with a cause, and reports whether all goroutines end within the limit. It
// may be called more than once.
func (g *Group) Close(cause error, limit time.Duration) bool {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.end(cause)
	ended := make(chan struct{})
	go func() {
		g.running.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return true
	case <-time.After(limit):
		return false
	}
}
