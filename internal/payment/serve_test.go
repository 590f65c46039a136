package payment

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Serve ends with its context, and aborts replies that are still delayed.
func TestServeEndsWithItsContext(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- newServer(Config{}).Serve(ctx, l) }()
	c, err := NewClient(ClientConfig{URL: "http://" + l.Addr().String(), Timeout: time.Minute})
	must(t, err)
	defer c.Close()
	p := authorised(t, c, "a")
	setFaults(t, c, Faults{ReplyDelay: maxFaultTime})
	waiting := make(chan error)
	go func() {
		_, err := c.Capture(t.Context(), p.ID, "c")
		waiting <- err
	}()
	for {
		now, err := c.Payment(t.Context(), p.ID)
		must(t, err)
		if now.Status == Captured {
			break
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("serving: %v", err)
	}
	if err := <-waiting; !errors.Is(err, ErrUnavailable) {
		t.Errorf("the capture: %v; want ErrUnavailable", err)
	}
	if _, err := c.Payment(t.Context(), p.ID); !errors.Is(err, ErrUnavailable) {
		t.Errorf("after the end: %v; want ErrUnavailable", err)
	}
}

func TestReadSecret(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	for text, ok := range map[string]bool{
		"0123456789abcdef\n": true, " 0123456789abcdef ": true, "": false, "\n": false, "0123456789abcde\n\n\n": false,
		string(make([]byte, maxSecret+1)): false,
	} {
		must(t, os.WriteFile(file, []byte(text), 0o600))
		got, err := ReadSecret(file)
		if ok != (err == nil) || ok && string(got) != "0123456789abcdef" {
			t.Errorf("%.40q gave %q, %v", text, got, err)
		}
	}
	if _, err := ReadSecret(file + "x"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}
