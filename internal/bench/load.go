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

// burst is a load of requests that are sent all at once, each on its own connection that
// was opened before.
type burst struct {
	buyers  []*buyer
	waiting atomic.Int64 // requests without an outcome
}

// buyer is one request and its connection.
type buyer struct {
	conn
	req *http.Request
}

// dialers bounds the connections that are opened at once, well below the backlog of a
// listener.
const dialers = 64

// open opens a connection for each of n requests, to each target in turn.
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

// close implements load.
func (b *burst) close() {
	for _, buyer := range b.buyers {
		if buyer != nil {
			buyer.reset()
		}
	}
}

// fire implements load.
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
		_ = buyer.SetDeadline(start.Add(limit)) // a dead connection fails when it is used
	}
	stop := context.AfterFunc(ctx, b.cut)
	defer stop()
	close(gate)
	done.Wait()
}

// awaited implements load.
func (b *burst) awaited() int64 { return b.waiting.Load() }

// cut ends the wait for all outcomes.
func (b *burst) cut() {
	for _, buyer := range b.buyers {
		buyer.cut()
	}
}
