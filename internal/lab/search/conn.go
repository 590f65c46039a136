package search

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"oversell/internal/lab/wire"
)

// conn is a connection of a buyer's client that has no server: each command on it stays
// open until the run answers it. Connections of one run share its mutex.
type conn struct {
	r        *run
	unread   []byte         // of a command that is not complete
	queue    []wire.Command // after the one that is open
	open     *command       // nil: the next command is taken from queue
	replies  bytes.Buffer   // what the client has not read
	arrived  chan struct{}  // has a value when a Read may go on
	closed   bool           // by the client
	broken   bool           // by the run
	deadline time.Time      // of Read

	held bool          // its set-up waits until the process goes on
	from time.Duration // when that began, since the buyer came
}

// command is one that a buyer's client has sent, and that has no reply yet.
type command struct {
	id       int // within the run; 0: not yet numbered
	conn     *conn
	wire     wire.Command // with stand-ins for what is random
	text     string
	since    time.Duration // when it was sent, since the buyer came
	from     time.Duration // when the program began to send it: its connection may have come later
	watchdog bool          // the buyer's own line of work does not wait for it
	givenUp  bool          // nobody waits for its reply any more
	late     wire.Value    // its reply, while the process is frozen
	cut      bool          // the connection breaks when the process goes on
}

// Write takes commands.
func (c *conn) Write(p []byte) (int, error) {
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
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
func (c *conn) next() {
	for c.open == nil && len(c.queue) > 0 && !c.closed && !c.broken {
		cmd := c.queue[0]
		if cmd.SetUp() && c.r.thawed != nil {
			if !c.held {
				c.held, c.from = true, time.Since(c.r.start)
				c.r.changed()
			}
			return // thaw calls next
		}
		c.queue = c.queue[1:]
		if reply := c.r.immediate(&cmd); reply != nil {
			c.give(reply)
			continue
		}
		c.open = c.r.opened(c, cmd)
		c.held = false
	}
}

// give lets the client read a reply.
func (c *conn) give(reply []byte) {
	c.replies.Write(reply)
	c.notify()
}

func (c *conn) notify() {
	select {
	case c.arrived <- struct{}{}:
	default:
	}
}

// Read waits for a reply.
func (c *conn) Read(p []byte) (int, error) {
	for {
		c.r.mu.Lock()
		n, err := c.take(p)
		deadline := c.deadline
		c.r.mu.Unlock()
		if n > 0 || err != nil {
			return n, err
		}
		if err := c.wait(deadline); err != nil {
			return 0, err
		}
	}
}

func (c *conn) take(p []byte) (int, error) {
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

func (c *conn) wait(deadline time.Time) error {
	if deadline.IsZero() {
		<-c.arrived
		return nil
	}
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case <-c.arrived:
		return nil
	case <-timer.C:
		return os.ErrDeadlineExceeded
	}
}

// Close is called by the client: what is open may arrive all the same.
func (c *conn) Close() error {
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	c.closed, c.queue = true, nil
	if c.held {
		c.held = false
		c.r.changed()
	}
	if c.open != nil && !c.open.givenUp {
		c.open.givenUp = true
		c.r.changed()
	}
	c.notify()
	return nil
}

// cut breaks the connection.
func (c *conn) cut() {
	c.broken, c.queue = true, nil
	c.notify()
}

func (c *conn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

func (c *conn) SetReadDeadline(t time.Time) error {
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	c.deadline = t
	return nil
}

// SetWriteDeadline does nothing: a Write does not wait.
func (c *conn) SetWriteDeadline(time.Time) error { return nil }

func (c *conn) LocalAddr() net.Addr  { return nowhere{} }
func (c *conn) RemoteAddr() net.Addr { return nowhere{} }

// nowhere is the address of both ends.
type nowhere struct{}

func (nowhere) Network() string { return "memory" }
func (nowhere) String() string  { return "memory" }

// commandText tells commands apart. A script is named by the commands in it and its
// length: enough where all are known.
func commandText(cmd wire.Command) string {
	args := cmd.Args[1:]
	if cmd.Script() && len(args) > 0 {
		args = slices.Clone(args)
		args[0] = scriptName(args[0])
	}
	return cmd.Name() + " " + strings.Join(args, " ")
}
