package coordtest

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// A Relay is a piece of network that can fail: it forwards TCP connections.
type Relay struct {
	Addr string // to dial instead of the target

	target  string
	running sync.WaitGroup
	open    sync.RWMutex // locked for writing while nothing gets through
	lose    atomic.Bool  // the next reply

	mu    sync.Mutex
	held  bool
	down  bool
	conns map[net.Conn]bool
}

// NewRelay forwards to target for the length of the test.
func NewRelay(t testing.TB, target string) *Relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &Relay{Addr: l.Addr().String(), target: target, conns: map[net.Conn]bool{}}
	r.running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			r.running.Go(func() { r.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		r.Cut()
		r.running.Wait()
	})
	return r
}

// Hole lets nothing through until Restore, and tells nobody: connections stay open,
// and what was sent arrives afterwards.
func (r *Relay) Hole() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.held {
		r.held = true
		r.open.Lock()
	}
}

// LoseReply has the connection break as the target next says something, which gets
// lost. ReplyLost reports whether that has happened.
func (r *Relay) LoseReply() { r.lose.Store(true) }

// ReplyLost is the other half of LoseReply.
func (r *Relay) ReplyLost() bool { return !r.lose.Load() }

// Cut closes all connections, and refuses new ones until Restore.
func (r *Relay) Cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down = true
	for c := range r.conns {
		_ = c.Close()
	}
	r.fill()
}

// Restore ends a Hole or a Cut.
func (r *Relay) Restore() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down = false
	r.fill()
}

func (r *Relay) fill() {
	if r.held {
		r.held = false
		r.open.Unlock()
	}
}

// register notes a connection, to be closed by Cut.
func (r *Relay) register(c net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.down {
		_ = c.Close()
		return false
	}
	r.conns[c] = true
	return true
}

func (r *Relay) forget(c net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, c)
	_ = c.Close()
}

func (r *Relay) serve(client net.Conn) {
	if !r.register(client) {
		return
	}
	defer r.forget(client)
	server, err := net.Dial("tcp", r.target)
	if err != nil || !r.register(server) {
		return
	}
	defer r.forget(server)
	var both sync.WaitGroup
	both.Go(func() { r.forward(server, client, false) })
	both.Go(func() { r.forward(client, server, true) })
	both.Wait()
}

// forward copies until one of them is closed, and closes both.
func (r *Relay) forward(to, from net.Conn, replies bool) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if replies && r.lose.CompareAndSwap(true, false) {
				return
			}
			r.open.RLock()
			_, werr := to.Write(buf[:n])
			r.open.RUnlock()
			if werr != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
