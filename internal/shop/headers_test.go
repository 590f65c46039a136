package shop_test

import (
	"net/http"
	"strings"
	"testing"

	"oversell/internal/backend/backendtest"
)

// The shop refuses large request headers, with which a crowd of clients could fill its memory. A normal
// header has a few hundred bytes.
func TestHeadersAreBounded(t *testing.T) {
	t.Parallel()
	r := open(t, config(backendtest.Redis(t, "embedded"), backendtest.Database(t, "embedded"), 10))
	const tooLarge = http.StatusRequestHeaderFieldsTooLarge
	for bytes, want := range map[int]int{8 << 10: http.StatusOK, 32 << 10: tooLarge, 200_000: tooLarge} {
		for _, value := range []string{strings.Repeat("x", bytes), strings.Repeat("x ", bytes/2)} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.addr+"/api/strategies", nil)
			must(t, err)
			req.Header.Set("X-Long", value)
			res, err := r.client.Do(req)
			must(t, err)
			res.Body.Close()
			if res.StatusCode != want {
				t.Errorf("%d bytes: %s, want %d", bytes, res.Status, want)
			}
		}
	}
}
