package bench

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"oversell/internal/figures"
	"oversell/internal/web"
)

// reply is what became of one request.
type reply struct {
	Target  int           // which of the shops it went to
	Latency time.Duration // from the moment all requests were let go
	Status  int           // HTTP status; 0 when the outcome was not learned
	Code    string        // names the outcome, unless it is a 200; see the codes
	Spans   []figures.Span
}

// The codes of outcomes for which the shop has no word.
const (
	codeOther     = "other"       // a reply that is not a 200, and no problem reply
	codeCutOff    = "cut_off"     // the connection ended before the reply did
	codeTimedOut  = "timed_out"   // no reply within the limit of the row
	codeNotAReply = "not_a_reply" // a reply that no shop gives
)

// burst is a crowd of requests that go all at once, each on a connection of
// its own that was opened before.
type burst struct {
	conns   []*conn
	waiting atomic.Int64 // requests whose outcome is awaited
}

// conn is one request and its connection.
type conn struct {
	net.Conn
	target int
	req    *http.Request
}

const (
	// dialers bounds the connections that are opened at once, well below what
	// a listener queues.
	dialers     = 64
	dialTimeout = 10 * time.Second
	replyBuffer = 1 << 10 // bytes; replies are small, and thousands of buffers are not
	maxReply    = 64 << 10
)

// open opens a connection for each of n requests, in turn to each target.
func open(ctx context.Context, targets []string, n int, request func(i int, target string) (*http.Request, error)) (*burst, error) {
	b := &burst{conns: make([]*conn, n)}
	var g errgroup.Group
	g.SetLimit(dialers)
	for i := range n {
		g.Go(func() error {
			t := i % len(targets)
			req, err := request(i, targets[t])
			if err != nil {
				return err
			}
			c, err := dial(ctx, req.URL)
			if err != nil {
				return fmt.Errorf("opening connection %d of %d to %s: %w", i+1, n, targets[t], err)
			}
			b.conns[i] = &conn{Conn: c, target: t, req: req}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

func dial(ctx context.Context, u *url.URL) (net.Conn, error) {
	d := &net.Dialer{Timeout: dialTimeout}
	port := u.Port()
	if u.Scheme == "https" {
		if port == "" {
			port = "443"
		}
		return (&tls.Dialer{NetDialer: d}).DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	}
	if port == "" {
		port = "80"
	}
	return d.DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
}

// close closes all connections. A reset instead of a farewell keeps the ports
// from waiting for a minute each, of which a long bench would run out.
func (b *burst) close() {
	for _, c := range b.conns {
		if c == nil {
			continue
		}
		inner := c.Conn
		if secured, ok := inner.(*tls.Conn); ok {
			inner = secured.NetConn()
		}
		if tcp, ok := inner.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // at worst the port waits
		}
		_ = c.Close() // nothing is left to be sent
	}
}

// fire lets all requests go at once and waits for the outcome of each, at most
// for the limit or until the end of ctx. It also tells when they were let go.
func (b *burst) fire(ctx context.Context, limit time.Duration) ([]reply, time.Time) {
	replies := make([]reply, len(b.conns))
	gate := make(chan struct{})
	var start time.Time
	var ready, done sync.WaitGroup
	ready.Add(len(b.conns))
	for i, c := range b.conns {
		done.Go(func() {
			ready.Done()
			<-gate
			replies[i] = c.exchange()
			replies[i].Latency = time.Since(start)
			b.waiting.Add(-1)
		})
	}
	ready.Wait()
	b.waiting.Store(int64(len(b.conns)))
	start = time.Now()
	for _, c := range b.conns {
		_ = c.SetDeadline(start.Add(limit)) // a connection that is dead already says so when it is used
	}
	stop := context.AfterFunc(ctx, b.cut)
	defer stop()
	close(gate)
	done.Wait()
	return replies, start
}

// cut ends the wait for all outcomes.
func (b *burst) cut() {
	for _, c := range b.conns {
		_ = c.SetDeadline(time.Unix(1, 0))
	}
}

// exchange sends the request and reads the reply.
func (c *conn) exchange() reply {
	res, body, err := c.roundTrip()
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return reply{Target: c.target, Code: codeTimedOut}
	case err != nil:
		return reply{Target: c.target, Code: codeCutOff}
	}
	spans, err := web.ParseHeld(res.Header.Get(web.HeldHeader))
	if err != nil {
		return reply{Target: c.target, Code: codeNotAReply}
	}
	r := reply{Target: c.target, Status: res.StatusCode, Spans: spans}
	if r.Status != http.StatusOK {
		r.Code = problemCode(body)
	}
	return r
}

func (c *conn) roundTrip() (*http.Response, []byte, error) {
	if err := c.req.Write(c.Conn); err != nil {
		return nil, nil, err
	}
	res, err := http.ReadResponse(bufio.NewReaderSize(c.Conn, replyBuffer), c.req)
	if err != nil {
		return nil, nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxReply))
	return res, body, err
}

// problemCode returns the word by which a problem reply names the outcome.
func problemCode(body []byte) string {
	var p struct {
		Code string `json:"code"`
	}
	if err := json.Unmarshal(body, &p); err != nil || p.Code == "" {
		return codeOther
	}
	return p.Code
}
