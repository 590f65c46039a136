package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"oversell/internal/catalog"
	"oversell/internal/guard"
	"oversell/internal/holds"
)

// role says what a buyer does with a hold.
type role int

const (
	pays     role = iota
	abandons      // neither pays nor releases: the hold expires
	releases
	paysLate       // pays after the hold has expired
	paysLast       // pays just before the hold expires
	extends        // extends the hold, and pays
	paysAndCancels // pays, and cancels the order
)

// cycle lists the roles that consecutive buyers get.
var cycle = []role{pays, abandons, pays, extends, releases, pays, paysAndCancels}

// roleOf returns the role of the i-th buyer.
func roleOf(i int, c catalog.Condition) role {
	r := cycle[i%len(cycle)]
	switch {
	case r == pays && i%2 == 0 && c == catalog.Slow:
		return paysLate
	case r == pays && i%4 == 0 && c == catalog.Crash:
		return paysLast
	}
	return r
}

// fate is the outcome of a buyer.
type fate int

const (
	gotOrder  fate = iota
	soldOut        // no unit was left to hold
	left           // the hold was released, or left to expire, or its order cancelled
	tooLate        // the hold had ended before the payment; a charge was refunded
	failed         // refused for another reason
	unlearned      // no answer came
)

// purchase records what happened to one buyer in the sale.
type purchase struct {
	fate    fate
	code    string     // of a refusal
	hold    holds.Hold // zero if the buyer got none
	order   string     // id, if one was confirmed
	asked   bool       // the buyer asked to pay
	latency time.Duration
	freed   bool // the hold does not expire: it was paid or released
}

// buy goes through the sale as one buyer. Unless stays is set, the buyer leaves when a request to
// pay gets no answer, instead of trying again.
func (r *holdRow) buy(ctx context.Context, name string, as role, stays bool) (p purchase) {
	at := time.Now()
	held := p.served(http.StatusCreated, r.client.ask(ctx, request{
		method: http.MethodPost, key: name, body: map[string]any{"buyer": name, "quantity": 1},
		path: "/api/items/" + r.skus[0] + "/holds?" + url.Values{"strategy": {r.stage.Name}}.Encode(),
	}, &p.hold))
	p.latency = time.Since(at)
	if !held {
		p.hold = holds.Hold{}
		return p
	}
	switch as {
	case abandons:
		p.fate = left
		return p
	case releases:
		_ = guard.Sleep(ctx, rand.N(r.cfg.TTL/5))
		path := fmt.Sprintf("/api/holds/%s?token=%d", p.hold.ID, p.hold.Token)
		a := r.client.ask(ctx, request{method: http.MethodDelete, path: path}, nil)
		if p.served(http.StatusNoContent, a) {
			p.fate, p.freed = left, true
		}
		return p
	case extends:
		_ = guard.Sleep(ctx, rand.N(r.think))
		a := r.client.ask(ctx, p.request("/api/holds/"+p.hold.ID+"/extend", ""), &p.hold)
		if !p.served(http.StatusOK, a) {
			return p
		}
	case paysLast:
		_ = guard.Sleep(ctx, time.Until(p.hold.ExpiresAt)-rand.N(r.cfg.TTL/5))
	case paysLate:
		_ = guard.Sleep(ctx, time.Until(p.hold.ExpiresAt)+2*sweep(r.cfg.TTL))
	default:
		_ = guard.Sleep(ctx, rand.N(r.think))
	}
	r.pay(ctx, &p, name, stays)
	if as == paysAndCancels && p.fate == gotOrder { // its unit is sold again
		a := r.client.ask(ctx, p.request("/api/orders/"+p.order+"/cancel", ""), nil)
		if p.order = ""; p.served(http.StatusNoContent, a) {
			p.fate = left
		}
	}
	return p
}

func (r *holdRow) pay(ctx context.Context, p *purchase, name string, stays bool) {
	at := time.Now()
	var order holds.Order
	p.asked = true
	asked := p.request("/api/holds/"+p.hold.ID+"/pay", name)
	a := r.client.send(ctx, r.client.base(), asked, &order)
	if stays && (a.status == 0 || a.status == http.StatusServiceUnavailable) {
		a = r.client.ask(ctx, asked, &order)
	}
	p.latency += time.Since(at)
	if p.served(http.StatusOK, a) {
		p.fate, p.order, p.freed = gotOrder, order.ID, true
	}
}

// request returns a request about the buyer's hold.
func (p *purchase) request(path, key string) request {
	return request{method: http.MethodPost, path: path, key: key, body: map[string]any{"token": p.hold.Token}}
}

// served reports whether an answer has the expected status. If not, it sets the buyer's fate and
// code.
func (p *purchase) served(success int, a answer) bool {
	if a.status == success {
		return true
	}
	p.code = a.code
	switch {
	case a.status == 0:
		p.fate, p.code = unlearned, "no_reply"
	case a.status == http.StatusServiceUnavailable:
		p.fate = unlearned
	case a.code == "sold_out":
		p.fate = soldOut
	case a.code == "hold_ended" || a.code == "refunded" || a.code == "unknown_hold":
		p.fate = tooLate
	default:
		p.fate = failed
	}
	return false
}

// buyerName returns the name of a buyer, which is also the idempotency key of the buyer's
// requests.
func buyerName(sku, phase string, i int) string { return sku + "-" + phase + strconv.Itoa(i) }

// newBuyers returns a client that sends each request to the next shop, and repeats it if no answer
// comes.
func newBuyers(f *shops) client {
	c := newClient(f.setup.Token, 12*time.Second)
	c.base, c.silent = f.next, true
	c.first, c.last, c.limit = 20*time.Millisecond, 500*time.Millisecond, 40*time.Second
	return c
}
