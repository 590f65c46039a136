package web

import (
	"net/http"
	"strconv"
)

// withHead answers HEAD with the header of the reply to a GET, including Content-Length.
// The handlers write the same reply to both.
func withHead(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodHead {
			h.ServeHTTP(w, r)
			return
		}
		counter := &bodyCounter{ResponseWriter: w, status: http.StatusOK}
		h.ServeHTTP(counter, r)
		counter.finish()
	})
}

// bodyCounter counts the bytes of the body instead of sending them, and sends the header at
// the end.
type bodyCounter struct {
	http.ResponseWriter
	status int
	begun  bool // the status is final
	n      int64
}

func (b *bodyCounter) WriteHeader(status int) {
	if !b.begun {
		b.status, b.begun = status, true
	}
}

func (b *bodyCounter) Write(p []byte) (int, error) {
	b.begun = true
	b.n += int64(len(p))
	return len(p), nil
}

func (b *bodyCounter) finish() {
	if b.n > 0 {
		b.Header().Set("Content-Length", strconv.FormatInt(b.n, 10))
	}
	b.ResponseWriter.WriteHeader(b.status)
}
