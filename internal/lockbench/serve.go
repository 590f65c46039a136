package lockbench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"oversell/internal/backend"
)

// setup is what a process is told first. It goes through a pipe and not through
// arguments, since it may hold passwords.
type setup struct {
	RedisURL  string        `json:"redis_url"`
	Contender string        `json:"contender"`
	Name      string        `json:"name"` // of the process; unique
	Key       string        `json:"key"`  // of the lock
	Counter   string        `json:"counter"`
	Board     string        `json:"board"` // a file
	Crowd     int           `json:"crowd"` // contenders of this process
	Pool      int           `json:"pool"`
	TTL       time.Duration `json:"ttl"`
	Wait      time.Duration `json:"wait"`
	Memory    bool          `json:"memory,omitempty"` // measure what waiting takes, and nothing else
}

// order is what a process is told, one JSON object a line: first its setup, then
// when to start. The end of the orders is the order to end.
type order struct {
	Setup *setup     `json:"setup,omitempty"`
	Start *time.Time `json:"start,omitempty"`
}

// news is what a process tells, one JSON object a line.
type news struct {
	Ready  bool    `json:"ready,omitempty"`  // all stand and wait for the start
	Over   *tally  `json:"over,omitempty"`   // every outcome is known, or will not be
	Memory *Memory `json:"memory,omitempty"` // instead, where that is asked for
}

// Serve is what a process of a row runs: its part of the crowd. It takes orders
// from in and reports to out. It returns nil when in ends, so that no process
// outlives the row, or when ctx is cancelled; or the error of orders that cannot
// be read or carried out, or of a Redis that is not there. It is for a process
// that ends when Serve returns: a contender that does not come back from its
// lock is left behind, and so is a reader of in that has not ended.
func Serve(ctx context.Context, catalog Catalog, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	orders, failed := make(chan order), make(chan error, 1)
	go func() {
		defer cancel()
		failed <- readOrders(ctx, in, orders)
	}()
	err := obey(ctx, catalog, orders, json.NewEncoder(out))
	if err != nil && ctx.Err() == nil {
		return err
	}
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

func readOrders(ctx context.Context, in io.Reader, orders chan<- order) error {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var o order
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			return fmt.Errorf("reading an order: %w", err)
		}
		select {
		case orders <- o:
		case <-ctx.Done():
			return nil
		}
	}
	return lines.Err()
}

// next returns the next order, or none when ctx ends first.
func next(ctx context.Context, orders <-chan order) order {
	select {
	case o := <-orders:
		return o
	case <-ctx.Done():
		return order{}
	}
}

// obey carries out the orders, and stays until there are no more.
func obey(ctx context.Context, catalog Catalog, orders <-chan order, out *json.Encoder) error {
	s := next(ctx, orders).Setup
	if s == nil {
		return errors.New("reading the setup: the first order has none")
	}
	c, err := gather(ctx, catalog, *s)
	if err != nil {
		return err
	}
	defer c.close()
	tell := func(n news) { _ = out.Encode(n) } // that nobody listens shows in the end of the orders
	if s.Memory {
		m, err := c.memory(ctx)
		if err != nil {
			return err
		}
		tell(news{Memory: &m})
		<-ctx.Done()
		return nil
	}
	c.stand(ctx)
	tell(news{Ready: true})
	start := next(ctx, orders).Start
	if start == nil {
		c.dismiss()
		return errors.New("reading the start: the second order has none")
	}
	over := c.run(*start)
	if err := c.board.Flush(); err != nil {
		return err
	}
	tell(news{Over: &over})
	<-ctx.Done()
	return nil
}

// gather makes a crowd and all that it needs. Nobody stands yet.
func gather(ctx context.Context, catalog Catalog, s setup) (c *crowd, err error) {
	one, err := catalog.Find(s.Contender)
	if err != nil {
		return nil, err
	}
	c = &crowd{setup: s, gate: make(chan struct{})}
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	if !s.Memory {
		if c.board, err = openBoard(s.Board, s.Crowd); err != nil {
			return c, err
		}
	}
	if c.rdb, err = backend.DialRedis(ctx, s.RedisURL, s.Pool); err != nil {
		return c, err
	}
	if err = warm(ctx, c.rdb, min(s.Pool, s.Crowd)); err != nil {
		return c, err
	}
	if c.guard, err = one.Make(Process{Redis: c.rdb, Key: s.Key, TTL: s.TTL}); err != nil {
		return c, fmt.Errorf("making %s: %w", one.Name, err)
	}
	return c, nil
}

// warm opens n connections. Of a cluster it opens those that n commands at once
// take.
func warm(ctx context.Context, rdb redis.UniversalClient, n int) error {
	client, ok := rdb.(*redis.Client)
	if !ok {
		var open errgroup.Group
		for range n {
			open.Go(func() error { return rdb.Ping(ctx).Err() })
		}
		return open.Wait()
	}
	for range n { // each holds its own until all have one
		c := client.Conn()
		defer c.Close()
		if err := c.Ping(ctx).Err(); err != nil {
			return fmt.Errorf("opening connections: %w", err)
		}
	}
	return nil
}
