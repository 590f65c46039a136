package bench

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"oversell/internal/catalog"
	"oversell/internal/fleet"
)

// desk is a fake shop that sends a fixed reply, and records the requests.
type desk struct {
	*httptest.Server
	mu   sync.Mutex
	keys []string
}

func newDesk(t *testing.T, answer http.HandlerFunc) *desk {
	d := &desk{}
	d.Server = newShopLike(t, func(w http.ResponseWriter, r *http.Request) {
		d.mu.Lock()
		d.keys = append(d.keys, r.Header.Get("Idempotency-Key"))
		d.mu.Unlock()
		answer(w, r)
	})
	return d
}

func sells(w http.ResponseWriter, _ *http.Request) {
	fmt.Fprintf(w, `{"order_id":"o1","quantity":1,"created_at":%q}`, time.Now().Format(time.RFC3339Nano))
}

func refuses(status int, code string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"code":%q}`, code)
	}
}

func cutsOff(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// retrying returns a row under chaos whose buyers send their requests to the desks. A nil desk is a
// killed shop.
func retrying(t *testing.T, patience time.Duration, desks ...*desk) *chaosRow {
	var members []*fleet.Member
	for _, d := range desks {
		m := new(fleet.Member)
		if m.Killed.Store(d == nil); d != nil {
			m.URL = d.URL
		}
		members = append(members, m)
	}
	r := &run{
		cfg: Config{Workload: catalog.Deduct, Keys: UniqueKeys, Seed: 1}, skus: []string{"hot"}, cond: catalog.Chaos,
		admin: newAdmin(""), shops: &shops{Fleet: fleet.Of(members...)},
	}
	t.Cleanup(r.admin.CloseIdleConnections)
	return &chaosRow{run: r, patience: patience}
}

// A buyer whose request fails repeats it at the other shop, with the same key.
func TestBuyerTriesAgainElsewhere(t *testing.T) {
	for name, tt := range map[string]struct {
		first  *desk
		cutOff bool // it may have sold something
	}{
		"refused":  {newDesk(t, refuses(503, "backend")), true},
		"cut off":  {newDesk(t, cutsOff), true},
		"not open": {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			second := newDesk(t, sells)
			c := retrying(t, 10*time.Second, tt.first, second)
			r := c.buy(t.Context(), 0, time.Now(), 0)
			if r.Order != "o1" || r.Quantity != 1 || c.repeated.Load() != 1 || r.Target != 1 || r.CutOff != tt.cutOff {
				t.Errorf("%+v, repeated %d", r, c.repeated.Load())
			}
			if !slices.Equal(second.keys, []string{"0"}) || c.resale.acknowledged() != 1 {
				t.Errorf("keys %q, told %d", second.keys, c.resale.acknowledged())
			}
		})
	}
}

// A request over an open connection that breaks is sent again over a new one, which the dead shop
// refuses. It may have been served all the same.
func TestRequestOverABrokenConnectionWasSent(t *testing.T) {
	var d *desk
	d = newDesk(t, func(w http.ResponseWriter, r *http.Request) {
		if len(d.keys) > 1 {
			_ = d.Listener.Close()
			cutsOff(w, r)
		}
		sells(w, r)
	})
	c := retrying(t, time.Minute, d)
	if r, _, _ := c.attempt(t.Context(), 0, 0); r.Order == "" {
		t.Fatalf("the first: %+v", r)
	}
	if r, again, _ := c.attempt(t.Context(), 1, 0); !r.CutOff || r.Code != codeCutOff || !again {
		t.Errorf("the second: %+v, again %v", r, again)
	}
}

func TestBuyerWaitsAsLongAsTheShopAsks(t *testing.T) {
	c := retrying(t, time.Minute, newDesk(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "7")
		refuses(503, "busy")(w, r)
	}))
	if r, again, after := c.attempt(t.Context(), 0, 0); !again || after != 7*time.Second || r.Code != "busy" ||
		r.Status != 503 {
		t.Errorf("again %v after %v: %+v", again, after, r)
	}
}

// A final refusal ends the tries. A 2xx reply without an order is not a success, and is not retried
// either.
func TestBuyerStopsAtAnAnswer(t *testing.T) {
	for code, status := range map[string]int{"sold_out": 409, "invalid": 400, "unknown_item": 404, codeNotAReply: 0} {
		answer := refuses(status, code)
		if status == 0 {
			answer = func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{}`) }
		}
		c := retrying(t, time.Minute, newDesk(t, answer))
		r := c.buy(t.Context(), 0, time.Now(), 0)
		if c.repeated.Load() != 0 || r.Code != code || r.Status != status || r.Order != "" {
			t.Errorf("%+v, repeated %d", r, c.repeated.Load())
		}
	}
}

// A buyer who has lost patience still gets the reply to the request that was sent. If a buyer gives
// up after a request that was cut off, the buyer's outcome is unknown. After an error of the shop, the buyer was
// refused, but may have an order all the same.
func TestBuyerLosesPatience(t *testing.T) {
	c := retrying(t, 0, newDesk(t, refuses(503, "backend")))
	if r := c.buy(t.Context(), 0, time.Now(), 0); r.Order != "" || r.Code != "backend" || !r.CutOff {
		t.Errorf("%+v", r)
	}
	c = retrying(t, 0, newDesk(t, cutsOff))
	if r := c.buy(t.Context(), 0, time.Now(), 0); r.learned() || r.Code != codeCutOff || !r.CutOff {
		t.Errorf("%+v", r)
	}
}

// Only an order that was made after the fault proves that the item is being sold again.
func TestNextIsAnOrderThatWasMadeLater(t *testing.T) {
	var s resale
	from := time.Now()
	again := s.next(from)
	s.sold(from.Add(-time.Second))
	select {
	case <-again:
		t.Fatal("an order of before counts")
	default:
	}
	s.sold(from.Add(time.Millisecond))
	s.sold(from.Add(time.Second)) // nobody waits for this order
	select {
	case <-again:
	default:
		t.Fatal("an order of after does not count")
	}
}
