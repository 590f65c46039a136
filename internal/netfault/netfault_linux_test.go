package netfault

import (
	"errors"
	"net"
	"syscall"
	"testing"
	"time"
)

// deaf returns the address of a server that accepts no connections: dialling it
// takes minutes.
func deaf(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	raw, err := l.(*net.TCPListener).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var listenErr error
	if err := raw.Control(func(fd uintptr) { listenErr = syscall.Listen(int(fd), 0) }); err != nil || listenErr != nil {
		t.Fatal(err, listenErr)
	}
	for range 16 { // the first ones get a place in its queue
		c, err := net.DialTimeout("tcp", l.Addr().String(), 200*time.Millisecond)
		if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
			return l.Addr().String()
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	t.Fatal("the queue of a listener has no end")
	return ""
}

func TestCloseEndsADial(t *testing.T) {
	r, err := Start(deaf(t))
	if err != nil {
		t.Fatal(err)
	}
	dial(t, r)
	for end := time.Now().Add(limit); ; time.Sleep(time.Millisecond) {
		r.mu.Lock()
		clients := len(r.conns)
		r.mu.Unlock()
		if clients == 1 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the client is not accepted")
		}
	}
	mustClose(t, r)
}
