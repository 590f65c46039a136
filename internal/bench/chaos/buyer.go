package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"oversell/internal/bench/client"
	"oversell/internal/guard"
)

// The settings of a buyer's client.
const (
	attemptTimeout = 5 * time.Second
	firstBackoff   = 50 * time.Millisecond // at most; doubles with each attempt
	maxBackoff     = 2 * time.Second
)

// patience is how long a buyer retries.
const patience = 30 * time.Second

// Outcome is the outcome of one buyer.
type Outcome struct {
	Attempts int
	Shop     int           // of the last attempt
	Status   int           // of the last reply; 0: none
	Code     string        // of the last reply, or one of the codes below
	Order    string        // that the buyer was told of
	Held     string        // the header with the time in the critical section
	Latency  time.Duration // from the arrival of the buyer
	Service  time.Duration // of the last attempt
	CutOff   bool          // at least one attempt got no reply
}

// Sold reports whether the buyer was told of an order.
func (o Outcome) Sold() bool { return o.Order != "" }

// The codes of attempts that are not from a shop.
const (
	codeCutOff   = "cut_off"       // no complete reply arrived
	codeNoConn   = "no_connection" // the shop accepted no connection: nothing was sent
	codeNotReply = "not_a_reply"
	codeSoldOut  = "sold_out"
)

// crowd is the buyers of a sale.
type crowd struct {
	Config
	client   *client.Client
	sales    *sales
	patience time.Duration
}

func newCrowd(cfg Config, s *sales) *crowd {
	return &crowd{Config: cfg, sales: s, patience: patience, client: client.New("", attemptTimeout)}
}

func (c *crowd) close() { c.client.CloseIdleConnections() }

// buy is one buyer: a request with an idempotency key that is retried at the other shop,
// with a growing random backoff or after Retry-After, until there is a final reply.
func (c *crowd) buy(ctx context.Context, n int, key string) (o Outcome) {
	rng := rand.New(rand.NewPCG(c.Seed, uint64(n)))
	came := time.Now()
	ctx, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	pause := firstBackoff
	for shop := n; ; shop++ {
		o.Attempts++
		o.Shop = shop % len(c.Shops)
		again, after := c.attempt(ctx, &o, key)
		o.Latency = time.Since(came)
		if !again {
			return o
		}
		wait := max(after, time.Duration(rng.Int64N(int64(pause))))
		if guard.Sleep(ctx, wait) != nil {
			return o
		}
		pause = min(2*pause, maxBackoff)
	}
}

// attempt sends the request once. It returns whether it should be sent again, and after
// which time at the earliest.
func (c *crowd) attempt(ctx context.Context, o *Outcome, key string) (again bool, after time.Duration) {
	o.Status, o.Code, o.Service = 0, codeNoConn, 0
	base := c.Shops[o.Shop].URL()
	if base == "" {
		return true, 0
	}
	sent := time.Now()
	a := c.client.Send(ctx, base, client.Request{
		Method: http.MethodPost, Path: "/api/items/" + c.SKU + "/deduct?" +
			url.Values{"strategy": {c.Strategy}}.Encode(),
		Key: key, Body: map[string]int{"quantity": 1},
		Prefer: "wait=3", // where orders are written behind the sale
	}, nil)
	o.Service = time.Since(sent)
	if a.Status == 0 && unsent(a.Err) {
		return true, 0
	}
	if a.Status == 0 || a.Status == http.StatusAccepted { // the order may still be lost
		o.Status, o.Code, o.CutOff = a.Status, codeCutOff, true
		c.sales.cutOff(key)
		if a.Status != 0 {
			after = time.Second
		}
		return true, after
	}
	o.Status, o.Code, o.Held = a.Status, "", a.Header.Get("Oversell-Held")
	if a.Status == http.StatusOK {
		return c.sold(o, key, a.Text)
	}
	o.Code = a.Code
	if o.Code == strconv.Itoa(a.Status) {
		o.Code = codeNotReply
	}
	if o.Code == codeSoldOut {
		return false, 0
	}
	seconds, _ := strconv.Atoi(a.Header.Get("Retry-After")) // none is 0
	return a.Status >= http.StatusInternalServerError || a.Status == http.StatusTooManyRequests,
		time.Duration(max(0, seconds)) * time.Second
}

// unsent reports whether an attempt failed before anything was sent.
func unsent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// sold reads the reply that names an order.
func (c *crowd) sold(o *Outcome, key string, body []byte) (again bool, after time.Duration) {
	var order struct {
		ID   string    `json:"order_id"`
		Made time.Time `json:"created_at"`
	}
	if err := json.Unmarshal(body, &order); err != nil || order.ID == "" {
		o.Status, o.Code = 0, codeNotReply
		return false, 0
	}
	o.Order = order.ID
	c.sales.acknowledge(key, order.ID, order.Made)
	return false, 0
}

// keyOf is the idempotency key of the n-th buyer.
func keyOf(n int) string { return "buyer-" + strconv.Itoa(n) }

// sales knows what the buyers were told, and when the item was last sold.
type sales struct {
	mu    sync.Mutex
	acked map[string]string // order id by idempotency key
	cut   map[string]bool   // keys of buyers with a cut-off request
	since time.Time         // an order made from then on is awaited; zero: none
	found chan time.Time    // when a buyer is told of it
}

func newSales() *sales {
	return &sales{acked: make(map[string]string), cut: make(map[string]bool)}
}

// cutOff notes that the reply to a request did not arrive.
func (s *sales) cutOff(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut[key] = true
}

// acknowledge notes that a buyer is told of an order, and when that was made.
func (s *sales) acknowledge(key, order string, made time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acked[key] = order
	if !s.since.IsZero() && !made.Before(s.since) {
		s.since = time.Time{}
		s.found <- time.Now()
	}
}

// acknowledged is how many buyers were told of an order.
func (s *sales) acknowledged() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(len(s.acked))
}

// next returns a channel that receives the time when the first buyer is told of an order
// made from then on; orders have their time in milliseconds. Only the last channel
// receives anything.
func (s *sales) next(from time.Time) <-chan time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since, s.found = from.Truncate(time.Millisecond), make(chan time.Time, 1)
	return s.found
}
