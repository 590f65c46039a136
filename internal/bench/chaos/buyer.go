package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"oversell/internal/fleet"
)

// The settings of a buyer's client.
const (
	attemptTimeout = 5 * time.Second
	dialTimeout    = 2 * time.Second
	firstBackoff   = 50 * time.Millisecond // at most; doubles with each attempt
	maxBackoff     = 2 * time.Second
	maxReply       = 64 << 10
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
	shops    []Shop
	sku      string
	strategy string
	seed     uint64
	client   *http.Client
	sales    *sales
	patience time.Duration
	soldOut  atomic.Int64
}

func newCrowd(cfg Config, s *sales) *crowd {
	dialer := &net.Dialer{Timeout: dialTimeout}
	return &crowd{
		shops: cfg.Shops, sku: cfg.SKU, strategy: cfg.Strategy, seed: cfg.Seed, sales: s, patience: patience,
		client: &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext, MaxIdleConnsPerHost: 256, DisableCompression: true}},
	}
}

func (c *crowd) close() { c.client.CloseIdleConnections() }

// buy is one buyer: a request with an idempotency key that is retried at the other shop,
// with a growing random backoff or after Retry-After, until there is a final reply.
func (c *crowd) buy(ctx context.Context, n int, key string) (o Outcome) {
	rng := rand.New(rand.NewPCG(c.seed, uint64(n)))
	came := time.Now()
	ctx, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	c.sales.ask(key)
	pause := firstBackoff
	for shop := n; ; shop++ {
		o.Attempts++
		o.Shop = shop % len(c.shops)
		again, after := c.attempt(ctx, &o, key)
		o.Latency = time.Since(came)
		if !again {
			return o
		}
		wait := max(after, time.Duration(rng.Int64N(int64(pause))))
		if !fleet.Sleep(ctx, wait) {
			return o
		}
		pause = min(2*pause, maxBackoff)
	}
}

// attempt sends the request once. It returns whether it should be sent again, and after
// which time at the earliest.
func (c *crowd) attempt(ctx context.Context, o *Outcome, key string) (again bool, after time.Duration) {
	o.Status, o.Code, o.Service = 0, codeNoConn, 0
	base := c.shops[o.Shop].URL()
	if base == "" {
		return true, 0
	}
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	address := base + "/api/items/" + c.sku + "/deduct?" + url.Values{"strategy": {c.strategy}}.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(`{"quantity":1}`))
	if err != nil {
		o.Code = codeNotReply
		return false, 0
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", key)
	req.Header.Set("Prefer", "wait=3") // where orders are written behind the sale
	sent := time.Now()
	res, body, err := c.exchange(req)
	o.Service = time.Since(sent)
	if err != nil {
		if unsent(err) {
			return true, 0
		}
		o.Code, o.CutOff = codeCutOff, true
		c.sales.cutOff(key)
		return true, 0
	}
	o.Status, o.Code, o.Held = res.StatusCode, "", res.Header.Get("Oversell-Held")
	if res.StatusCode == http.StatusOK {
		return c.sold(o, key, body)
	}
	if res.StatusCode == http.StatusAccepted { // the order may still be lost
		o.Code, o.CutOff = codeCutOff, true
		c.sales.cutOff(key)
		return true, time.Second
	}
	o.Code = problemCode(body)
	if o.Code == codeSoldOut {
		c.soldOut.Add(1)
		return false, 0
	}
	seconds, _ := strconv.Atoi(res.Header.Get("Retry-After")) // none is 0
	return res.StatusCode >= http.StatusInternalServerError || res.StatusCode == http.StatusTooManyRequests,
		time.Duration(max(0, seconds)) * time.Second
}

func (c *crowd) exchange(req *http.Request) (*http.Response, []byte, error) {
	res, err := c.client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxReply))
	return res, body, err
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

// problemCode returns the code of a problem reply.
func problemCode(body []byte) string {
	var p struct {
		Code string `json:"code"`
	}
	if err := json.Unmarshal(body, &p); err != nil || p.Code == "" {
		return codeNotReply
	}
	return p.Code
}

// keyOf is the idempotency key of the n-th buyer.
func keyOf(n int) string { return fmt.Sprintf("buyer-%d", n) }
