package shop

import (
	"container/list"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"oversell/internal/guard"
)

const (
	// silence is how long a new connection may stay open without a request while others are
	// waiting.
	silence = time.Second

	// acceptPause is how long the shop waits after it failed to accept a connection,
	// for example because the process has no file descriptor left.
	acceptPause = 50 * time.Millisecond

	// fullLogPause is the time between two warnings that the shop is full.
	fullLogPause = 10 * time.Second

	// writePiece is how many bytes are written within one time limit. A large reply reaches a slow
	// client in many pieces, each with its own limit.
	writePiece = 64 << 10
)

// connections is a listener that limits how many connections are open. Further connections wait,
// the first in the shop and the others in the operating system's queue. While connections are
// waiting, a connection without a running request is closed to make room: one that has sent nothing
// since it was opened, or else the one that has been idle longest. An error of a single connection
// does not end the listener.
//
// It also limits how long a client may take to read a reply.
type connections struct {
	net.Listener
	most         int
	writeTimeout time.Duration
	log          *slog.Logger
	warnings     guard.LogLimit

	ctx   context.Context // ends with Close
	end   context.CancelFunc
	freed chan struct{} // receives a value when there may be room; ends pause

	crowded atomic.Bool // whether a connection is waiting to be admitted

	mu       sync.Mutex
	open     map[*connection]struct{}
	silent   *list.List // connections that have not sent a request yet, the oldest first
	idle     *list.List // connections between two requests, the one that has been idle longest first
	draining bool       // connections without a request are closed immediately
}

// connection is an open connection.
type connection struct {
	net.Conn
	of      *connections
	closing sync.Once

	// Guarded by of.mu.
	accepted time.Time     // when it was admitted
	in       *list.List    // of.silent, of.idle or nil
	element  *list.Element // its element in that list
}

func newConnections(l net.Listener, most int, writeTimeout time.Duration, log *slog.Logger) *connections {
	ctx, end := context.WithCancel(context.Background())
	return &connections{
		Listener: l, most: max(most, 1), writeTimeout: writeTimeout, log: log,
		warnings: guard.LogLimit{Every: fullLogPause}, ctx: ctx, end: end, freed: make(chan struct{}, 1),
		open: make(map[*connection]struct{}), silent: list.New(), idle: list.New(),
	}
}

// Accept waits until there is room for another connection, and returns the next one. Its only error
// is net.ErrClosed.
func (l *connections) Accept() (net.Conn, error) {
	for {
		inner, err := l.Listener.Accept()
		if err == nil {
			c := &connection{Conn: inner, of: l}
			if l.admit(c) {
				return c, nil
			}
			_ = inner.Close()
			return nil, net.ErrClosed
		}
		if errors.Is(err, net.ErrClosed) || l.ctx.Err() != nil {
			return nil, net.ErrClosed
		}
		l.warnings.Log(l.log, slog.LevelWarn, "accepting a connection failed", "error", err)
		l.makeRoom()
		l.pause(acceptPause)
	}
}

// Close ends the listener, and the wait to be admitted.
func (l *connections) Close() error {
	l.end()
	return l.Listener.Close()
}

// admit waits until there is room for c, and adds it. It returns false when the listener
// is closed.
func (l *connections) admit(c *connection) bool {
	defer l.crowded.Store(false)
	for l.ctx.Err() == nil {
		if l.add(c) {
			return true
		}
		l.crowded.Store(true)
		l.warnings.Log(l.log, slog.LevelWarn, "the limit of connections is reached", "connections", l.most)
		if !l.makeRoom() {
			l.pause(acceptPause)
		}
	}
	return false
}

// add adds c to the open connections, if there is room.
func (l *connections) add(c *connection) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) >= l.most {
		return false
	}
	c.accepted = time.Now()
	l.open[c] = struct{}{}
	return true
}

// makeRoom closes a connection without a running request, and reports whether there was one.
func (l *connections) makeRoom() bool {
	c := l.leastUseful()
	if c == nil {
		return false
	}
	_ = c.Close()
	return true
}

// leastUseful returns the connection to close next, or nil.
func (l *connections) leastUseful() *connection {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.silent.Front(); e != nil && time.Since(e.Value.(*connection).accepted) >= silence {
		return e.Value.(*connection)
	}
	if e := l.idle.Front(); e != nil {
		return e.Value.(*connection)
	}
	return nil
}

// pause waits until a connection becomes idle or is closed, but no longer than d.
func (l *connections) pause(d time.Duration) {
	select {
	case <-l.freed:
	case <-l.ctx.Done():
	case <-time.After(d):
	}
}

// wake ends a pause.
func (l *connections) wake() {
	select {
	case l.freed <- struct{}{}:
	default:
	}
}

// track implements http.Server.ConnState.
func (l *connections) track(conn net.Conn, state http.ConnState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c, ours := conn.(*connection)
	if !ours {
		return
	}
	if _, open := l.open[c]; !open {
		return
	}
	c.leave()
	switch state {
	case http.StateNew:
		if l.draining {
			_ = c.Conn.Close() // the server sees it, and calls Close
			return
		}
		c.enter(l.silent)
	case http.StateIdle:
		c.enter(l.idle)
		l.wake()
	}
}

// closeSilent closes the connections that have not sent a request, and later does the same to new
// ones. Browsers open connections that they never use, and Shutdown would wait seconds for a
// request on each.
func (l *connections) closeSilent() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.draining = true
	for e := l.silent.Front(); e != nil; e = e.Next() {
		_ = e.Value.(*connection).Conn.Close() // the server sees it, and calls Close
	}
}

// closeIfCrowded sends the header "Connection: close" with each reply while connections are waiting
// to be admitted. Otherwise the client might send another request on a connection that is just
// being closed, and not know whether the request was received.
func (l *connections) closeIfCrowded(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if l.crowded.Load() {
			w.Header().Set("Connection", "close")
		}
		h.ServeHTTP(w, r)
	})
}

// The caller of enter or leave must have locked of.mu.
func (c *connection) enter(in *list.List) { c.in, c.element = in, in.PushBack(c) }

func (c *connection) leave() {
	if c.in != nil {
		c.in.Remove(c.element)
		c.in, c.element = nil, nil
	}
}

// Close closes the connection and makes room for another. It may be called more than once.
func (c *connection) Close() error {
	err := net.ErrClosed
	c.closing.Do(func() {
		err = c.Conn.Close()
		c.of.mu.Lock()
		defer c.of.mu.Unlock()
		c.leave()
		delete(c.of.open, c)
		c.of.wake()
	})
	return err
}

// Write writes p in pieces. The client, or the buffers in between, must accept each piece
// within writeTimeout. How long the handler takes before it writes does not matter.
func (c *connection) Write(p []byte) (n int, err error) {
	for {
		piece := p[n:min(n+writePiece, len(p))]
		if err := c.Conn.SetWriteDeadline(time.Now().Add(c.of.writeTimeout)); err != nil {
			return n, err
		}
		wrote, err := c.Conn.Write(piece)
		if n += wrote; err != nil || n == len(p) {
			return n, err
		}
	}
}
