package shop_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"oversell/internal/backend/backendtest"
)

func TestShopFullOfSilentConnectionsGoesOnSelling(t *testing.T) {
	t.Parallel()
	cfg := config(backendtest.Redis(t, "embedded"), backendtest.Database(t, "embedded"), 1000)
	cfg.Connections = 8
	r := open(t, cfg)
	for range 4 * cfg.Connections {
		c, err := net.Dial("tcp", r.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	for range 3 {
		if a := r.buy(); a.status != http.StatusOK {
			t.Errorf("beside silent connections: %+v", a)
		}
		r.client.CloseIdleConnections() // each buyer has to find a place
	}
}

// A client that sends requests and never reads a reply fills all buffers between it and the
// shop, until the shop cannot write any more.
func TestClientThatSendsAndNeverReadsIsCutOff(t *testing.T) {
	cfg := config(backendtest.Redis(t, "embedded"), backendtest.Database(t, "embedded"), 1000)
	cfg.WriteTimeout = 200 * time.Millisecond
	r := open(t, cfg)
	c, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	if err := c.SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	requests := strings.Repeat("GET /api/strategies HTTP/1.1\r\nHost: "+r.addr+"\r\n\r\n", 100)
	for err == nil {
		_, err = io.WriteString(c, requests)
	}
	if e, ok := err.(net.Error); ok && e.Timeout() {
		t.Error("the shop did not cut off a client that reads nothing")
	}
	if a := r.buy(); a.status != http.StatusOK {
		t.Errorf("another client got %+v", a)
	}
}
