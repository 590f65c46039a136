package lockbench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"oversell/internal/backend"
	"oversell/internal/fleet"
)

// Run runs a row for each of cfg.Names. When it fails or ctx is cancelled, it returns the
// finished rows with the error: one of Check, of a process or of Redis, or the cause of
// ctx.
func Run(ctx context.Context, cfg Config, p Progress) (rows []Row, err error) {
	r, err := NewRunner(ctx, cfg, p)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	names := r.cfg.Names
	for i, name := range names {
		p.Row(i+1, len(names), name)
		row, err := r.Row(ctx, name)
		if err != nil {
			return rows, err
		}
		rows = append(rows, row)
		p.Done(row)
	}
	return rows, nil
}

// Runner runs rows one at a time, in any order. Its methods are not safe for concurrent
// use. Call Close at the end.
type Runner struct {
	cfg      Config
	progress Progress
	id       string // unique among all runners
	rdb      redis.UniversalClient
	url      string // for the processes
	embedded bool   // whether the Redis is an embedded one
	rows     int
}

// NewRunner connects to Redis. The errors are those of Config.Check and
// backend.DialRedis. It only calls Waiting of p.
func NewRunner(ctx context.Context, cfg Config, p Progress) (*Runner, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	r := &Runner{cfg: cfg, progress: p, id: uuid.NewString()[:8], url: cfg.RedisURL}
	var err error
	if cfg.Fault.Stop > 0 { // so that replies are not late after a stop
		if r.url, err = backend.WithReadTimeout(r.url, cfg.Fault.Stop+replyTime); err != nil {
			return nil, err
		}
	}
	if r.rdb, err = backend.DialRedis(ctx, cfg.RedisURL, 4); err != nil {
		return nil, err
	}
	if r.embedded, err = backend.EmbeddedRedis(ctx, cfg.RedisURL); err != nil {
		_ = r.rdb.Close()
		return nil, err
	}
	return r, nil
}

// replyTime is how long a process waits for Redis beyond the time that it may be stopped.
const replyTime = 2 * time.Second

// prefix is the prefix of the runner's keys, which are on one node of a cluster.
func (r *Runner) prefix() string { return "oversell:{lockbench-" + r.id + "}" }

// tidyTimeout bounds the removal of the keys.
const tidyTimeout = 20 * time.Second

// Close removes the runner's keys and closes its connections.
func (r *Runner) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), tidyTimeout)
	defer cancel()
	err := r.tidy(ctx)
	if err != nil {
		err = fmt.Errorf("removing the keys of the run: %w", err)
	}
	return errors.Join(err, r.rdb.Close())
}

func (r *Runner) tidy(ctx context.Context) error {
	remove := func(ctx context.Context, node redis.Cmdable) error {
		keys := node.Scan(ctx, 0, r.prefix()+"*", 1000).Iterator()
		for keys.Next(ctx) {
			if err := r.rdb.Del(ctx, keys.Val()).Err(); err != nil {
				return err
			}
		}
		return keys.Err()
	}
	if cluster, ok := r.rdb.(*redis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return remove(ctx, node) })
	}
	return remove(ctx, r.rdb)
}

// Row runs one row. The errors are those of Catalog.Find, of a process that crashed or could
// not start, of Redis, and the cause of ctx. A lock that does not hold is not an error.
func (r *Runner) Row(ctx context.Context, name string) (Row, error) {
	one, err := r.cfg.Catalog.Find(name)
	if err != nil {
		return Row{}, err
	}
	skip, err := r.skip(ctx, one)
	if err != nil {
		return Row{}, err
	}
	if skip != "" {
		return Row{Contender: one.Name, Waits: one.Waits, About: one.About, Skipped: skip, Verdict: Skipped}, nil
	}
	row, err := r.row(ctx, one)
	if err != nil {
		return Row{}, fmt.Errorf("running %s: %w", name, err)
	}
	return row, nil
}

// needsTracking is why a contender cannot be run on the embedded Redis.
const needsTracking = "needs a real Redis: this one has no CLIENT TRACKING"

// skip says why the contender cannot be run on this server, or "".
func (r *Runner) skip(ctx context.Context, c Contender) (string, error) {
	if !c.Tracking {
		return "", nil
	}
	err := r.rdb.Do(ctx, "client", "getredir").Err() // it came with CLIENT TRACKING
	var refused redis.Error
	if errors.As(err, &refused) {
		return needsTracking, nil
	}
	return "", err
}

func (r *Runner) row(ctx context.Context, one Contender) (_ Row, err error) {
	r.rows++
	key := fmt.Sprintf("%s:%d", r.prefix(), r.rows)
	e := ended{contender: one, embedded: r.embedded, initial: r.cfg.Contenders}
	if err := r.rdb.Set(ctx, key+":counter", e.initial, 0).Err(); err != nil {
		return Row{}, err
	}
	e.fleet = fleet.New(1, func(n int) (fleet.Program, error) { return r.program(one.Name, key, n), nil })
	defer e.fleet.Stop(stopTimeout)
	if err := e.fleet.Fill(ctx, r.cfg.Processes); err != nil {
		return Row{}, err
	}
	for i, m := range e.fleet.Members() {
		e.members = append(e.members, &member{Member: m, contenders: r.cfg.share(i), slots: slots{m.Words}})
	}
	before, own, err := r.countedBefore(ctx)
	if err != nil {
		return Row{}, err
	}
	if err := r.contend(ctx, &e); err != nil {
		return Row{}, err
	}
	after, err := r.counted(ctx)
	if err != nil {
		return Row{}, err
	}
	e.commands = after - before - own
	if e.counter, err = r.rdb.Get(ctx, key+":counter").Int(); err != nil {
		return Row{}, fmt.Errorf("reading the counter: %w", err)
	}
	return e.row(), nil
}

// countedBefore returns the server's count of commands, and the cost of reading it.
func (r *Runner) countedBefore(ctx context.Context) (n, own int64, err error) {
	first, err := r.counted(ctx)
	if err != nil {
		return 0, 0, err
	}
	n, err = r.counted(ctx)
	return n, n - first, err
}

// counted is the server's count of commands.
func (r *Runner) counted(ctx context.Context) (int64, error) {
	n, err := backend.RedisCommands(ctx, r.rdb)
	if err != nil {
		return 0, err
	}
	if n == nil {
		return 0, errors.New("the user of Redis may not run INFO, which counts commands_per_deduct")
	}
	return *n, nil
}

// program says how to start the n-th process of a row, which has its part of the contenders.
func (r *Runner) program(contender, key string, n int) fleet.Program {
	share := r.cfg.share(n - 1)
	s := setup{
		RedisURL: r.url, Servers: r.cfg.Servers, Contender: contender, Name: fmt.Sprintf("%s-%d-%d", r.id, r.rows, n),
		Key: key + ":lock", Counter: key + ":counter", Contenders: share,
		Pool: r.cfg.Pool, TTL: r.cfg.TTL, Wait: r.cfg.Wait,
	}
	return fleet.Program{Name: "process " + s.Name, Command: r.cfg.Command, Setup: s, Words: slotWords(share)}
}

// stopTimeout is how long a process may take to end when it is asked to.
const stopTimeout = 5 * time.Second

// lead is how long before the common start the processes get its time.
const lead = 20 * time.Millisecond

// contend starts the contenders, injects the fault, and waits for the outcomes.
func (r *Runner) contend(ctx context.Context, e *ended) error {
	e.start = time.Now().Add(lead)
	running, over := context.WithCancel(ctx)
	var aside sync.WaitGroup
	defer aside.Wait() // before the words are closed
	defer over()
	aside.Go(func() { r.report(running, e.members) })
	var hitting sync.WaitGroup
	if d := r.cfg.Fault; d.any() {
		hitting.Go(func() { e.hits, e.missed = d.inject(running, e, r.cfg.Contenders) })
	}
	err := r.outcomes(ctx, e)
	e.end = time.Now()
	over()
	hitting.Wait()
	return err
}

// outcomes starts the contenders, and waits until all processes that were not killed report that they are over. One
// that does not in time is killed: its contenders never returned from their lock.
func (r *Runner) outcomes(ctx context.Context, e *ended) error {
	limit := time.Until(e.start) + r.cfg.Wait + r.cfg.Fault.Stop + 2*grace
	g, ctx := errgroup.WithContext(ctx) // one that failed ends the row
	for _, m := range e.members {
		g.Go(func() error {
			err := m.Tell(ctx, e.start, &m.tally, limit)
			switch {
			case err == nil:
				return m.slots.Fetch()
			case m.Killed.Load() && ctx.Err() == nil:
				return nil
			case errors.Is(err, fleet.ErrLate):
				m.Process.Kill()
				return nil
			}
			return err
		})
	}
	return g.Wait()
}

// report updates the progress until ctx ends.
func (r *Runner) report(ctx context.Context, members []*member) {
	var awaited atomic.Int64
	awaited.Store(int64(r.cfg.Contenders))
	r.progress.Waiting(awaited.Load)
	ticker := time.NewTicker(redraw)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			n := int64(r.cfg.Contenders)
			for _, m := range members {
				n -= m.slots.over()
			}
			awaited.Store(n)
		}
	}
}

// redraw is how often the progress is updated.
const redraw = 50 * time.Millisecond
