package fault

import (
	"bufio"
	"context"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// lab is a relay between a client and an echo: it answers a command with its
// arguments, in one line.
type lab struct {
	client net.Conn
	read   *bufio.Reader
	served atomic.Int64
	server net.Conn // the server's end
	over   chan struct{}
}

func relay(t *testing.T, handle RedisHandler) *lab {
	t.Helper()
	client, theirs := net.Pipe()
	ours, server := net.Pipe()
	l := &lab{client: client, read: bufio.NewReader(client), server: server, over: make(chan struct{})}
	go l.echo()
	go func() {
		defer close(l.over)
		RelayRedis(context.Background(), theirs, ours, handle)
	}()
	t.Cleanup(func() {
		client.Close()
		l.mustEnd(t)
		server.Close()
	})
	return l
}

func (l *lab) echo() {
	r := bufio.NewReader(l.server)
	for {
		cmd, err := ReadCommand(r)
		if err != nil {
			return
		}
		l.served.Add(1)
		if _, err := io.WriteString(l.server, "+"+strings.Join(cmd.Args, " ")+"\r\n"); err != nil {
			return
		}
	}
}

func (l *lab) send(t *testing.T, cmds ...Command) {
	t.Helper()
	var raw []byte
	for _, cmd := range cmds {
		raw = append(raw, cmd.Raw...)
	}
	if _, err := l.client.Write(raw); err != nil {
		t.Fatal(err)
	}
}

func (l *lab) expect(t *testing.T, want string) {
	t.Helper()
	if v, err := ReadValue(l.read); err != nil || v.String() != want {
		t.Errorf("got %q, %v; want %q", v.String(), err, want)
	}
}

func (l *lab) mustEnd(t *testing.T) {
	t.Helper()
	select {
	case <-l.over:
	case <-time.After(10 * time.Second):
		t.Error("the relay goes on")
	}
}

func pass(_ context.Context, _ Command, send func() (Value, error)) (Value, error) { return send() }

func TestRelayPasses(t *testing.T) {
	l := relay(t, pass)
	l.send(t, NewCommand("GET", "a"))
	l.expect(t, "GET a")
	// Several commands at once, as a pipeline: no reply is read before the last command is written.
	l.send(t, NewCommand("GET", "1"), NewCommand("GET", "2"), NewCommand("GET", "3"))
	for _, n := range []string{"1", "2", "3"} {
		l.expect(t, "GET "+n)
	}
}

func TestRelayPassesPushes(t *testing.T) {
	l := relay(t, pass)
	go func() { _, _ = io.WriteString(l.server, ">1\r\n+news\r\n") }()
	l.expect(t, "[news]")
	l.send(t, NewCommand("GET", "a"))
	l.expect(t, "GET a")
}

// A command that is held up arrives even if its client has gone by then.
func TestRelayDeliversForWhoIsGone(t *testing.T) {
	parked, goOn := make(chan struct{}), make(chan struct{})
	l := relay(t, func(_ context.Context, _ Command, send func() (Value, error)) (Value, error) {
		close(parked)
		<-goOn
		return send()
	})
	l.send(t, NewCommand("SET", "a"))
	<-parked
	l.client.Close()
	close(goOn)
	l.mustEnd(t)
	if l.served.Load() != 1 {
		t.Error("the command did not arrive")
	}
}
