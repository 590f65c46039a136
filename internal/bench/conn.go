package bench

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"oversell/internal/figures"
	"oversell/internal/web"
)

// reply is what became of one request.
type reply struct {
	Request  int           // which of the row's requests it was
	Target   int           // which of the shops it went to
	At       time.Duration // when, from the moment the load began
	Latency  time.Duration // from the moment it was let go, or should have been, to its outcome
	Service  time.Duration // from the moment it was sent
	Status   int           // HTTP status; 0 when there was no reply
	Code     string        // names the outcome, unless it is a 200; see the codes
	Order    string        // id of the order that a 200 names; "": none that can be read
	Quantity int64         // units that a 200 names
	Spans    []figures.Span
}

// The codes of outcomes for which the shop has no word.
const (
	codeOther     = "other"         // a reply that is not a 200, and no problem reply
	codeCutOff    = "cut_off"       // the connection ended before the reply did
	codeTimedOut  = "timed_out"     // no reply within the limit of the row
	codeNotAReply = "not_a_reply"   // a reply that no shop gives
	codeNoConn    = "no_connection" // it was never sent, for the shop took no connection
)

// learned reports whether the outcome is known. Of what was never sent it is.
func (r reply) learned() bool { return r.Status != 0 || r.Code == codeNoConn }

// conn is a connection to a shop.
type conn struct {
	net.Conn
	target int
	reader *bufio.Reader
}

const (
	dialTimeout = 10 * time.Second
	replyBuffer = 1 << 10 // bytes; replies are small, and thousands of buffers are not
	maxReply    = 64 << 10
)

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

// reset closes the connection. A reset instead of a farewell keeps the port from
// waiting for a minute, of which a long bench would run out.
func (c *conn) reset() {
	inner := c.Conn
	if secured, ok := inner.(*tls.Conn); ok {
		inner = secured.NetConn()
	}
	if tcp, ok := inner.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // at worst the port waits
	}
	_ = c.Close() // nothing is left to be sent
}

// cut ends the wait for a reply.
func (c *conn) cut() { _ = c.SetDeadline(time.Unix(1, 0)) }

// exchange sends the request and reads the reply. It also tells whether the
// connection can be used again.
func (c *conn) exchange(req *http.Request) (r reply, again bool) {
	r.Target = c.target
	res, body, err := c.roundTrip(req)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		r.Code = codeTimedOut
		return r, false
	case err != nil:
		r.Code = codeCutOff
		return r, false
	}
	again = !res.Close && len(body) < maxReply
	if r.Spans, err = web.ParseHeld(res.Header.Get(web.HeldHeader)); err != nil {
		r.Code = codeNotAReply
		return r, again
	}
	r.Status = res.StatusCode
	switch {
	case r.Status != http.StatusOK:
		r.Code = problemCode(body)
	case req.Method == http.MethodPost:
		r.Order, r.Quantity = namedOrder(body)
	}
	return r, again
}

func (c *conn) roundTrip(req *http.Request) (*http.Response, []byte, error) {
	if err := req.Write(c.Conn); err != nil {
		return nil, nil, err
	}
	if c.reader == nil {
		c.reader = bufio.NewReaderSize(c.Conn, replyBuffer)
	}
	res, err := http.ReadResponse(c.reader, req)
	if err != nil {
		return nil, nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxReply))
	return res, body, err
}

// namedOrder returns the order that a 200 names; "" where it names none.
func namedOrder(body []byte) (id string, quantity int64) {
	if id, quantity, ok := namedFirst(body); ok {
		return id, quantity
	}
	var sold struct {
		Order    string `json:"order_id"`
		Quantity int64  `json:"quantity"`
	}
	if err := json.Unmarshal(body, &sold); err != nil {
		return "", 0
	}
	return sold.Order, sold.Quantity
}

// namedFirst is namedOrder for a reply that begins with the order's id, as this
// project's shops write it, and false for any other. The bench shares the processor
// with the shops, and to read all of the JSON takes half as long as the reply itself.
func namedFirst(body []byte) (id string, quantity int64, ok bool) {
	rest, begins := bytes.CutPrefix(body, []byte(`{"order_id":"`))
	name, rest, ends := bytes.Cut(rest, []byte(`"`))
	_, number, found := bytes.Cut(rest, []byte(`,"quantity":`))
	number, _, more := bytes.Cut(number, []byte(`,`))
	if !begins || !ends || !found || !more || bytes.ContainsFunc(name, notInID) {
		return "", 0, false
	}
	quantity, err := strconv.ParseInt(string(number), 10, 64)
	return string(name), quantity, err == nil
}

// notInID reports whether a character is in no id, and may stand for another one.
func notInID(r rune) bool {
	return r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z')
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
