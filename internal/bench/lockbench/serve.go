package lockbench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"oversell/internal/backend"
	"oversell/internal/backend/lockservers"
	"oversell/internal/catalog"
	"oversell/internal/fleet"
)

// setup is the first message to a process.
type setup struct {
	RedisURL  string                `json:"redis_url"`
	Servers   lockservers.Addresses `json:"servers"`
	Contender string                `json:"contender"`
	Name      string                `json:"name"` // of the process; unique
	Key       string                `json:"key"`  // of the lock
	Counter   string                `json:"counter"`
	TTL       time.Duration         `json:"ttl"`
	Wait      time.Duration         `json:"wait"`

	Contenders int `json:"contenders"` // of this process
}

// Serve is the main function of a process of a row: it runs its part of the contenders. It takes
// commands from in and reports events to out: see fleet.Serve. The process should exit when Serve
// returns: the goroutine that reads from in may still be running, and so may contenders that do not
// return from their lock.
func Serve(ctx context.Context, list Catalog, in io.Reader, out io.Writer) error {
	return fleet.Serve(ctx, in, out, func(ctx context.Context, with setup, s *fleet.Server) error {
		c, err := gather(ctx, list, with)
		if err != nil {
			return err
		}
		defer c.close()
		c.slots = slots{s.Words}
		c.stand()
		s.Obey(func(ctx context.Context, text json.RawMessage) (any, error) {
			var start time.Time
			if err := json.Unmarshal(text, &start); err != nil {
				return nil, fmt.Errorf("reading the time of the start: %w", err)
			}
			defer s.WatchStalls(tolerable)()
			return c.run(ctx, start), c.slots.Flush()
		})
		s.Ready("")
		<-ctx.Done()
		return nil
	})
}

// gather returns a part with its connections and its guard. It does not start the contenders.
func gather(ctx context.Context, list Catalog, s setup) (c *part, err error) {
	one, err := list.Find(s.Contender)
	if err != nil {
		return nil, err
	}
	c = &part{setup: s, gate: make(chan struct{})}
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	if c.rdb, err = backend.DialRedis(ctx, s.RedisURL, pool); err != nil {
		return c, err
	}
	if err = warm(ctx, c.rdb, min(pool, s.Contenders)); err != nil {
		return c, err
	}
	if c.others, err = lockservers.Running(s.Servers).Dial(ctx, s.TTL); err != nil {
		return c, err
	}
	if c.guard, err = one.Make(s.Key, c.others.Add(catalog.Options{Redis: c.rdb, TTL: s.TTL})); err != nil {
		return c, fmt.Errorf("making %s: %w", one.Name, err)
	}
	return c, nil
}

// warm opens n connections. On a cluster it opens as many as n concurrent commands need.
func warm(ctx context.Context, rdb redis.UniversalClient, n int) error {
	client, ok := rdb.(*redis.Client)
	if !ok {
		var open errgroup.Group
		for range n {
			open.Go(func() error { return rdb.Ping(ctx).Err() })
		}
		return open.Wait()
	}
	for range n { // each keeps its connection until all have one
		c := client.Conn()
		defer c.Close()
		if err := c.Ping(ctx).Err(); err != nil {
			return fmt.Errorf("opening connections: %w", err)
		}
	}
	return nil
}
