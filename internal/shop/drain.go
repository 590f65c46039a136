package shop

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"
)

// Both together are less than the five seconds in which a shop ends: Docker,
// for one, kills what has not ended after ten.
const (
	// drainTimeout is how long requests may take to their last byte.
	drainTimeout = 4 * time.Second
	// sectionTimeout is how long sales may take on after that. Whoever waits
	// for the answer has been cut off, but what was begun can be finished.
	sectionTimeout = 500 * time.Millisecond
)

// ErrUnfinished means that sales were still under way when the shop had to end.
var ErrUnfinished = errors.New("requests are still under way")

// drain waits for the requests under way, but not for ever. First all get the
// time to be answered. Then the connections are cut, which ends those whose
// client is slow, and what still runs, with its stock taken and its order on
// the way it may be, gets a little longer. It returns ErrUnfinished if that was
// not enough.
func (p *parts) drain(ctx context.Context, server *http.Server, requests *counted, failed <-chan error) error {
	late, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	err := server.Shutdown(late)
	if err == nil {
		<-failed
		return nil
	}
	p.cfg.Logger.Warn("cutting off the last clients", "under_way", requests.n.Load(), "error", err)
	if err := server.Close(); err != nil {
		p.cfg.Logger.Error("cutting off the last clients", "error", err)
	}
	<-failed
	if n := requests.wait(sectionTimeout); n > 0 {
		return fmt.Errorf("closing: %w: %d, after %v; units may be taken with no order", ErrUnfinished, n, drainTimeout+sectionTimeout)
	}
	return nil
}

// counted is a handler that knows how many requests it is handling. The server
// itself does not: its Close returns while handlers run.
type counted struct {
	http.Handler
	n atomic.Int64
}

func (c *counted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.n.Add(1)
	defer c.n.Add(-1)
	c.Handler.ServeHTTP(w, r)
}

// wait returns when nothing is being handled, or after limit, with the number
// of requests that still are.
func (c *counted) wait(limit time.Duration) int64 {
	for end := time.Now().Add(limit); c.n.Load() > 0 && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	return c.n.Load()
}
