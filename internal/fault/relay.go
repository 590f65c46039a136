// Package fault injects faults between a program and its servers. A Relay delays, loses or holds
// back the data that it forwards. RelayRedis lets a handler decide about each command to Redis,
// and an Injector lets a hook decide about each statement to a database.
package fault

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// Relay forwards TCP connections to one server. It is safe for concurrent use.
type Relay struct {
	Addr string // host:port on loopback, to dial instead of the server

	target   string
	listener net.Listener
	hangUp   context.CancelFunc
	running  sync.WaitGroup

	mu     sync.Mutex
	gate   chan struct{} // closed while data may pass
	down   bool
	closed bool          // Restore has no effect
	late   time.Duration // delay of replies
	lose   bool          // LoseReply was called, and no reply has been lost yet
	lost   bool          // a reply has been lost since the last LoseReply
	conns  map[net.Conn]bool
}

// StartRelay starts a relay to target, a host:port. It forwards until Close.
func StartRelay(target string) (*Relay, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start a relay to %s: %w", target, err)
	}
	ctx, hangUp := context.WithCancel(context.Background())
	r := &Relay{
		Addr: l.Addr().String(), target: target, listener: l, hangUp: hangUp,
		gate: make(chan struct{}), conns: map[net.Conn]bool{},
	}
	close(r.gate)
	r.running.Go(func() { r.accept(ctx) })
	return r, nil
}

// accept accepts connections until Close. After Hole it accepts only the one connection that it was already
// waiting for. Otherwise the connections of clients that give up and dial again would pile up.
func (r *Relay) accept(ctx context.Context) {
	for {
		r.pass()
		c, err := r.listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			time.Sleep(acceptAgain) // there may be too many open files, and some will be closed
			continue
		}
		r.running.Go(func() { r.serve(ctx, c) })
	}
}

const acceptAgain = 10 * time.Millisecond

// Close closes all connections, and returns when forwarding has stopped. Afterwards the other
// methods have no effect.
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

// maxHeld is the number of parts, of 32 KiB at most, that a Relay holds back in each direction of a
// connection.
const maxHeld = 1024

// Hole stops forwarding until Restore. Connections stay open, and data that was sent arrives after
// Restore, even if its sender has given up, as if packets were lost and TCP retransmitted them.
// This applies to the first maxHeld parts in each direction of a connection. Further data is not read
// before Restore, and may be lost if its sender closes the connection. The server gets no new
// connections.
func (r *Relay) Hole() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.down && r.isOpen() {
		r.gate = make(chan struct{})
	}
}

// Late delays all data from the server by d, until Restore. Use it only for protocols in which a
// client waits for the reply before it sends more, because the delays of consecutive replies on one
// connection add up.
func (r *Relay) Late(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.late = d
}

// LoseReply drops the next reply of the server and breaks the connection of that reply.
func (r *Relay) LoseReply() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lose, r.lost = true, false
}

// ReplyLost reports whether a reply has been lost since the last call to LoseReply.
func (r *Relay) ReplyLost() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lost
}

func (r *Relay) loses() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.lose {
		return false
	}
	r.lose, r.lost = false, true
	return true
}

// Cut closes all connections, and refuses new ones until Restore. Data that Hole holds back is lost.
func (r *Relay) Cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down = true
	for c := range r.conns {
		_ = c.Close()
	}
	r.open()
}

// Restore ends the effects of Hole, Cut, Late and LoseReply.
func (r *Relay) Restore() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	r.down, r.late, r.lose = false, 0, false
	r.open()
}

// open opens the gate. The callers of open and isOpen must hold mu.
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

func (r *Relay) pass() {
	r.mu.Lock()
	gate := r.gate
	r.mu.Unlock()
	<-gate
}

// register adds a connection to those that Cut closes. If Cut is in effect, register closes the
// connection and returns false.
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

// serve forwards between a client and the server until the server closes its connection. If the client closes
// its connection, the server learns of that after it has received all data that the client sent.
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

	requests, replies := make(chan []byte, maxHeld), make(chan []byte, maxHeld)
	var others sync.WaitGroup
	defer others.Wait()
	defer client.Close()
	defer server.Close()
	others.Go(func() { listen(client, requests, func() bool { return false }) })
	others.Go(func() { listen(server, replies, r.loses) })
	others.Go(func() {
		r.tell(server, requests, func() {})
		_ = server.(*net.TCPConn).CloseWrite() // the client has closed its connection
	})
	r.tell(client, replies, func() { r.delay(ctx) })
}

func (r *Relay) delay(ctx context.Context) {
	r.mu.Lock()
	late := r.late
	r.mu.Unlock()
	if late <= 0 {
		return
	}
	select {
	case <-time.After(late):
	case <-ctx.Done():
	}
}

// listen reads from the connection into parts until the connection ends. If lose returns true for a
// part, listen drops that part and closes the connection.
func listen(from net.Conn, parts chan<- []byte, lose func() bool) {
	defer close(parts)
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if lose() {
				_ = from.Close()
				return
			}
			parts <- bytes.Clone(buf[:n])
		}
		if err != nil {
			return
		}
	}
}

// tell forwards the parts to their receiver until they end. It joins the parts that are there, calls
// delay, and waits while the gate is closed. If the receiver is gone, tell drops the remaining data,
// because a server whose replies are not read would not read further requests.
func (r *Relay) tell(to net.Conn, parts <-chan []byte, delay func()) {
	gone := false
	for said := range parts {
		for len(parts) > 0 {
			said = append(said, <-parts...)
		}
		delay()
		r.pass()
		if !gone {
			_, err := to.Write(said)
			gone = err != nil
		}
	}
	r.pass()
}
