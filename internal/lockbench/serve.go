package lockbench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"oversell/internal/backend"
	"oversell/internal/backend/lockservers"
	"oversell/internal/proc"
)

// setup is the first command of a process. It goes through a pipe and not through
// arguments, because it may hold passwords.
type setup struct {
	RedisURL  string                `json:"redis_url"`
	Servers   lockservers.Addresses `json:"servers"`
	Contender string                `json:"contender"`
	Name      string                `json:"name"` // of the process; unique
	Key       string                `json:"key"`  // of the lock
	Counter   string                `json:"counter"`
	Board     string                `json:"board"` // a file
	Crowd     int                   `json:"crowd"` // contenders of this process
	Pool      int                   `json:"pool"`
	TTL       time.Duration         `json:"ttl"`
	Wait      time.Duration         `json:"wait"`
}

// command is what a process receives: first its setup, then the time of the start. The
// process ends when the commands do.
type command struct {
	Setup *setup     `json:"setup,omitempty"`
	Start *time.Time `json:"start,omitempty"`
}

// event is what a process reports: one of these.
type event struct {
	Ready bool   `json:"ready,omitempty"` // all contenders wait for the start
	Over  *tally `json:"over,omitempty"`  // every outcome is known, or never will be
}

// Serve is what a process of a row runs: its part of the contenders. It takes commands
// from in and reports events to out. It returns nil when in ends, so that no process
// outlives the row, or when ctx is cancelled; or the error of commands that cannot be
// read or carried out, or of a Redis that cannot be reached. The process should exit when
// Serve returns: a contender that does not return from its lock is left behind, and so
// is the reader of in.
func Serve(ctx context.Context, list Catalog, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := proc.Listen[command, event](ctx, cancel, in, out)
	if err := obey(ctx, list, p); err != nil && ctx.Err() == nil {
		return err
	}
	return p.Err()
}

// obey carries out the commands, and stays until there are no more.
func obey(ctx context.Context, list Catalog, p *proc.Parent[command, event]) error {
	s := p.Next(ctx).Setup
	if s == nil {
		return errors.New("the first command is not a setup")
	}
	c, err := gather(ctx, list, *s)
	if err != nil {
		return err
	}
	defer c.close()
	if c.board, err = openBoard(s.Board, s.Crowd); err != nil {
		return err
	}
	c.stand(ctx)
	p.Send(event{Ready: true})
	start := p.Next(ctx).Start
	if start == nil {
		c.dismiss()
		return errors.New("the second command is not a start")
	}
	over := c.run(*start)
	if err := c.board.Flush(); err != nil {
		return err
	}
	p.Send(event{Over: &over})
	<-ctx.Done()
	return nil
}

// gather makes a crowd, its connections and its guard. Nobody stands yet.
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
	if c.rdb, err = backend.DialRedis(ctx, s.RedisURL, s.Pool); err != nil {
		return c, err
	}
	if err = warm(ctx, c.rdb, min(s.Pool, s.Crowd)); err != nil {
		return c, err
	}
	if c.others, err = lockservers.Dial(ctx, s.Servers, s.TTL); err != nil {
		return c, err
	}
	p := Process{Redis: c.rdb, Key: s.Key, TTL: s.TTL, Others: c.others}
	if c.guard, err = one.Make(p); err != nil {
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
