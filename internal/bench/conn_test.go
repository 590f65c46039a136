package bench

import "testing"

// namedOrder finds the order in any reply that names one.
func TestNamedOrder(t *testing.T) {
	for body, want := range map[string]struct {
		id       string
		quantity int64
	}{
		`{"order_id":"o-1","sku":"hot","quantity":12,"strategy":"v6"}`: {"o-1", 12},
		`{"order_id":"o-1"}`:                {"o-1", 0},
		`{"order_id":"o-1","quantity":1.5}`: {"", 0},
		`{"order_id":17,"quantity":1}`:      {"", 0},
		`{"quantity":1}`:                    {"", 1},
		`{"order_id":"`:                     {"", 0},
		`<h1>sold</h1>`:                     {"", 0},
	} {
		if id, quantity := namedOrder([]byte(body)); id != want.id || quantity != want.quantity {
			t.Errorf("%s: %q, %d; want %q, %d", body, id, quantity, want.id, want.quantity)
		}
	}
}
