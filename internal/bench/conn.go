package bench

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"oversell/internal/figures"
	"oversell/internal/web"
)

// reply is the outcome of one request.
type reply struct {
	Request  int           // the request's number in the row
	Target   int           // index of the shop
	At       time.Duration // from the start of the load
	Latency  time.Duration // from the common start, or the planned time, to the outcome
	Service  time.Duration // from the moment it was sent to the outcome
	Status   int           // HTTP status; 0: no reply
	Code     string        // set if the outcome is not a 200
	Order    string        // id in a 200; "": none
	Quantity int64         // units in a 200
	CutOff   bool          // an earlier attempt may have succeeded, so the buyer may have an order
	Spans    []figures.Span
}

// The bench's own codes, for outcomes without a code from the shop.
const (
	codeOther     = "other"         // a reply that is neither a 200 nor a problem reply
	codeCutOff    = "cut_off"       // the connection ended before the reply
	codeTimedOut  = "timed_out"     // no reply within the limit of the row
	codeNotAReply = "not_a_reply"   // a reply that no shop sends
	codeNoConn    = "no_connection" // never sent: the shop accepted no connection
)

// learned reports whether the outcome is known. The outcome of a request that was never sent is
// known.
func (r reply) learned() bool { return r.Status != 0 || r.Code == codeNoConn }

// served reports whether the reply confirms a purchase, or has the value that a reader asked for.
func (r reply) served() bool { return r.Status == http.StatusOK || r.Status == http.StatusAccepted }

// conn is a connection to a shop.
type conn struct {
	net.Conn
	target int
	reader *bufio.Reader
	until  time.Time // while idle: the time after which it is too old to be used
}

const (
	dialTimeout = 10 * time.Second
	replyBuffer = 1 << 10 // bytes; small, because there are thousands of connections
	maxReply    = 64 << 10
)

func dial(ctx context.Context, u *url.URL) (net.Conn, error) {
	d := &net.Dialer{Timeout: dialTimeout}
	addr := net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), u.Scheme)) // the scheme is a name of its port, too
	if u.Scheme == "https" {
		return (&tls.Dialer{NetDialer: d}).DialContext(ctx, "tcp", addr)
	}
	return d.DialContext(ctx, "tcp", addr)
}

// reset closes the connection with a TCP reset: otherwise its port would be in TIME_WAIT
// for a minute, and a long bench would run out of ports.
func (c *conn) reset() {
	inner := c.Conn
	if secured, ok := inner.(*tls.Conn); ok {
		inner = secured.NetConn()
	}
	if tcp, ok := inner.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // at worst the port is in TIME_WAIT
	}
	_ = c.Close() // there is nothing left to send
}

// cut ends the wait for a reply.
func (c *conn) cut() { _ = c.SetDeadline(time.Unix(1, 0)) }

// exchange sends the request and reads the reply. It also reports whether the connection
// can be reused.
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
	case !r.served():
		r.Code = cmp.Or(codeOf(body), codeOther)
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

// namedOrder returns the order and the quantity in the body of a 200 or 202, or "" and 0.
func namedOrder(body []byte) (id string, quantity int64) {
	var sold struct {
		Order    string `json:"order_id"`
		Quantity int64  `json:"quantity"`
	}
	if err := json.Unmarshal(body, &sold); err != nil {
		return "", 0
	}
	return sold.Order, sold.Quantity
}
