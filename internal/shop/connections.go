package shop

import (
	"container/list"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// silence is how long a connection may stay without its first request while
	// others wait for its place.
	silence = time.Second

	// acceptPause is how long the shop waits after it could not accept a
	// connection, as when the process has no file left.
	acceptPause = 50 * time.Millisecond

	// fullLogPause keeps the log of a shop that is full short.
	fullLogPause = 10 * time.Second

	// writePiece is written within one time limit. A client on a slow line gets
	// a large reply in many pieces, each with a limit of its own.
	writePiece = 64 << 10
)

// connections is a listener that bounds how many connections are open. Those that
// are too many wait, the first of them in the shop and the others in the queue of
// the operating system. While they wait, a connection without a request under way
// is closed to make room: one that has sent nothing since it was opened, or the one
// that has been idle for the longest time. Nothing that goes wrong with a connection
// ends the listener.
//
// It also bounds how long a client may take to read what is sent to it.
type connections struct {
	net.Listener
	most         int
	writeTimeout time.Duration
	log          *slog.Logger

	ended chan struct{} // closed by Close
	end   sync.Once
	freed chan struct{} // says that a place may be free

	crowded atomic.Bool // a connection waits for a place

	mu       sync.Mutex
	open     map[*connection]struct{}
	silent   *list.List // of those without a request so far, the oldest first
	idle     *list.List // of those between two requests, the first in the longest
	draining bool       // connections without a request are closed at once
	toldAt   time.Time  // when the log last heard that the shop is full
}

// connection is an open connection.
type connection struct {
	net.Conn
	of      *connections
	closing sync.Once

	accepted time.Time     // when it got its place; by of.mu, as what follows
	in       *list.List    // silent, idle or nil
	place    *list.Element // in it

	mu       sync.Mutex
	deadline time.Time // for writing, as a handler has set it
}

func newConnections(l net.Listener, most int, writeTimeout time.Duration, log *slog.Logger) *connections {
	return &connections{
		Listener: l, most: max(most, 1), writeTimeout: writeTimeout, log: log,
		ended: make(chan struct{}), freed: make(chan struct{}, 1),
		open: make(map[*connection]struct{}), silent: list.New(), idle: list.New(),
	}
}

// Accept returns the next connection when there is a place for it. Its only error
// is that the listener was closed.
func (l *connections) Accept() (net.Conn, error) {
	for {
		inner, err := l.Listener.Accept()
		if err == nil {
			c := &connection{Conn: inner, of: l}
			if l.admit(c) {
				return c, nil
			}
			_ = inner.Close() // there is nobody to tell
			return nil, net.ErrClosed
		}
		if errors.Is(err, net.ErrClosed) || l.isEnded() {
			return nil, net.ErrClosed
		}
		l.tell("a connection cannot be accepted", "error", err)
		l.makeRoom()
		l.pause(acceptPause)
	}
}

// Close ends the listener, and the wait for a place.
func (l *connections) Close() error {
	l.end.Do(func() { close(l.ended) })
	return l.Listener.Close()
}

func (l *connections) isEnded() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

// admit gives c a place, and waits for one if need be. It returns false when the
// listener is closed.
func (l *connections) admit(c *connection) bool {
	defer l.crowded.Store(false)
	for {
		if l.isEnded() {
			return false
		}
		if l.add(c) {
			return true
		}
		l.crowded.Store(true)
		l.tell("all places for connections are taken", "connections", l.most)
		if !l.makeRoom() {
			l.pause(acceptPause)
		}
	}
}

// add gives c a place if there is one.
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

// makeRoom closes a connection that no request needs, and reports whether there was
// one.
func (l *connections) makeRoom() bool {
	c := l.superfluous()
	if c == nil {
		return false
	}
	_ = c.Close() // there is nobody to tell
	return true
}

// superfluous returns the connection that can best be done without, or nil.
func (l *connections) superfluous() *connection {
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

// pause waits until something has changed, for d at most.
func (l *connections) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-l.freed:
	case <-l.ended:
	case <-timer.C:
	}
}

// wake ends a pause.
func (l *connections) wake() {
	select {
	case l.freed <- struct{}{}:
	default:
	}
}

// tell logs a warning, and not again for a while.
func (l *connections) tell(what string, args ...any) {
	l.mu.Lock()
	silent := !l.toldAt.IsZero() && time.Since(l.toldAt) < fullLogPause
	if !silent {
		l.toldAt = time.Now()
	}
	l.mu.Unlock()
	if !silent {
		l.log.Warn(what, args...)
	}
}

// track is the ConnState of the server.
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

// closeSilent closes the connections on which no request has begun, those that come
// later too. Shutdown would wait seconds for each to become one, although a browser
// opens some that it never uses.
func (l *connections) closeSilent() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.draining = true
	for e := l.silent.Front(); e != nil; e = e.Next() {
		_ = e.Value.(*connection).Conn.Close() // the server sees it, and calls Close
	}
}

// oneEach tells a client whose request comes while connections wait for a place that
// its own will be closed after the reply. It then sends no further request on it, of
// which it would never learn whether it was heard.
func (l *connections) oneEach(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if l.crowded.Load() {
			w.Header().Set("Connection", "close")
		}
		h.ServeHTTP(w, r)
	})
}

// enter and leave are called with of.mu.
func (c *connection) enter(in *list.List) { c.in, c.place = in, in.PushBack(c) }

func (c *connection) leave() {
	if c.in != nil {
		c.in.Remove(c.place)
		c.in, c.place = nil, nil
	}
}

// Close closes the connection and gives its place to another. It may be called more
// than once.
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

// Write writes p in pieces. Each of them has to be taken by the client, or by the
// buffers on the way, within the time limit; a handler may have set a shorter one.
// How long the handler takes before it writes does not matter.
func (c *connection) Write(p []byte) (n int, err error) {
	for {
		piece := p[n:min(n+writePiece, len(p))]
		if err := c.Conn.SetWriteDeadline(c.until()); err != nil {
			return n, err
		}
		wrote, err := c.Conn.Write(piece)
		if n += wrote; err != nil || n == len(p) {
			return n, err
		}
	}
}

// until is the end of the time for a write that begins now.
func (c *connection) until() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	end := time.Now().Add(c.of.writeTimeout)
	if !c.deadline.IsZero() && c.deadline.Before(end) {
		return c.deadline
	}
	return end
}

// SetWriteDeadline sets a limit that a handler wants beside that of each write.
func (c *connection) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
	return c.Conn.SetWriteDeadline(t)
}

// SetDeadline is SetReadDeadline and SetWriteDeadline.
func (c *connection) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}
