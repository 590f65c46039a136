package bench

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
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

// An address that is no shop may answer anything. The error is one short line.
func TestRefusalIsOneLine(t *testing.T) {
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, "<html>\n\x1b[2J"+strings.Repeat("no shop ", 1000))
	}))
	defer page.Close()
	c := newAdmin("")
	defer c.CloseIdleConnections()
	_, err := c.at(page.URL).audit(t.Context(), "hot")
	if err == nil || len(err.Error()) > 2*maxSaid || strings.ContainsAny(err.Error(), "\n\x1b") ||
		!strings.Contains(err.Error(), "404 Not Found: <html>") {
		t.Errorf("got %q", err)
	}
}
