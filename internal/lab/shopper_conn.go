package lab

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"os"
	"time"

	"oversell/internal/lab/wire"
)

// shopperConn is a connection of a shopper that has no server: each command on it stays open
// until it is answered. Connections of one shopper share its mutex.
type shopperConn struct {
	s        *Shopper
	index    int
	unread   []byte         // of a command that is not complete
	queue    []wire.Command // after the one that is open
	open     *Request       // nil: the next command is taken from queue
	replies  bytes.Buffer   // what the client has not read
	arrived  chan struct{}  // has a value when a Read may go on
	closed   bool           // by the client
	broken   bool           // by the other side
	deadline time.Time      // of Read

	held bool          // its set-up waits until the process goes on
	from time.Duration // when that began, since Begin
}

// Write takes commands.
func (c *shopperConn) Write(p []byte) (int, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.closed || c.broken {
		return 0, net.ErrClosed
	}
	c.unread = append(c.unread, p...)
	for len(c.unread) > 0 {
		in := bytes.NewReader(c.unread)
		r := bufio.NewReader(in)
		cmd, err := wire.ReadCommand(r)
		if err != nil {
			break // the rest comes with the next Write
		}
		c.unread = c.unread[len(c.unread)-in.Len()-r.Buffered():]
		c.queue = append(c.queue, cmd)
	}
	c.next()
	return len(p), nil
}

// next opens the first command in the queue, and answers those that need no decision.
func (c *shopperConn) next() {
	for c.open == nil && len(c.queue) > 0 && !c.closed && !c.broken {
		cmd := c.queue[0]
		if cmd.SetUp() && c.s.frozen {
			if !c.held {
				c.held, c.from = true, time.Since(c.s.start)
				c.s.changed()
			}
			return // Thaw calls next
		}
		c.queue = c.queue[1:]
		reply := wire.Value(nil)
		if cmd.SetUp() {
			reply = c.s.SetUp(c.index, cmd)
		} else {
			c.open, reply = c.s.opened(c, cmd)
		}
		if reply != nil {
			c.give(reply)
		}
	}
}

// give lets the client read a reply.
func (c *shopperConn) give(reply []byte) {
	c.replies.Write(reply)
	c.notify()
}

func (c *shopperConn) notify() {
	select {
	case c.arrived <- struct{}{}:
	default:
	}
}

// Read waits for a reply.
func (c *shopperConn) Read(p []byte) (int, error) {
	for {
		c.s.mu.Lock()
		n, err := c.take(p)
		deadline := c.deadline
		c.s.mu.Unlock()
		if n > 0 || err != nil {
			return n, err
		}
		var over <-chan time.Time
		if !deadline.IsZero() {
			over = time.After(time.Until(deadline))
		}
		select {
		case <-c.arrived:
		case <-over:
			return 0, os.ErrDeadlineExceeded
		}
	}
}

func (c *shopperConn) take(p []byte) (int, error) {
	switch {
	case c.closed:
		return 0, net.ErrClosed
	case c.replies.Len() > 0:
		return c.replies.Read(p)
	case c.broken:
		return 0, io.EOF
	}
	return 0, nil
}

// Close is called by the client: what is open may arrive all the same.
func (c *shopperConn) Close() error {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.closed, c.queue, c.held = true, nil, false
	if c.open != nil {
		c.open.GivenUp = true
	}
	c.s.changed()
	c.notify()
	return nil
}

// breakOff breaks the connection.
func (c *shopperConn) breakOff() {
	c.broken, c.queue = true, nil
	c.notify()
}

// SetReadDeadline says until when a Read waits.
func (c *shopperConn) SetReadDeadline(t time.Time) error {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.deadline = t
	return nil
}

func (c *shopperConn) SetDeadline(t time.Time) error    { return c.SetReadDeadline(t) }
func (c *shopperConn) SetWriteDeadline(time.Time) error { return nil } // a Write does not wait
func (c *shopperConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c *shopperConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
