package lab

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"oversell/internal/build"
	"oversell/internal/locks"
	"oversell/internal/proc"
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

	// What the locks of some columns live on. Without Nodes redlock has nodes in
	// memory if Redis is Embedded, in virtual time as all else.
	Nodes     []string // URLs of redlock's nodes
	Etcd      []string // endpoints
	ZooKeeper []string // host:port
	Servers   []string // what the report calls them

	TTL time.Duration // lease of a lock; 0 means 3s, 1s in real time, and 2s on etcd and ZooKeeper

	attempts int // of a cell during which the machine stalled; 0 means attempts
}

const (
	virtualTTL   = 3 * time.Second
	realTTL      = time.Second
	serviceTTL   = 2 * time.Second // whole seconds, and above what etcd and ZooKeeper take to look after what has run out
	virtualLimit = time.Hour       // after which a cell is given up
	realLimit    = 40              // the same in real time, in ttls
	parallel     = 16              // cells at a time in real time: they mostly sleep
	attempts     = 4               // of a cell during which the machine stalled, with twice the ttl each time
	tolerance    = 25              // a stall is longer than the ttl divided by this
)

// Run tries every anomaly on every column, and tells progress of each cell as
// it is done, one at a time. In virtual time the same comes out in every run.
// In real time a cell during which this machine stalled is tried again, with a
// longer ttl. Columns whose servers know of no virtual time are run in real time,
// after the others.
//
// A cell that comes out otherwise than is on record is no error: see
// Report.Unexpected.
func Run(ctx context.Context, cfg Config, progress func(Cell)) (Report, error) {
	start := time.Now()
	r := &run{cfg: cfg, progress: progress}
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
	cells    []Cell
	apart    []apart    // what is to be said of columns with a time or a lease of their own
	mu       sync.Mutex // one progress at a time
}

// apart is a column that is run in real time, with leases of its own.
type apart struct {
	column string
	ttl    time.Duration
}

// virtual reports whether a column is run in virtual time.
func (r *run) virtual(c Column) bool {
	return r.cfg.Redis == Embedded && !c.inService() && (c.Needs != locks.NeedsNodes || len(r.cfg.Nodes) == 0)
}

// ttl is the lease that a column's locks are to have.
func (r *run) ttl(c Column) time.Duration {
	switch {
	case r.cfg.TTL > 0:
		return r.cfg.TTL
	case r.virtual(c):
		return virtualTTL
	case c.inService():
		return serviceTTL
	}
	return realTTL
}

func (r *run) all(ctx context.Context) error {
	var virtual, real []int
	for i := range r.cells {
		if _, c := r.at(i); r.virtual(c) {
			virtual = append(virtual, i)
		} else {
			real = append(real, i)
		}
	}
	if len(virtual) > 0 {
		if err := r.virtually(ctx, virtual); err != nil {
			return err
		}
	}
	if len(real) == 0 && r.cfg.Redis == Embedded {
		return nil
	}
	return r.really(ctx, real)
}

// virtually runs cells one after the other.
func (r *run) virtually(ctx context.Context, cells []int) error {
	return virtually(func() {
		for _, i := range cells {
			if ctx.Err() != nil {
				return
			}
			// Not in ctx: it is from outside of virtual time.
			_, c := r.at(i)
			s := inMemoryFor(c)
			cell, _ := r.cell(context.Background(), s, i, r.ttl(c), virtualLimit)
			r.done(i, cell)
			s.close()
		}
	})
}

// really runs cells on real servers, several at a time.
func (r *run) really(ctx context.Context, cells []int) error {
	sites, err := r.open(ctx)
	if err != nil {
		return err
	}
	defer sites.close()
	most := cmp.Or(r.cfg.attempts, attempts)
	for n := 0; n < most && len(cells) > 0 && ctx.Err() == nil; n++ {
		cells = r.pass(ctx, sites, cells, n, n == most-1)
	}
	return ctx.Err()
}

// pass runs some cells for the n-th time, with a ttl twice as long as before, and
// returns those in which nothing was decided: the scenario got stuck, or this
// machine did not keep its times, so that the next pass has to give it more. What is
// still undecided in the last pass stays so.
func (r *run) pass(ctx context.Context, sites sites, cells []int, n int, last bool) []int {
	var mu sync.Mutex
	var left []int
	room := semaphore.NewWeighted(parallel)
	var all sync.WaitGroup
	for _, i := range cells {
		_, column := r.at(i)
		weight := weightOf(column)
		if room.Acquire(ctx, weight) != nil {
			break // interrupted
		}
		all.Go(func() {
			defer room.Release(weight)
			on := sites.of[column.Name]
			c, kept := r.timed(ctx, on.server, i, on.ttl<<n)
			if (kept && c.Outcome != Unknown) || last {
				r.done(i, c)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			left = append(left, i)
		})
	}
	all.Wait()
	return left
}

// weightOf is how many cells of others one of the column stands for. A node has only
// 50 ms to answer redlock, so not too many commands may be under way.
func weightOf(c Column) int64 {
	if c.Needs == locks.NeedsNodes {
		return 4
	}
	return 1
}

// timed runs a cell and reports whether its times were kept. If not, whatever
// came out decides nothing.
func (r *run) timed(ctx context.Context, s *server, i int, ttl time.Duration) (c Cell, kept bool) {
	watch := proc.WatchStalls(ttl/tolerance, nil)
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
	if scenario.clocks && !s.hasClocks() {
		c.Outcome, c.Expected, c.Note, c.Trace = NA, NA, "the clock of a server that is not in memory is not the lab's to set", []Event{}
		return c, false
	}
	w := newWorld(ctx, s, column, ttl)
	v := w.play(func(w *World) verdict { return w.examined(scenario, scenario.run(w)) }, limit)
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
		Version: build.Version(), TTL: virtualTTL, AskedTTL: r.cfg.TTL, Virtual: r.cfg.Redis == Embedded, Wall: time.Since(start),
	}
	if len(r.cfg.Columns) > 0 {
		// Those that are run in virtual time are spoken of first.
		first := r.cfg.Columns[max(0, slices.IndexFunc(r.cfg.Columns, r.virtual))]
		m.TTL, m.Virtual = r.ttl(first), r.virtual(first)
		for _, a := range r.apart {
			if a.column == first.Name {
				m.TTL = a.ttl
			}
		}
	}
	m.Servers = append(slices.Clone(r.cfg.Servers), r.others(m)...)
	for _, c := range r.cfg.Columns {
		m.Strategies = append(m.Strategies, c.Name)
	}
	return m
}

// others says of which columns time or lease are not as the manifest has them.
func (r *run) others(m Manifest) []string {
	var out []string
	for _, a := range r.apart {
		if m.Virtual || a.ttl != m.TTL {
			out = append(out, fmt.Sprintf("%s in real time, with leases of %v", a.column, a.ttl))
		}
	}
	return out
}
