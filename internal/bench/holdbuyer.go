package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"oversell/internal/bench/client"
	"oversell/internal/catalog"
	"oversell/internal/guard"
	"oversell/internal/holds"
)

// role is what a buyer does with a hold.
type role int

const (
	pays     role = iota
	abandons      // neither pays nor releases: the hold expires
	releases
	paysLate       // pays when the hold has expired
	paysLast       // pays just before that
	extends        // extends the hold, and pays
	paysAndCancels // pays, and cancels the order
)

// cycle is the roles of buyers that come one after the other.
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

// fate is what became of a buyer.
type fate int

const (
	gotOrder  fate = iota
	soldOut        // no unit could be held
	left           // the hold was released, or left to expire, or its order cancelled
	tooLate        // the hold had ended before the payment; a charge was refunded
	failed         // refused for another reason
	unlearned      // no answer came
)

// purchase is one buyer's way through the sale.
type purchase struct {
	fate    fate
	code    string     // of a refusal
	hold    holds.Hold // unless none was given
	order   string     // id, if one was confirmed
	asked   bool       // the buyer asked to pay
	latency time.Duration
	freed   bool // the hold does not expire: it was paid or released
}

// buy goes through the sale as one buyer. One who does not stay leaves when a request to pay
// gets no answer; the others try again.
func (r *holdRow) buy(ctx context.Context, name string, as role, stays bool) (p purchase) {
	at := time.Now()
	path := "/api/items/" + r.sku + "/holds?" + url.Values{"strategy": {r.stage.Name}}.Encode()
	a := r.client.Ask(ctx, client.Request{
		Method: http.MethodPost, Path: path, Key: name,
		Body: map[string]any{"buyer": name, "quantity": 1},
	}, &p.hold)
	p.latency = time.Since(at)
	if a.Status != http.StatusCreated {
		p.hold = holds.Hold{}
		return refused(p, a)
	}
	switch as {
	case abandons:
		p.fate = left
		return p
	case releases:
		_ = guard.Sleep(ctx, rand.N(r.cfg.TTL/5))
		return r.release(ctx, p)
	case extends:
		_ = guard.Sleep(ctx, rand.N(r.think))
		if p = r.extend(ctx, p); p.code != "" {
			return p
		}
	case paysLast:
		_ = guard.Sleep(ctx, time.Until(p.hold.ExpiresAt)-rand.N(r.cfg.TTL/5))
	case paysLate:
		_ = guard.Sleep(ctx, time.Until(p.hold.ExpiresAt)+2*r.cfg.sweep())
	default:
		_ = guard.Sleep(ctx, rand.N(r.think))
	}
	p = r.pay(ctx, p, name, stays)
	if as == paysAndCancels && p.fate == gotOrder {
		return r.cancel(ctx, p)
	}
	return p
}

// cancel ends an order. Its unit is sold again.
func (r *holdRow) cancel(ctx context.Context, p purchase) purchase {
	a := r.client.Ask(ctx, client.Request{
		Method: http.MethodPost, Path: "/api/orders/" + p.order + "/cancel",
		Body: map[string]any{"token": p.hold.Token},
	}, nil)
	p.order = ""
	if a.Status/100 != 2 {
		return refused(p, a)
	}
	p.fate = left
	return p
}

func (r *holdRow) release(ctx context.Context, p purchase) purchase {
	path := fmt.Sprintf("/api/holds/%s?token=%d", p.hold.ID, p.hold.Token)
	a := r.client.Ask(ctx, client.Request{Method: http.MethodDelete, Path: path}, nil)
	if a.Status/100 != 2 {
		return refused(p, a)
	}
	p.fate, p.freed = left, true
	return p
}

// extend lets a hold expire later.
func (r *holdRow) extend(ctx context.Context, p purchase) purchase {
	a := r.client.Ask(ctx, client.Request{
		Method: http.MethodPost, Path: "/api/holds/" + p.hold.ID + "/extend",
		Body: map[string]any{"token": p.hold.Token},
	}, &p.hold)
	if a.Status != http.StatusOK {
		return refused(p, a)
	}
	return p
}

func (r *holdRow) pay(ctx context.Context, p purchase, name string, stays bool) purchase {
	at := time.Now()
	var order holds.Order
	p.asked = true
	asked := client.Request{
		Method: http.MethodPost, Path: "/api/holds/" + p.hold.ID + "/pay", Key: name,
		Body: map[string]any{"token": p.hold.Token},
	}
	a := r.client.Send(ctx, r.client.Base(), asked, &order)
	if stays && a.Unanswered() {
		a = r.client.Ask(ctx, asked, &order)
	}
	p.latency += time.Since(at)
	if a.Status != http.StatusOK {
		return refused(p, a)
	}
	p.fate, p.order, p.freed = gotOrder, order.ID, true
	return p
}

// refused fills in the outcome of a request that did not succeed.
func refused(p purchase, a client.Answer) purchase {
	p.code = a.Code
	switch {
	case a.Status == 0:
		p.fate, p.code = unlearned, "no_reply"
	case a.Status == http.StatusServiceUnavailable:
		p.fate = unlearned
	case a.Code == "sold_out":
		p.fate = soldOut
	case a.Code == "hold_ended" || a.Code == "refunded" || a.Code == "unknown_hold":
		p.fate = tooLate
	default:
		p.fate = failed
	}
	return p
}

// buyerName names a buyer, and is the idempotency key of the buyer's requests.
func buyerName(sku, phase string, i int) string { return sku + "-" + phase + strconv.Itoa(i) }

// requestTimeout bounds one request.
const requestTimeout = 12 * time.Second

// newBuyers returns a client that sends each request to the next shop, and again if no answer
// comes.
func newBuyers(f *shops) client.Shops {
	return client.Shops{
		Client: client.New(f.setup.Token, requestTimeout), Base: f.next,
		Patience: client.Patience{First: 20 * time.Millisecond, Last: 500 * time.Millisecond, For: 40 * time.Second,
			Silent: true},
	}
}
