package bench_test

import (
	"net/http"
	"sync"
	"testing"

	"oversell/internal/bench"
)

// Repeated runs leave no items behind, and at most the items of two rounds exist at the same time.
func TestRepeatedRowsLeaveNoItems(t *testing.T) {
	var mu sync.Mutex
	there, most := make(map[string]bool), 0
	cfg := against(inFront(t, open(t, ""), func(w http.ResponseWriter, r *http.Request, shop http.Handler) {
		mu.Lock()
		switch r.Method {
		case http.MethodPut:
			there[r.URL.Path] = true
		case http.MethodDelete:
			delete(there, r.URL.Path)
		}
		most = max(most, len(there))
		mu.Unlock()
		shop.ServeHTTP(w, r)
	}))
	cfg.Strategies, cfg.Repeat = []string{"watch", "v6_watchdog"}, 4
	_, err := bench.Run(t.Context(), cfg, bench.Silent{})
	must(t, err)
	if len(there) != 0 || most != 4 {
		t.Errorf("%d items are left, and %d were there at once; want 0 and 4", len(there), most)
	}
}
