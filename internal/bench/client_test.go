package bench

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// A request to a shop with a busy backend is repeated. If the item is already gone at the second
// DELETE, it counts as deleted.
func TestBusyShopIsAskedAgain(t *testing.T) {
	asked := map[string]int{}
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch asked[r.Method]++; {
		case asked[r.Method] <= 2:
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.Method == http.MethodDelete:
			w.WriteHeader(http.StatusNotFound)
		default:
			_, _ = io.WriteString(w, `{"sold":7}`)
		}
	}))
	defer shop.Close()
	c := newAdmin("")
	defer c.CloseIdleConnections()
	c.first, c.last = time.Millisecond, time.Millisecond
	if found, err := c.at(shop.URL).audit(t.Context(), "hot"); err != nil || found.Sold != 7 {
		t.Errorf("the audit: %+v, %v", found, err)
	}
	if err := c.at(shop.URL).remove(t.Context(), "hot"); err != nil {
		t.Error(err)
	}
	if asked[http.MethodGet] != 3 || asked[http.MethodDelete] != 3 {
		t.Errorf("asked %v times, want 3 each", asked)
	}
}
