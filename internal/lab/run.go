package lab

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"oversell/internal/build"
	"oversell/internal/stall"
)

// Embedded is the value of Config.Redis for a Redis in this process, in
// virtual time.
const Embedded = "embedded"

// Config is what to run, and where.
type Config struct {
	Columns   []Column
	Scenarios []Scenario

	Redis     string // Embedded, or the URL of one server
	RedisName string // what the report calls it

	TTL time.Duration // lease of a lock; 0 means 3s, or 1s in real time
}

const (
	virtualTTL   = 3 * time.Second
	realTTL      = time.Second
	virtualLimit = time.Hour // after which a cell is given up
	realLimit    = 40        // the same in real time, in ttls
	parallel     = 16        // cells at a time in real time: they mostly sleep
	attempts     = 4         // of a cell during which the machine stalled, with twice the ttl each time
	tolerance    = 25        // a stall is longer than the ttl divided by this
)

// Run tries every anomaly on every column, and tells progress of each cell as
// it is done, one at a time. In virtual time the same comes out in every run.
// In real time a cell during which this machine stalled is tried again, with a
// longer ttl.
//
// A cell that comes out otherwise than is on record is no error: see
// Report.Unexpected.
func Run(ctx context.Context, cfg Config, progress func(Cell)) (Report, error) {
	start := time.Now()
	r := &run{cfg: cfg, progress: progress, virtual: cfg.Redis == Embedded}
	r.cells = make([]Cell, len(cfg.Scenarios)*len(cfg.Columns))
	err := r.all(ctx)
	if ctx.Err() != nil {
		err = fmt.Errorf("interrupted: %w", context.Cause(ctx))
	}
	report := Report{Manifest: r.manifest(start), Cells: r.cells}
	for _, s := range cfg.Scenarios {
		report.Anomalies = append(report.Anomalies, s.Anomaly)
	}
	return report, err
}

// run is one Run.
type run struct {
	cfg      Config
	progress func(Cell)
	virtual  bool
	cells    []Cell
	mu       sync.Mutex // one progress at a time
}

func (r *run) ttl() time.Duration {
	switch {
	case r.cfg.TTL > 0:
		return r.cfg.TTL
	case r.virtual:
		return virtualTTL
	}
	return realTTL
}

func (r *run) all(ctx context.Context) error {
	if !r.virtual {
		return r.really(ctx)
	}
	return virtually(func() {
		for i := range r.cells {
			if ctx.Err() != nil {
				return
			}
			// Not in ctx: it is from outside of virtual time.
			s := inMemory()
			c, _ := r.cell(context.Background(), s, i, r.ttl(), virtualLimit)
			r.done(i, c)
			s.close()
		}
	})
}

// really runs the cells on a real server, several at a time.
func (r *run) really(ctx context.Context) error {
	s, err := at(r.cfg.Redis)
	if err != nil {
		return err
	}
	conn, err := s.dial(ctx)
	if err != nil {
		return fmt.Errorf("dialling Redis: %w", err)
	}
	conn.Close()
	left := make([]int, len(r.cells))
	for i := range left {
		left[i] = i
	}
	for n := 0; n < attempts && len(left) > 0 && ctx.Err() == nil; n++ {
		left = r.pass(ctx, s, left, r.ttl()<<n, n == attempts-1)
	}
	return ctx.Err()
}

// pass runs some cells with the given ttl, and returns those in which nothing
// was decided: the scenario got stuck, or this machine did not keep its times,
// so that the next pass has to give it more. What is still undecided in the
// last pass stays so.
func (r *run) pass(ctx context.Context, s *server, cells []int, ttl time.Duration, last bool) []int {
	var mu sync.Mutex
	var left []int
	var g errgroup.Group
	g.SetLimit(parallel)
	for _, i := range cells {
		g.Go(func() error {
			if ctx.Err() != nil {
				return nil
			}
			c, kept := r.timed(ctx, s, i, ttl)
			if (kept && c.Outcome != Unknown) || last {
				r.done(i, c)
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			left = append(left, i)
			return nil
		})
	}
	_ = g.Wait() // none fails
	return left
}

// timed runs a cell and reports whether its times were kept. If not, whatever
// came out decides nothing.
func (r *run) timed(ctx context.Context, s *server, i int, ttl time.Duration) (c Cell, kept bool) {
	watch := stall.Start(ttl/tolerance, nil)
	c, late := r.cell(ctx, s, i, ttl, ttl*realLimit)
	if stalled := watch.Stop(); stalled == 0 && !late {
		return c, true
	}
	if c.Outcome != NA {
		c.Outcome, c.Note = Unknown, tooBusy+c.Note
	}
	return c, false
}

// tooBusy begins the note of a cell that decides nothing.
const tooBusy = "this machine was too busy to keep the times: "

// cell runs the i-th cell, and reports whether something in it was late.
func (r *run) cell(ctx context.Context, s *server, i int, ttl, limit time.Duration) (c Cell, late bool) {
	scenario, column := r.at(i)
	c = Cell{Anomaly: scenario.Name, Strategy: column.Name, Expected: scenario.Expected(column.Name)}
	if scenario.senseless != nil {
		if why := scenario.senseless(column); why != "" {
			c.Outcome, c.Note, c.Trace = NA, why, []Event{}
			return c, false
		}
	}
	w := newWorld(ctx, s, column, ttl)
	v := w.play(scenario.run, limit)
	c.Outcome, c.Note, c.Trace = v.outcome, v.note, w.trace.events()
	w.close()
	return c, w.late.Load()
}

// at says which anomaly and which column the i-th cell is of.
func (r *run) at(i int) (Scenario, Column) {
	n := len(r.cfg.Columns)
	return r.cfg.Scenarios[i/n], r.cfg.Columns[i%n]
}

func (r *run) done(i int, c Cell) {
	r.cells[i] = c
	if r.progress == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.progress(c)
}

func (r *run) manifest(start time.Time) Manifest {
	m := Manifest{
		Started: start.UTC().Truncate(time.Second),
		Redis:   r.cfg.RedisName,
		Go:      runtime.Version(), OS: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(),
		Version: build.Version(), TTL: r.ttl(), Virtual: r.virtual, Wall: time.Since(start),
	}
	for _, c := range r.cfg.Columns {
		m.Strategies = append(m.Strategies, c.Name)
	}
	return m
}
