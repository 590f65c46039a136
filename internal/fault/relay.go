// Package fault injects faults between a program and its servers: a Relay delays, loses or holds
// what it forwards, RelayRedis lets a handler decide about each command to Redis, and an Injector
// does so with the statements of a database.
package fault

import (
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
	closed bool          // Restore has no effect any more
	late   time.Duration // delay of replies
	lose   bool          // the next reply
	lost   bool          // LoseReply has lost its reply
	conns  map[net.Conn]bool
}

// StartRelay forwards to target, a host:port, until Close.
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

// accept accepts connections until Close. During a Hole it accepts only the one that it was
// waiting for: clients that give up and dial again would pile up.
func (r *Relay) accept(ctx context.Context) {
	for {
		r.pass()
		c, err := r.listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			time.Sleep(acceptAgain) // too many open files, perhaps: some will be closed
			continue
		}
		r.running.Go(func() { r.serve(ctx, c) })
	}
}

const acceptAgain = 10 * time.Millisecond

// Close closes all connections, and returns when nothing is forwarded any more. After that
// the other methods have no effect.
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

// Hole forwards nothing until Restore. Connections stay open, and what was sent arrives
// afterwards, even if its sender has given up: as when packets are lost and TCP retransmits
// them. This holds for a megabyte in each direction of a connection; more is not read
// before Restore, and may be lost with its sender. The server gets no new connections.
func (r *Relay) Hole() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.down && r.isOpen() {
		r.gate = make(chan struct{})
	}
}

// Late delays everything that the server sends by d, until Restore. It is for protocols in
// which a client waits for the reply before it sends more: the delays of consecutive
// replies on one connection add up.
func (r *Relay) Late(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.late = d
}

// LoseReply makes the next reply of the server get lost and its connection break.
func (r *Relay) LoseReply() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lose, r.lost = true, false
}

// ReplyLost reports whether the reply of the last LoseReply has been lost.
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

// Cut closes all connections, and refuses new ones until Restore. What is held by a Hole is
// lost.
func (r *Relay) Cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down = true
	for c := range r.conns {
		_ = c.Close()
	}
	r.open()
}

// Restore ends Hole, Cut and Late.
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

func (r *Relay) pass() {
	r.mu.Lock()
	gate := r.gate
	r.mu.Unlock()
	<-gate
}

// register adds a connection for Cut to close. During a Cut it closes the connection and returns
// false.
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

// serve forwards between a client and the server until the server closes the connection. When the
// client closes it, the server learns of it after everything that was sent before.
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

// listen reads into the queue until the connection ends, or breaks it when a reply is to be
// lost.
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

// tell forwards the queue to its receiver, and returns when the queue has ended. It calls delay
// before each part, and waits while nothing may pass. If the receiver has gone it drops the rest: a
// server whose replies are not read would not read further requests.
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

// maxHeld bounds a queue, in bytes. Adding more waits.
const maxHeld = 1 << 20

// queue holds what one side has sent until it is forwarded. One goroutine adds to it and one
// takes from it.
type queue struct {
	mu      sync.Mutex
	changed sync.Cond
	held    []byte
	ended   bool
}

func newQueue() *queue {
	q := new(queue)
	q.changed.L = &q.mu
	return q
}

// add waits until there is room, and copies p.
func (q *queue) add(p []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.held) > 0 && len(q.held)+len(p) > maxHeld {
		q.changed.Wait()
	}
	q.held = append(q.held, p...)
	q.changed.Signal()
}

func (q *queue) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = true
	q.changed.Signal()
}

// take waits for data and returns all there is, or false at the end. The caller passes in
// the last buffer to be reused.
func (q *queue) take(last []byte) ([]byte, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.held) == 0 && !q.ended {
		q.changed.Wait()
	}
	all := q.held
	q.held = last[:0]
	q.changed.Signal()
	return all, len(all) > 0
}
