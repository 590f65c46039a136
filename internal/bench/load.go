package bench

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// burst is a crowd of requests that go all at once, each on a connection of
// its own that was opened before.
type burst struct {
	buyers  []*buyer
	waiting atomic.Int64 // requests whose outcome is awaited
}

// buyer is one request and its connection.
type buyer struct {
	conn
	req *http.Request
}

// dialers bounds the connections that are opened at once, well below what a
// listener queues.
const dialers = 64

// open opens a connection for each of n requests, in turn to each target.
func open(ctx context.Context, targets []string, n int, request func(i int, target string) (*http.Request, error)) (*burst, error) {
	b := &burst{buyers: make([]*buyer, n)}
	var g errgroup.Group
	g.SetLimit(dialers)
	for i := range n {
		g.Go(func() error {
			t := i % len(targets)
			req, err := request(i, targets[t])
			if err != nil {
				return err
			}
			c, err := dial(ctx, req.URL)
			if err != nil {
				return fmt.Errorf("opening connection %d of %d to %s: %w", i+1, n, targets[t], err)
			}
			b.buyers[i] = &buyer{conn{Conn: c, target: t}, req}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

// close closes all connections.
func (b *burst) close() {
	for _, buyer := range b.buyers {
		if buyer != nil {
			buyer.reset()
		}
	}
}

// fire lets all requests go at once and waits for the outcome of each, at most
// for the limit or until the end of ctx.
func (b *burst) fire(ctx context.Context, limit time.Duration, t *tally) {
	gate := make(chan struct{})
	var start time.Time
	var ready, done sync.WaitGroup
	ready.Add(len(b.buyers))
	for i, buyer := range b.buyers {
		done.Go(func() {
			ready.Done()
			<-gate
			r, _ := buyer.exchange(buyer.req)
			r.Request = i
			r.At = time.Since(start)
			r.Latency, r.Service = r.At, r.At
			t.add(r)
			b.waiting.Add(-1)
		})
	}
	ready.Wait()
	b.waiting.Store(int64(len(b.buyers)))
	start = time.Now()
	t.begin(start)
	for _, buyer := range b.buyers {
		_ = buyer.SetDeadline(start.Add(limit)) // a connection that is dead already says so when it is used
	}
	stop := context.AfterFunc(ctx, b.cut)
	defer stop()
	close(gate)
	done.Wait()
}

// awaited is how many outcomes are still awaited.
func (b *burst) awaited() int64 { return b.waiting.Load() }

// cut ends the wait for all outcomes.
func (b *burst) cut() {
	for _, buyer := range b.buyers {
		buyer.cut()
	}
}
