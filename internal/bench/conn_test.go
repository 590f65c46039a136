package bench

import (
	"strings"
	"testing"
)

// namedOrder finds the order in any reply that names one, regardless of the order of the fields.
func TestNamedOrder(t *testing.T) {
	const id = "01a202da-5e70-7336-a20c-9197fab09d95"
	for body, want := range map[string]struct {
		id       string
		quantity int64
		first    bool // found without parsing all of the JSON
	}{
		`{"order_id":"ID","sku":"hot","quantity":1,"strategy":"v6","created_at":"2026-11-22"}`: {id, 1, true},
		`{"order_id":"ID","sku":"hot","quantity":12,"strategy":"x"}`:                           {id, 12, true},
		`{"order_id":"ID","quantity":12}`:                                                      {id, 12, false},
		`{"quantity":3, "order_id":"ID"}`:                                                      {id, 3, false},
		`{ "order_id" : "ID", "quantity" : 3 }`:                                                {id, 3, false},
		`{"order_id":"a\u0062","sku":"hot","quantity":1,"strategy":"x"}`:                       {"ab", 1, false},
		`{"order_id":"ab","quantity":1.5,"strategy":"x"}`:                                      {"", 0, false},
		`{"order_id":"ab","quantity":"1","strategy":"x"}`:                                      {"", 0, false},
		`{"order_id":"ID"}`:                           {id, 0, false},
		`{"order_id":17,"quantity":1,"strategy":"x"}`: {"", 0, false},
		`{"quantity":1,"strategy":"x"}`:               {"", 1, false},
		`{"order_id":"`:                               {"", 0, false},
		`<h1>sold</h1>`:                               {"", 0, false},
		``:                                            {"", 0, false},
	} {
		body = strings.Replace(body, "ID", id, 1)
		if id, quantity := namedOrder([]byte(body)); id != want.id || quantity != want.quantity {
			t.Errorf("%s: %q, %d; want %q, %d", body, id, quantity, want.id, want.quantity)
		}
		if _, _, ok := namedFirst([]byte(body)); ok != want.first {
			t.Errorf("%s: read at once: %v, want %v", body, ok, want.first)
		}
	}
}
