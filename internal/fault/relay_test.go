package fault

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// limit is the longest wait for an event that should happen immediately.
const limit = 10 * time.Second

// aWhile is the time to wait for an event that must not happen, and would otherwise happen immediately.
const aWhile = 20 * time.Millisecond

// echo is a server that sends each line back.
type echo struct {
	addr  string
	heard chan string
	conns chan struct{} // gets a value for each accepted connection
	done  chan struct{}
}

func newEcho(t *testing.T) *echo {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &echo{addr: l.Addr().String(), heard: make(chan string, 16), conns: make(chan struct{}, 16),
		done: make(chan struct{})}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			e.conns <- struct{}{}
			running.Go(func() { e.serve(c) })
		}
	})
	t.Cleanup(func() {
		close(e.done)
		_ = l.Close()
		running.Wait()
	})
	return e
}

func (e *echo) serve(c net.Conn) {
	defer c.Close()
	for in := bufio.NewScanner(c); in.Scan(); {
		select {
		case e.heard <- in.Text():
		case <-e.done:
			return
		}
		if _, err := fmt.Fprintln(c, in.Text()); err != nil {
			return
		}
	}
}

// next returns the next line that the server receives.
func (e *echo) next(t *testing.T) string {
	t.Helper()
	select {
	case line := <-e.heard:
		return line
	case <-time.After(limit):
		t.Fatal("the server hears nothing")
		return ""
	}
}

func (e *echo) hearsNothing(t *testing.T) {
	t.Helper()
	select {
	case line := <-e.heard:
		t.Fatalf("the server heard %q", line)
	case <-time.After(aWhile):
	}
}

// newRelay starts an echo server and a relay to it.
func newRelay(t *testing.T) (*Relay, *echo) {
	t.Helper()
	e := newEcho(t)
	r, err := StartRelay(e.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mustClose(t, r) })
	return r, e
}

func mustClose(t *testing.T, r *Relay) {
	t.Helper()
	inTime(t, "Close", func() {
		if err := r.Close(); err != nil && !errors.Is(err, net.ErrClosed) { // closing it twice is allowed
			t.Error(err)
		}
	})
}

func inTime(t *testing.T, what string, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	select {
	case <-done:
	case <-time.After(limit):
		t.Fatal(what, "does not return")
	}
}

func dial(t *testing.T, r *Relay) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", r.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(limit))
	return c
}

func say(t *testing.T, c net.Conn, line string) {
	t.Helper()
	if _, err := fmt.Fprintln(c, line); err != nil {
		t.Fatal(err)
	}
}

func hears(t *testing.T, c net.Conn, want string) {
	t.Helper()
	got := make([]byte, len(want)+1)
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want+"\n" {
		t.Fatalf("heard %q, %v; want %q", got, err, want)
	}
}

// ends checks that the connection ends before anything else is received.
func ends(t *testing.T, c net.Conn) {
	t.Helper()
	n, err := c.Read(make([]byte, 1))
	if n > 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("read %d bytes, %v; want the end of the connection", n, err)
	}
}

// talks checks that the line reaches the server, and that the client gets it back.
func talks(t *testing.T, c net.Conn, e *echo, line string) {
	t.Helper()
	say(t, c, line)
	if got := e.next(t); got != line {
		t.Fatalf("the server heard %q, want %q", got, line)
	}
	hears(t, c, line)
}

// The sender sends more than fits into the buffers of the connections, and closes its connection. All of
// it arrives after Restore.
func TestWhatIsInAHoleArrivesAfterItsSenderHasGone(t *testing.T) {
	r, e := newRelay(t)
	c := dial(t, r)
	talks(t, c, e, "before")

	r.Hole()
	const lines = 3000
	padding := strings.Repeat(".", 80)
	for i := range lines {
		say(t, c, fmt.Sprint(i, padding))
	}
	_ = c.Close()
	e.hearsNothing(t)
	r.Restore()
	for i := range lines {
		if line := e.next(t); line != fmt.Sprint(i, padding) {
			t.Fatalf("line %d of %d is %q", i, lines, line)
		}
	}
}

func TestClientThatHasLeftIsToldToTheServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r, err := StartRelay(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer mustClose(t, r)
	c := dial(t, r)
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	_ = server.SetDeadline(time.Now().Add(limit))
	_ = c.(*net.TCPConn).CloseWrite()
	ends(t, server)
	say(t, server, "farewell")
	hears(t, c, "farewell")
	_ = server.Close()
	ends(t, c)
}

func TestNobodyNewGetsThroughAHole(t *testing.T) {
	r, e := newRelay(t)
	talks(t, dial(t, r), e, "before")
	<-e.conns
	r.Hole()
	const clients = 5
	var conns []net.Conn
	for i := range clients {
		c := dial(t, r)
		say(t, c, fmt.Sprint(i))
		conns = append(conns, c)
	}
	select {
	case <-e.conns:
		t.Error("the server sees a connection through a hole")
	case <-time.After(aWhile):
	}
	r.mu.Lock()
	accepted := len(r.conns)
	r.mu.Unlock()
	if accepted -= 2; accepted > 1 { // without the two ends of the connection from before the hole
		t.Errorf("%d connections were accepted in a hole, want at most the one that was waited for", accepted)
	}
	r.Restore()
	for range clients {
		e.next(t)
	}
	for i, c := range conns {
		hears(t, c, fmt.Sprint(i))
	}
}

func TestCutBreaksConnectionsUntilRestore(t *testing.T) {
	r, e := newRelay(t)
	c := dial(t, r)
	talks(t, c, e, "one")

	r.Hole()
	say(t, c, "lost")
	r.Cut()
	ends(t, c)
	ends(t, dial(t, r))
	r.Restore()
	talks(t, dial(t, r), e, "two") // the line "lost" was dropped with the connection
}

func TestLostReplyWasExecuted(t *testing.T) {
	r, e := newRelay(t)
	c := dial(t, r)
	talks(t, c, e, "before")
	if r.ReplyLost() {
		t.Error("ReplyLost before LoseReply")
	}
	for range 2 {
		c := dial(t, r)
		r.LoseReply()
		if r.ReplyLost() {
			t.Error("ReplyLost before there was a reply")
		}
		say(t, c, "done")
		if line := e.next(t); line != "done" {
			t.Errorf("the server heard %q", line)
		}
		ends(t, c)
		if !r.ReplyLost() {
			t.Error("ReplyLost does not say so")
		}
	}
	talks(t, c, e, "after")
}

func TestNothingOpensAgainAfterClose(t *testing.T) {
	r, e := newRelay(t)
	mustClose(t, r)
	r.Restore()
	r.Hole()
	inTime(t, "pass after Close", r.pass)
	c, err := net.Dial("tcp", e.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if r.register(c) {
		t.Error("a connection is registered after Close, and nobody will close it")
	}
}

func TestCloseEndsWhateverElseIsGoingOn(t *testing.T) {
	e := newEcho(t)
	go func() {
		for {
			select {
			case <-e.conns:
			case <-e.heard:
			case <-e.done:
				return
			}
		}
	}()
	for range 100 {
		r, err := StartRelay(e.addr)
		if err != nil {
			t.Fatal(err)
		}
		var others sync.WaitGroup
		others.Go(func() {
			if c, err := net.Dial("tcp", r.Addr); err == nil {
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(limit))
				fmt.Fprintln(c, "x")
				_, _ = io.Copy(io.Discard, c) // until the relay closes the connection
			}
		})
		others.Go(func() {
			for range 20 {
				r.Hole()
				r.Restore()
			}
		})
		others.Go(r.Hole)
		mustClose(t, r)
		inTime(t, "what else there was", others.Wait)
	}
}

// If replies are delayed, a request still arrives immediately, and its reply arrives after the delay.
// Close does not wait for the reply.
func TestLateRepliesArrive(t *testing.T) {
	const late = 50 * time.Millisecond
	r, e := newRelay(t)
	c := dial(t, r)
	talks(t, c, e, "before")
	r.Late(late)
	sent := time.Now()
	talks(t, c, e, "meanwhile")
	if took := time.Since(sent); took < late {
		t.Errorf("a reply that is late by %v took %v", late, took)
	}
	r.Late(time.Hour)
	r.Restore()
	talks(t, c, e, "restored")
	r.Late(time.Hour)
	say(t, c, "never answered")
	if got := e.next(t); got != "never answered" {
		t.Errorf("the server heard %q", got)
	}
	mustClose(t, r)
}
