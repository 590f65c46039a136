package lockbench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"oversell/internal/backend"
	"oversell/internal/bench"
	"oversell/internal/bench/report"
	"oversell/internal/catalog"
	"oversell/internal/figures"
	"oversell/internal/fleet"
	"oversell/internal/message"
)

// Run runs all rows of the config, with contenders of the list: see bench.Rows. When it fails or
// ctx is cancelled, it returns the finished rows and the error, which comes from Check, a process
// or Redis, or is the cause of ctx.
func Run(ctx context.Context, list Catalog, cfg bench.Config, p bench.Progress) (rows []report.Row, err error) {
	cfg = WithDefaults(cfg)
	if err := Check(list, cfg); err != nil {
		return nil, err
	}
	r := &runner{list: list, cfg: cfg, progress: p, url: cfg.RedisURL}
	if slices.ContainsFunc(cfg.Conditions, func(c catalog.Condition) bool { return faults()[c].stop }) {
		// A reply must not time out because the process was stopped.
		if r.url, err = backend.WithReadTimeout(r.url, stopTime(cfg.TTL)+replyTime); err != nil {
			return nil, err
		}
	}
	if r.embedded, err = backend.EmbeddedRedis(ctx, cfg.RedisURL); err != nil {
		return nil, err
	}
	if r.rdb, err = backend.DialRedis(ctx, cfg.RedisURL, 4); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	return bench.Rows(ctx, cfg, r.run, p)
}

// runner runs rows.
type runner struct {
	list     Catalog
	cfg      bench.Config
	progress bench.Progress
	rdb      redis.UniversalClient
	url      string // for the processes
	embedded bool   // whether the Redis is an embedded one
	rows     int
}

// replyTime is how long a process waits for Redis, in addition to the time for which it may be
// stopped.
const replyTime = 2 * time.Second

// prefix is the prefix of the runner's keys, which are on one node of a cluster.
func (r *runner) prefix() string { return "oversell:{lockbench-" + r.cfg.ID + "}" }

// tidyTimeout limits the removal of the keys.
const tidyTimeout = 20 * time.Second

// close removes the runner's keys and closes its connections.
func (r *runner) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), tidyTimeout)
	defer cancel()
	err := backend.EachMaster(ctx, r.rdb, func(ctx context.Context, node redis.Cmdable) error {
		keys := node.Scan(ctx, 0, r.prefix()+"*", 1000).Iterator()
		for keys.Next(ctx) {
			if err := r.rdb.Del(ctx, keys.Val()).Err(); err != nil {
				return err
			}
		}
		return keys.Err()
	})
	if err != nil {
		err = fmt.Errorf("removing the keys of the run: %w", err)
	}
	return errors.Join(err, r.rdb.Close())
}

// run runs a row once. A lock that does not hold is not an error. A run in which all contenders were
// served is repeated if its fault was not injected.
func (r *runner) run(ctx context.Context, of bench.Case) (bench.Result, error) {
	one, err := r.list.Find(of.Strategy)
	if err != nil {
		return bench.Result{}, err
	}
	var lock report.Lock
	if lock.Skipped, err = r.skip(ctx, one); err == nil && lock.Skipped == "" {
		lock, err = r.row(ctx, one.Name, faults()[of.Condition])
	}
	if err != nil {
		return bench.Result{}, err
	}
	lock.Contender, lock.Waits, lock.About = one.Name, one.Waits, one.About
	row := report.Row{Lock: &lock, Verdict: lock.Verdict()}
	row.Key = report.Key{Strategy: of.Strategy, Condition: of.Condition, Workload: report.WorkloadLock}
	if !one.comparable(r.embedded) && lock.Skipped == "" {
		row.Verdict = figures.NotComparable
	}
	missed := lock.Missed() && row.Verdict == figures.OK
	if missed {
		row.Differ(message.Newf("the fault was not injected: %v", message.Text(lock.Disturbed.Missed)))
	}
	row.Expected = !missed && (row.Verdict != report.Broken || one.Name == Bare)
	return bench.Result{Row: row, Missed: missed, Final: !missed}, nil
}

// skip returns the reason why the contender cannot be run on this server, or "" if it can.
func (r *runner) skip(ctx context.Context, c Contender) (string, error) {
	if c.Needs != catalog.NeedsRueidis {
		return "", nil
	}
	err := r.rdb.Do(ctx, "client", "getredir").Err() // this command is as old as CLIENT TRACKING
	var refused redis.Error
	if errors.As(err, &refused) {
		return "needs a real Redis: this one has no CLIENT TRACKING", nil
	}
	return "", err
}

func (r *runner) row(ctx context.Context, contender string, f fault) (_ report.Lock, err error) {
	r.rows++
	key := fmt.Sprintf("%s:%d", r.prefix(), r.rows)
	e := ended{initial: r.cfg.Requests}
	if err := r.rdb.Set(ctx, key+":counter", e.initial, 0).Err(); err != nil {
		return report.Lock{}, err
	}
	e.fleet = fleet.New(func(n int) (fleet.Program, error) { return r.program(contender, key, n), nil })
	defer e.fleet.Stop(stopTimeout)
	if err := e.fleet.Fill(ctx, r.cfg.Instances); err != nil {
		return report.Lock{}, err
	}
	for i, m := range e.fleet.Members() {
		e.members = append(e.members, &member{Member: m, contenders: share(r.cfg, i), slots: slots{m.Words}})
	}
	first, err := r.counted(ctx) // counting costs commands, too
	if err != nil {
		return report.Lock{}, err
	}
	before, err := r.counted(ctx)
	if err != nil {
		return report.Lock{}, err
	}
	if err := r.contend(ctx, &e, f); err != nil {
		return report.Lock{}, err
	}
	after, err := r.counted(ctx)
	if err != nil {
		return report.Lock{}, err
	}
	e.commands = after - before - (before - first)
	if e.counter, err = r.rdb.Get(ctx, key+":counter").Int(); err != nil {
		return report.Lock{}, fmt.Errorf("reading the counter: %w", err)
	}
	for _, m := range e.members { // right after the counter: a late contender may still write
		m.slips = m.slots.slips(m.contenders)
	}
	return e.row(), nil
}

// counted returns the server's count of commands.
func (r *runner) counted(ctx context.Context) (int64, error) {
	n, err := backend.RedisCommands(ctx, r.rdb)
	if err != nil {
		return 0, err
	}
	if n == nil {
		return 0, errors.New("the user of Redis may not run INFO, which counts commands_per_deduct")
	}
	return *n, nil
}

// program returns the program of the n-th process of a row, which runs its share of the contenders.
func (r *runner) program(contender, key string, n int) fleet.Program {
	contenders := share(r.cfg, n-1)
	s := setup{
		RedisURL: r.url, Servers: r.cfg.Servers, Contender: contender,
		Name: fmt.Sprintf("%s-%d-%d", r.cfg.ID, r.rows, n),
		Key:  key + ":lock", Counter: key + ":counter", Contenders: contenders,
		TTL: r.cfg.TTL, Wait: r.cfg.Wait,
	}
	return fleet.Program{Name: "process " + s.Name, Command: r.cfg.Command, Setup: s, Words: slotWords(contenders)}
}

// stopTimeout limits the time that a process takes to end when it is asked to.
const stopTimeout = 5 * time.Second

// lead is the time between telling the processes the common start and the start itself.
const lead = 20 * time.Millisecond

// contend starts the contenders, injects the fault, and waits for the outcomes.
func (r *runner) contend(ctx context.Context, e *ended, f fault) error {
	e.start = time.Now().Add(lead)
	running, over := context.WithCancel(ctx)
	defer over()
	r.progress.Waiting(bench.Outcomes, e.awaited)
	defer r.progress.Waiting(bench.Outcomes, func() int64 { return 0 }) // before the words are closed
	var hitting sync.WaitGroup
	if f.any() {
		hitting.Go(func() { e.hits, e.missed = f.inject(running, e, r.cfg.Requests, stopTime(r.cfg.TTL)) })
	}
	err := r.outcomes(ctx, e)
	e.end = time.Now()
	over()
	hitting.Wait()
	return err
}

// outcomes starts the contenders, and waits until every process that was not killed reports that
// it is done. It kills a process that does not report in time: some of its contenders never
// returned from their lock.
func (r *runner) outcomes(ctx context.Context, e *ended) error {
	limit := time.Until(e.start) + r.cfg.Wait + stopTime(r.cfg.TTL) + 2*grace
	g, ctx := errgroup.WithContext(ctx) // a process that fails ends the row
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

// awaited returns the number of missing outcomes.
func (e *ended) awaited() (n int64) {
	for _, m := range e.members {
		n += int64(m.contenders) - m.slots.over()
	}
	return n
}
