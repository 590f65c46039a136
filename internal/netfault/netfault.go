// Package netfault provides a piece of network that can fail: it stands between a
// client and a server, and forwards what they say until it is told not to.
package netfault

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// Relay forwards TCP connections to one server. Its methods may be called
// concurrently.
type Relay struct {
	Addr string // host:port on loopback, to be dialled instead of the server's

	target   string
	listener net.Listener
	places   chan struct{} // one for each client
	hangUp   context.CancelFunc
	running  sync.WaitGroup

	mu     sync.Mutex
	gate   chan struct{} // closed while things get through
	down   bool
	closed bool          // no Restore any more
	late   time.Duration // by how much replies are
	lose   bool          // the next reply
	lost   bool          // the last one that was to be
	conns  map[net.Conn]bool
}

// maxClients bounds the clients at one time, as a server does. Those beyond wait
// to be accepted.
const maxClients = 500

// Start forwards to target, a host:port, until Close.
func Start(target string) (*Relay, error) { return startFor(target, maxClients) }

func startFor(target string, clients int) (*Relay, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start a relay to %s: %w", target, err)
	}
	ctx, hangUp := context.WithCancel(context.Background())
	r := &Relay{
		Addr: l.Addr().String(), target: target, listener: l, places: make(chan struct{}, clients), hangUp: hangUp,
		gate: make(chan struct{}), conns: map[net.Conn]bool{},
	}
	close(r.gate)
	r.running.Go(func() { r.accept(ctx) })
	return r, nil
}

// accept takes connections until Close. In a hole it takes the one that it was
// waiting for and no more: clients that give up and dial again would pile up.
func (r *Relay) accept(ctx context.Context) {
	for {
		r.pass()
		r.places <- struct{}{}
		c, err := r.listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			<-r.places
			time.Sleep(acceptAgain) // too many open files: some will be closed
			continue
		}
		r.running.Go(func() {
			defer func() { <-r.places }()
			r.serve(ctx, c)
		})
	}
}

const acceptAgain = 10 * time.Millisecond

// Close closes all connections, and returns when nothing is forwarded any more.
// After it the other methods change nothing.
func (r *Relay) Close() error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	err := r.listener.Close()
	r.hangUp()
	r.Cut()
	r.running.Wait()
	if err != nil {
		return fmt.Errorf("close a relay to %s: %w", r.target, err)
	}
	return nil
}

// Hole lets nothing through until Restore, and tells nobody: connections stay
// open, and what was sent arrives afterwards, also when its sender has given up
// by then. So it is where packets are lost, and TCP sends them again. That goes for
// a megabyte in each direction of a connection: more is not taken before Restore,
// and may be lost with its sender. The server sees no new connections meanwhile.
func (r *Relay) Hole() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.down && r.isOpen() {
		r.gate = make(chan struct{})
	}
}

// Late has everything that the server says arrive later by d, until Restore. It is
// for protocols in which a client waits for the reply before it says more: of
// replies that follow each other on one connection each is late after the one
// before.
func (r *Relay) Late(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.late = d
}

// LoseReply has the connection break as the server next says something, which
// gets lost.
func (r *Relay) LoseReply() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lose, r.lost = true, false
}

// ReplyLost reports whether a reply has been lost since the last LoseReply. It is
// false if there was none.
func (r *Relay) ReplyLost() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lost
}

// loses reports whether the reply that has come is the one to be lost.
func (r *Relay) loses() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.lose {
		return false
	}
	r.lose, r.lost = false, true
	return true
}

// Cut closes all connections, and refuses new ones until Restore. What is in a
// Hole gets lost.
func (r *Relay) Cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down = true
	for c := range r.conns {
		_ = c.Close()
	}
	r.open()
}

// Restore ends a Hole, a Cut, or what is Late.
func (r *Relay) Restore() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	r.down, r.late = false, 0
	r.open()
}

// open opens the gate. The caller has locked mu, as for isOpen.
func (r *Relay) open() {
	if !r.isOpen() {
		close(r.gate)
	}
}

func (r *Relay) isOpen() bool {
	select {
	case <-r.gate:
		return true
	default:
		return false
	}
}

// pass returns when things get through.
func (r *Relay) pass() {
	r.mu.Lock()
	gate := r.gate
	r.mu.Unlock()
	<-gate
}

// register notes a connection, to be closed by Cut. It returns false, and closes
// it, when there are to be none.
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

// serve forwards what a client and the server say until the server closes the
// connection. That the client has closed it is told to the server after all that
// it has said.
func (r *Relay) serve(ctx context.Context, client net.Conn) {
	if !r.register(client) {
		return
	}
	defer r.forget(client)
	r.pass()
	var dialer net.Dialer
	server, err := dialer.DialContext(ctx, "tcp", r.target)
	if err != nil || !r.register(server) {
		return
	}
	defer r.forget(server)

	requests, replies := newQueue(), newQueue()
	var others sync.WaitGroup
	defer others.Wait()
	defer client.Close()
	defer server.Close()
	others.Go(func() { listen(client, requests, func() bool { return false }) })
	others.Go(func() { listen(server, replies, r.loses) })
	others.Go(func() {
		r.tell(server, requests, func() {})
		_ = server.(*net.TCPConn).CloseWrite() // the client has left
	})
	r.tell(client, replies, func() { r.delay(ctx) })
}

// delay returns when a reply that has come may go on, or ctx ends.
func (r *Relay) delay(ctx context.Context) {
	r.mu.Lock()
	late := r.late
	r.mu.Unlock()
	if late <= 0 {
		return
	}
	timer := time.NewTimer(late)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// listen puts into the queue what is said, until the end of that, or until
// something is to be lost, with which the connection breaks.
func listen(from net.Conn, q *queue, lose func() bool) {
	defer q.end()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if lose() {
				_ = from.Close()
				return
			}
			q.add(buf[:n])
		}
		if err != nil {
			return
		}
	}
}

// tell says what is in the queue, each part after delay, when things get through, and
// returns when that is all. Where nobody listens any more it drops the rest: a server whose answers were
// not taken would not get to the questions behind.
func (r *Relay) tell(to net.Conn, q *queue, delay func()) {
	gone := false
	for said, more := q.take(nil); more; said, more = q.take(said) {
		delay()
		r.pass()
		if !gone {
			_, err := to.Write(said)
			gone = err != nil
		}
	}
	r.pass()
}
