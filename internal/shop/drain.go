package shop

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"
)

// A shop ends within about five seconds: the first two of these times add up to less. Sending the
// last traces may take another second. Docker, for example, kills a process after ten seconds.
// Tests change these times.
var (
	// drainTimeout is how long running requests may take to finish.
	drainTimeout = 4 * time.Second
	// sectionTimeout is how long purchases may go on after that. Their clients have been
	// disconnected, but a purchase that has begun can still be finished.
	sectionTimeout = 500 * time.Millisecond
	// countTimeout limits the time for counting lost orders.
	countTimeout = time.Second
)

// finishTime is how long this process continues to write orders after the last request if Redis
// outlives it. Other processes can then write the remaining orders.
const finishTime = 400 * time.Millisecond

// ErrUnfinished means that purchases were still running when the shop had to end.
var ErrUnfinished = errors.New("requests are still running")

// drain waits for the running requests, but only for a limited time. They have drainTimeout to be
// answered. Then drain closes the connections, which ends requests of slow clients. Purchases that
// are still running may have taken units whose order is not written yet, and get sectionTimeout
// more. If that is not enough, drain returns ErrUnfinished.
func (p *parts) drain(ctx context.Context, server *http.Server, requests *counted, failed <-chan error) error {
	late, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	defer context.AfterFunc(p.cfg.Hurry, cancel)()
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
		return fmt.Errorf("closing: %w: %d, after %v; a deduct among them may have taken units with no order",
			ErrUnfinished, n, drainTimeout+sectionTimeout)
	}
	return nil
}

// ErrLost means that accepted orders were lost: they were not written, and Redis ends with the shop.
var ErrLost = errors.New("accepted orders are lost: they are not in the database, and Redis ends with the shop")

// finishTime returns how long the shop continues to write accepted orders after the last request.
func (p *parts) finishTime() time.Duration {
	if !p.cfg.RedisEnds || p.closing.IsZero() {
		return finishTime
	}
	return drainTimeout + sectionTimeout - time.Since(p.closing)
}

// lost returns ErrLost if accepted orders are lost.
func (p *parts) lost(ctx context.Context) error {
	if !p.cfg.RedisEnds {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), countTimeout)
	defer cancel()
	n, err := p.stock.Unwritten(ctx)
	if err != nil {
		return fmt.Errorf("closing: it is not known whether accepted orders are lost with Redis: %w", err)
	}
	if n > 0 {
		return fmt.Errorf("closing: %w: %d", ErrLost, n)
	}
	return nil
}

// counted is a handler that counts its running requests. It is needed because the server's Close
// returns while handlers are still running.
type counted struct {
	http.Handler
	n atomic.Int64
}

func (c *counted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.n.Add(1)
	defer c.n.Add(-1)
	c.Handler.ServeHTTP(w, r)
}

// wait waits until no request is running, but no longer than limit. It returns how many are still
// running.
func (c *counted) wait(limit time.Duration) int64 {
	for end := time.Now().Add(limit); c.n.Load() > 0 && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	return c.n.Load()
}
