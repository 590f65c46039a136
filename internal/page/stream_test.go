package page

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"oversell/internal/page/runs"
)

// slowClient is a client that does not read: once its buffers are full, each write blocks until the
// write deadline.
type slowClient struct {
	*httptest.ResponseRecorder
	room     int
	deadline time.Time
}

func (c *slowClient) SetWriteDeadline(deadline time.Time) error {
	c.deadline = deadline
	return nil
}

func (c *slowClient) Write(p []byte) (int, error) {
	if c.room -= len(p); c.room >= 0 {
		return len(p), nil
	}
	time.Sleep(time.Until(c.deadline))
	return 0, os.ErrDeadlineExceeded
}

// serveStream serves one stream until it ends, and returns its duration.
func serveStream(t *testing.T, w http.ResponseWriter) time.Duration {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	m := runs.New(ctx, runs.Config{Logger: slog.New(slog.DiscardHandler)})
	defer m.Close()
	start := time.Now()
	Runs(m, "", slog.New(slog.DiscardHandler)).ServeHTTP(w, httptest.NewRequest("GET", "/api/runs/events", nil))
	return time.Since(start)
}

// A client that does not read is cut off soon after its buffers are full. Every stream ends after
// streamLife.
func TestStreamDoesNotLastForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := httptest.NewRecorder()
		if took := serveStream(t, w); took < streamLife || took > streamLife+heartbeat {
			t.Errorf("a stream ended after %v, want %v", took, streamLife)
		}
		for _, room := range []int{0, 500} {
			took := serveStream(t, &slowClient{ResponseRecorder: httptest.NewRecorder(), room: room})
			if took < sendTimeout || took > time.Duration(room)*time.Second+sendTimeout {
				t.Errorf("a client with room for %d bytes was cut off after %v", room, took)
			}
		}
	})
}
