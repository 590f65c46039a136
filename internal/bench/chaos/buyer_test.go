package chaos

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"
)

// desk is a shop that answers as it is told to, and notes who came.
type desk struct {
	*httptest.Server
	mu   sync.Mutex
	keys []string
}

func newDesk(t *testing.T, answer http.HandlerFunc) *desk {
	d := &desk{}
	d.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.mu.Lock()
		d.keys = append(d.keys, r.Header.Get("Idempotency-Key"))
		d.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(d.Close)
	return d
}

func (d *desk) URL() string                 { return d.Server.URL }
func (d *desk) Start(context.Context) error { return nil }
func (d *desk) Kill()                       {}
func (d *desk) End()                        {}
func (d *desk) Pause() error                { return nil }
func (d *desk) Continue() error             { return nil }
func (d *desk) Err() error                  { return nil }

func sells(w http.ResponseWriter, _ *http.Request) {
	fmt.Fprintf(w, `{"order_id":"o1","created_at":%q}`, time.Now().Format(time.RFC3339Nano))
}

func refuses(status int, code string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"code":%q}`, code)
	}
}

func cutsOff(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func crowdOf(t *testing.T, patience time.Duration, shops ...Shop) *crowd {
	c := newCrowd(Config{Shops: shops, SKU: "hot", Strategy: "watch", Seed: 1}, newSales())
	c.patience = patience
	t.Cleanup(c.close)
	return c
}

// away is a shop that does not run.
type away struct{ desk }

func (*away) URL() string { return "" }

// A buyer whose request fails asks the other shop, with the same key.
func TestBuyerTriesAgainElsewhere(t *testing.T) {
	for name, tt := range map[string]struct {
		first  Shop
		cutOff bool
	}{
		"refused":  {newDesk(t, refuses(503, "backend")), false},
		"cut off":  {newDesk(t, cutsOff), true},
		"not open": {&away{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			second := newDesk(t, sells)
			c := crowdOf(t, 10*time.Second, tt.first, second)
			o := c.buy(t.Context(), 0, "k")
			if o.Order != "o1" || o.Attempts != 2 || o.Shop != 1 || o.CutOff != tt.cutOff {
				t.Errorf("%+v", o)
			}
			if !slices.Equal(second.keys, []string{"k"}) || c.sales.acked["k"] != "o1" ||
				c.sales.cut["k"] != tt.cutOff {
				t.Errorf("keys %q, sales %+v", second.keys, c.sales)
			}
		})
	}
}

func TestBuyerWaitsAsLongAsTheShopAsks(t *testing.T) {
	busy := newDesk(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "7")
		refuses(503, "busy")(w, r)
	})
	c := crowdOf(t, time.Minute, busy)
	var o Outcome
	if again, after := c.attempt(t.Context(), &o, "k"); !again || after != 7*time.Second || o.Code != "busy" ||
		o.Status != 503 {
		t.Errorf("again %v after %v: %+v", again, after, o)
	}
}

func TestBuyerStopsAtAnAnswer(t *testing.T) {
	for code, status := range map[string]int{"sold_out": 409, "invalid": 400, "unknown_item": 404} {
		d := newDesk(t, refuses(status, code))
		c := crowdOf(t, time.Minute, d)
		if o := c.buy(t.Context(), 0, "k"); o.Attempts != 1 || o.Code != code || o.Status != status || o.Sold() {
			t.Errorf("%+v", o)
		}
	}
}

func TestBuyerLosesPatience(t *testing.T) {
	d := newDesk(t, refuses(503, "backend"))
	c := crowdOf(t, 100*time.Millisecond, d)
	if o := c.buy(t.Context(), 0, "k"); o.Sold() || o.Code != "backend" || o.CutOff {
		t.Errorf("%+v", o)
	}
}

// An answer that names no order is not one, and is not asked for again.
func TestAnswerWithoutAnOrder(t *testing.T) {
	d := newDesk(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{}`) })
	c := crowdOf(t, time.Minute, d)
	if o := c.buy(t.Context(), 0, "k"); o.Sold() || o.Code != codeNotReply || o.Status != 0 || o.Attempts != 1 {
		t.Errorf("%+v", o)
	}
}
