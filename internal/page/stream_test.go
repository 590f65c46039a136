package page

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"oversell/internal/page/runs"
)

// newStreams returns the handler of the part Run, whose streams end with the test.
func newStreams(t *testing.T, token string) http.Handler {
	t.Helper()
	logger := slog.New(slog.DiscardHandler)
	m := runs.New(t.Context(), runs.Config{Logger: logger})
	t.Cleanup(m.Close)
	return Runs(m, token, logger)
}

// Every stream ends after streamLife.
func TestStreamDoesNotLastForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		newStreams(t, "").ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/api/runs/events", nil))
		if took := time.Since(start); took < streamLife || took > streamLife+heartbeat {
			t.Errorf("a stream ended after %v, want %v", took, streamLife)
		}
	})
}

// One address cannot use up all streams, and clients without the token cannot use up the streams
// reserved for clients with the token.
func TestStreamsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newStreams(t, "sesame")
		open := func(status int, from string, headers ...string) (leave func()) {
			t.Helper()
			ctx, cancel := context.WithCancel(t.Context())
			req := httptest.NewRequestWithContext(ctx, "GET", "/api/runs/events", nil)
			req.RemoteAddr = from
			for i := 0; i < len(headers); i += 2 {
				req.Header.Set(headers[i], headers[i+1])
			}
			w := httptest.NewRecorder()
			go h.ServeHTTP(w, req)
			synctest.Wait() // until it streams, or was refused
			if w.Code != status || w.Flushed != (status == http.StatusOK) ||
				status == http.StatusServiceUnavailable && !strings.Contains(w.Body.String(), `"code":"too_many"`) {
				t.Errorf("from %s with %v: %d %s, want %d", from, headers, w.Code, w.Body, status)
			}
			return func() { cancel(); synctest.Wait() }
		}
		var first func()
		for i := range 16 {
			if leave := open(200, fmt.Sprintf("10.0.0.1:%d", 1000+i)); i == 0 {
				first = leave
			}
		}
		open(503, "10.0.0.1:2000")
		open(503, "[::ffff:10.0.0.1]:2000")
		open(503, "10.0.0.1:2000", "Authorization", "Bearer open")
		open(503, "10.0.0.1:2000", "X-Forwarded-For", "10.9.9.9")
		for i := range 16 {
			open(200, fmt.Sprintf("[2001:db8::%x]:1000", i+1))
		}
		open(503, "[2001:db8::ff:1]:1000") // an address of the same network
		for i := range 32 {
			open(200, fmt.Sprintf("10.0.1.%d:1000", i))
		}
		open(503, "10.0.2.1:1000")
		var last func()
		for i := range 16 {
			last = open(200, fmt.Sprintf("10.0.0.1:%d", 3000+i), "Authorization", "Bearer sesame")
		}
		open(503, "10.0.0.2:1000", "Authorization", "Bearer sesame")
		last()
		open(200, "10.0.0.2:1000", "Authorization", "Bearer sesame")
		open(503, "10.0.2.1:1000")
		first()
		open(200, "10.0.2.1:1000")
	})
}
