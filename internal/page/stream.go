package page

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

const (
	// heartbeat is the time after which an idle stream sends a comment, so that no proxy
	// closes it.
	heartbeat = 15 * time.Second

	// streamLife is the time after which a stream ends, and the client opens a new one. Otherwise a
	// client that does not read would be noticed only once the buffers are full.
	streamLife = 10 * time.Minute

	// retryAfter is the number of milliseconds after which a client reconnects.
	retryAfter = 2000
)

// errQuiet means that nothing has happened for the time of a heartbeat.
var errQuiet = errors.New("nothing has happened")

// event is one event of a stream.
type event struct {
	name string
	data any // as JSON
}

// stream sends server-sent events.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

// newStream begins a stream. An error means that the client is gone.
func newStream(w http.ResponseWriter) (*stream, error) {
	s := &stream{w, http.NewResponseController(w)}
	beginStream(w.Header())
	return s, s.write(fmt.Appendf(nil, "retry: %d\n\n", retryAfter))
}

// beginStream sets the header of a stream.
func beginStream(h http.Header) {
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // proxies must not buffer the stream
}

// send sends several events in one write.
func (s *stream) send(id uint64, events ...event) error {
	var b bytes.Buffer
	for _, e := range events {
		text, err := json.Marshal(e.data)
		if err != nil {
			return fmt.Errorf("writing the event %s: %w", e.name, err)
		}
		fmt.Fprintf(&b, "id: %d\nevent: %s\ndata: %s\n\n", id, e.name, text)
	}
	return s.write(b.Bytes())
}

// still sends a heartbeat.
func (s *stream) still() error { return s.write([]byte(": still here\n\n")) }

func (s *stream) write(text []byte) error {
	if _, err := s.w.Write(text); err != nil {
		return err
	}
	return s.control.Flush()
}
