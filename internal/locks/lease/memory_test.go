package lease_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"oversell/internal/guard"
	"oversell/internal/locks/lease"
	"oversell/internal/locks/lease/leasetest"
)

// memory is an in-memory server for testing the promises in virtual time. Each of its locks is a
// list of places. A session that is not renewed expires, and its places are removed.
type memory struct {
	mu       sync.Mutex
	changed  chan struct{} // closed at the next change
	queues   map[string][]*memoryPlace
	sessions map[*memorySession]*time.Timer // each with the timer that ends it
	changes  int64
}

var (
	errMemoryLost    = errors.New("lost")
	errMemoryUnknown = fmt.Errorf("%w: %w", errMemoryLost, lease.ErrReplaced)
	errMemoryHeld    = errors.New("held")
)

func newMemory() *memory {
	return &memory{
		changed:  make(chan struct{}),
		queues:   make(map[string][]*memoryPlace),
		sessions: make(map[*memorySession]*time.Timer),
	}
}

// change wakes the waiters. The caller must hold mu.
func (m *memory) change() {
	m.changes++
	close(m.changed)
	m.changed = make(chan struct{})
}

// expire ends a session, and removes its places.
func (m *memory) expire(n *memorySession) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if timer := m.sessions[n]; timer != nil {
		timer.Stop()
	}
	delete(m.sessions, n)
	for key, queue := range m.queues {
		m.queues[key] = slices.DeleteFunc(queue, func(p *memoryPlace) bool { return p.session == n })
	}
	m.change()
}

// memoryLink is the connection between a process and the server.
type memoryLink struct {
	mu       sync.Mutex
	cut      bool
	hole     bool
	restored chan struct{} // closed when the connection works again
}

// memoryDelay is the time that a request or a reply takes to arrive.
const memoryDelay = 200 * time.Microsecond

var errMemoryCut = errors.New("the connection is cut")

func (l *memoryLink) fail(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut, l.hole, l.restored = cut, !cut, make(chan struct{})
}

func (l *memoryLink) Hole() { l.fail(false) }
func (l *memoryLink) Cut()  { l.fail(true) }
func (l *memoryLink) Restore() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut || l.hole {
		close(l.restored)
	}
	l.cut, l.hole = false, false
}

// pass waits until a message has arrived, or ctx ends.
func (l *memoryLink) pass(ctx context.Context) error {
	if err := guard.Sleep(ctx, memoryDelay); err != nil {
		return err
	}
	l.mu.Lock()
	cut, hole, restored := l.cut, l.hole, l.restored
	l.mu.Unlock()
	switch {
	case cut:
		return errMemoryCut
	case !hole:
		return nil
	}
	select {
	case <-restored: // a message that is on its way is lost
		return errMemoryCut
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// memorySession is a process's session with the server.
type memorySession struct {
	*lease.Session
	server  *memory
	link    *memoryLink
	closing context.Context // ends when the source is closed
}

// call sends a request. The server executes it even if the reply is lost.
func (n *memorySession) call(ctx context.Context, do func() error) error {
	if err := n.link.pass(ctx); err != nil {
		return err
	}
	n.server.mu.Lock()
	err := errMemoryUnknown
	if n.server.sessions[n] != nil {
		err = do()
	}
	n.server.mu.Unlock()
	return errors.Join(n.link.pass(ctx), err)
}

// retry repeats call until there is a reply or ctx ends.
func (n *memorySession) retry(ctx context.Context, do func() error) error {
	for {
		err := n.call(ctx, do)
		if !errors.Is(err, errMemoryCut) || lease.Rest(ctx, n.TTL) != nil {
			return err
		}
	}
}

// memorySource returns a new process's source.
func memorySource(t *testing.T, server *memory, link *memoryLink, ttl time.Duration) *lease.Source {
	open := func(ctx context.Context, s *lease.Source) (*lease.Session, error) {
		sent, n := time.Now(), &memorySession{server: server, link: link, closing: s.Ctx}
		if err := link.pass(ctx); err != nil {
			return nil, err
		}
		server.mu.Lock()
		server.sessions[n] = time.AfterFunc(ttl, func() { server.expire(n) })
		server.mu.Unlock()
		if err := link.pass(ctx); err != nil {
			return nil, err // the session will expire
		}
		n.Session = s.NewSession(sent, ttl)
		n.Place = func(key string) lease.Place { return &memoryPlace{session: n, key: key} }
		if !s.Go(n.keep) {
			return nil, lease.ErrClosed
		}
		return n.Session, nil
	}
	kind := lease.Kind{Name: "memory", Lost: errMemoryLost, Open: open}
	return leasetest.Closed(t, lease.NewSource(kind))
}

func (n *memorySession) keep() {
	n.Keep(func() error {
		ctx, cancel := context.WithTimeout(n.Ctx, n.TTL/4)
		defer cancel()
		return n.call(ctx, func() error {
			n.server.sessions[n].Reset(n.TTL)
			return nil
		})
	})
	if n.GivenUp() {
		n.server.expire(n)
	}
}

// memoryPlace is a place in the queue of a lock.
type memoryPlace struct {
	session *memorySession
	key     string
	token   int64
}

func (p *memoryPlace) Acquire(ctx context.Context, wait bool) (bool, error) {
	server, n := p.session.server, p.session
	put := func() error {
		if !wait && len(server.queues[p.key]) > 0 {
			return errMemoryHeld
		}
		if p.token == 0 {
			server.change()
			p.token = server.changes
			server.queues[p.key] = append(server.queues[p.key], p)
		}
		return nil
	}
	send := n.call
	if wait {
		send = n.retry
	}
	err := send(ctx, put)
	switch {
	case errors.Is(err, errMemoryHeld):
		return false, nil
	case errors.Is(err, errMemoryUnknown):
		n.End(err)
		return false, err
	case err != nil: // the server may have executed the request, or may still do so
		n.Retire()
		return false, err
	}
	for {
		var first bool
		var changed chan struct{}
		if err := n.retry(ctx, func() error {
			first, changed = server.queues[p.key][0] == p, server.changed
			return nil
		}); err != nil || first {
			return first, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

func (p *memoryPlace) Put() bool    { return p.token != 0 }
func (p *memoryPlace) Token() int64 { return p.token }

func (p *memoryPlace) Exists(ctx context.Context) (there bool, err error) {
	err = p.session.call(ctx, func() error {
		there = slices.Contains(p.session.server.queues[p.key], p)
		return nil
	})
	return there, err
}

func (p *memoryPlace) Remove() error {
	server, removed := p.session.server, false
	err := p.session.retry(p.session.closing, func() error {
		queue := server.queues[p.key]
		if i := slices.Index(queue, p); i >= 0 {
			server.queues[p.key], removed = slices.Delete(queue, i, i+1), true
			server.change()
		}
		return nil
	})
	if err == nil && !removed {
		err = lease.ErrNotHeld
	}
	return err
}

// inMemory starts n processes on one in-memory server, each with its own source.
func inMemory(t *testing.T, n int, ttl time.Duration) (leasetest.Network, processes) {
	server, first := newMemory(), new(memoryLink)
	var sources []*lease.Source
	for link := first; len(sources) < n; link = new(memoryLink) {
		sources = append(sources, memorySource(t, server, link, ttl))
	}
	count := func(n func() int) func() int {
		return func() int {
			server.mu.Lock()
			defer server.mu.Unlock()
			return n()
		}
	}
	return first, processes{
		named:  func(process int, key string) *lease.Mutex { return lease.New(sources[process], key) },
		end:    func(process int) error { return sources[process].Close() },
		places: count(func() int { return len(server.queues["a"]) }),
		leases: count(func() int { return len(server.sessions) }),
	}
}
