package lab

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"oversell/internal/catalog"
	"oversell/internal/fleet"
	"oversell/internal/message"
)

// Embedded is the value of Config.Redis for a Redis in this process that runs in virtual time.
const Embedded = "embedded"

// Config selects what to run, and on which servers.
type Config struct {
	Subjects  []Subject
	Scenarios []Scenario

	Redis     string // Embedded, or the URL of one server
	RedisName string // its name in the report

	// Database is where sales keep their orders: "" or Embedded for an SQLite file per cell, or an
	// address that the scenario's OpenDatabase accepts.
	Database     string
	DatabaseName string // its name in the report

	// The servers of some subjects' locks. If Nodes is empty and Redis is Embedded, redlock has
	// nodes in memory, in virtual time.
	Nodes []string // URLs of redlock's nodes
	// Services connect to the servers of locks outside Redis, without faults: see anomalies.Services.
	Services map[catalog.Need]func(context.Context) (*Service, error)
	Servers  []string // their names in the report

	TTL time.Duration // lease of a lock; 0 means 3s in virtual time, 1s in real time, and 2s on etcd and ZooKeeper
}

// MaxTTL is the longest lease of a cell. With a longer one, a statement to the database times out
// first, and cells have other outcomes.
const MaxTTL = 4 * time.Second

const (
	virtualTTL = 3 * time.Second
	realTTL    = time.Second
	// In whole seconds, and longer than etcd and ZooKeeper need to notice an expired lease.
	serviceTTL   = 2 * time.Second
	virtualLimit = time.Hour // time limit of a cell in virtual time
	realLimit    = 40        // time limit of a cell in real time, in multiples of the ttl
	parallel     = 16        // number of cells that run at once in real time: they mostly sleep
	attempts     = 3         // maximum number of runs of a cell in real time; the ttl doubles each time
	tolerance    = 25        // the ttl divided by this is the shortest delay that counts as a stall
)

// Run tries every anomaly on every subject, and calls progress with each finished cell. Calls to
// progress do not overlap. In virtual time every run has the same outcomes. In real time a cell
// during which this machine stalled is tried again, with a longer ttl. Subjects that cannot run in
// virtual time are run in real time, after the other subjects.
//
// A cell without the recorded outcome is not an error (see Report.Unexpected).
func Run(ctx context.Context, cfg Config, progress func(Cell)) (Report, error) {
	start := time.Now()
	r := &run{cfg: cfg, progress: progress}
	r.cells = make([]Cell, len(cfg.Scenarios)*len(cfg.Subjects))
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

type run struct {
	cfg      Config
	progress func(Cell)
	cells    []Cell
	servers  map[string]*server // servers of the subjects that run in real time, by name
	mu       sync.Mutex         // held during a call to progress
}

func (r *run) virtual(c Subject) bool {
	return r.cfg.Redis == Embedded && !r.cfg.inMySQL() && !c.InService() &&
		(c.Needs != catalog.NeedsNodes || len(r.cfg.Nodes) == 0)
}

// inMySQL reports whether orders are kept on a database server rather than in SQLite.
func (c Config) inMySQL() bool {
	return c.Database != "" && c.Database != Embedded && !strings.HasPrefix(c.Database, "sqlite:")
}

func (r *run) ttl(c Subject) time.Duration {
	switch {
	case r.cfg.TTL > 0:
		return r.cfg.TTL
	case r.virtual(c):
		return virtualTTL
	case c.InService():
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
	if err := r.runVirtual(ctx, virtual); err != nil {
		return err
	}
	return r.runReal(ctx, real)
}

func (r *run) runVirtual(ctx context.Context, cells []int) error {
	return InVirtualTime(func() {
		for _, i := range cells {
			if ctx.Err() != nil {
				return
			}
			// ctx was made outside of virtual time, so it cannot be used here.
			_, c := r.at(i)
			s := inMemoryFor(c)
			cell, _ := r.cell(context.Background(), s, i, r.ttl(c), virtualLimit)
			r.done(i, cell)
			s.close()
		}
	})
}

func (r *run) runReal(ctx context.Context, cells []int) error {
	stops, err := r.open(ctx)
	defer func() {
		for _, stop := range stops {
			stop()
		}
	}()
	if err != nil {
		return err
	}
	for n := 0; n < attempts && len(cells) > 0 && ctx.Err() == nil; n++ {
		cells = r.pass(ctx, cells, n, n == attempts-1)
	}
	return ctx.Err()
}

// pass runs some cells for the n-th time, with twice the ttl of the previous pass. It returns the
// cells that are still inconclusive because the scenario got stuck or this machine was too slow. In
// the last pass such cells are reported as Unknown.
func (r *run) pass(ctx context.Context, cells []int, n int, last bool) []int {
	var mu sync.Mutex
	var left []int
	room := semaphore.NewWeighted(parallel)
	var all sync.WaitGroup
	for _, i := range cells {
		_, subject := r.at(i)
		weight := int64(1) // the number of cells that this one counts as
		if subject.Needs == catalog.NeedsNodes {
			weight = 4 // a node has only 50 ms to answer redlock
		}
		if room.Acquire(ctx, weight) != nil {
			break // interrupted
		}
		all.Go(func() {
			defer room.Release(weight)
			on := r.servers[subject.Name]
			ttl := min(on.ttl<<n, MaxTTL)
			watch := fleet.WatchStalls(ttl/tolerance, nil)
			c, late := r.cell(ctx, on, i, ttl, ttl*realLimit)
			if stalled := watch.Stop(); (stalled > 0 || late) && c.Outcome != NA {
				c.conclude(Unknown.Because("this machine was too busy to keep the times: %s", c.Message))
			}
			if c.Outcome != Unknown || last {
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

// cell runs the i-th cell, and reports whether something in it was late.
func (r *run) cell(ctx context.Context, s *server, i int, ttl, limit time.Duration) (c Cell, late bool) {
	scenario, subject := r.at(i)
	c = Cell{Anomaly: scenario.Name, Strategy: subject.Name, Expected: scenario.Expected(subject.Name), TTL: ttl}
	why := scenario.whyNot(subject)
	switch {
	case why != "":
	case scenario.Clocks && s.mini == nil:
		c.Expected, why = NA, "the lab can set the clocks only of servers in memory"
	case scenario.MySQL && !r.cfg.inMySQL():
		c.Expected, why = NA, "SQLite has one writer at a time, and no such snapshot: run it with -db local"
	}
	if why != "" {
		c.conclude(Verdict{NA, message.Text(why)})
		c.Trace = []Event{}
		return c, false
	}
	w := newWorld(ctx, s, subject, ttl)
	w.database.spec = cmp.Or(r.cfg.Database, Embedded)
	v := w.play(func(w *World) Verdict {
		v := scenario.Run(w)
		// Let goroutines finish what takes no time, such as leaving a queue in the background, so
		// that the end of the trace does not depend on which goroutine is faster.
		w.Sleep(w.TTL / tolerance)
		return w.examined(scenario, v)
	}, limit)
	c.Trace = w.trace.events()
	c.conclude(v)
	w.close()
	return c, w.late.Load()
}

// conclude sets the outcome of the cell. The trace keeps a break only if the outcome is Breaks.
func (c *Cell) conclude(v Verdict) {
	c.Outcome, c.Note, c.Message = v.Outcome, v.Note.String(), v.Note
	if v.Outcome != Breaks {
		c.Trace = slices.DeleteFunc(c.Trace, func(e Event) bool { return e.Kind == Break })
	}
}

func (r *run) at(i int) (Scenario, Subject) {
	n := len(r.cfg.Subjects)
	return r.cfg.Scenarios[i/n], r.cfg.Subjects[i%n]
}

func (r *run) done(i int, c Cell) {
	r.cells[i] = c
	if r.progress != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.progress(c)
	}
}

func (r *run) manifest(start time.Time) Manifest {
	m := Manifest{
		Started: start.UTC().Truncate(time.Second),
		Redis:   r.cfg.RedisName, Database: r.cfg.DatabaseName,
		Go: runtime.Version(), OS: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(),
		Version: fleet.Version(), TTL: virtualTTL, AskedTTL: r.cfg.TTL, Virtual: r.cfg.Redis == Embedded,
		Wall: time.Since(start),
	}
	if len(r.cfg.Subjects) > 0 {
		// If any subject runs in virtual time, the manifest describes virtual time.
		first := r.cfg.Subjects[max(0, slices.IndexFunc(r.cfg.Subjects, r.virtual))]
		m.TTL, m.Virtual = r.ttl(first), r.virtual(first)
		if on, ok := r.servers[first.Name]; ok {
			m.TTL = on.ttl
		}
	}
	m.Servers = slices.Clone(r.cfg.Servers)
	for _, c := range r.cfg.Subjects {
		m.Strategies = append(m.Strategies, c.Name)
		on := r.servers[c.Name]
		apart := on != nil && (on.service != nil || r.cfg.Redis == Embedded) // others may run in virtual time
		if apart && (m.Virtual || on.ttl != m.TTL) {
			m.Servers = append(m.Servers, c.Name+InRealTime+on.ttl.String())
		}
	}
	return m
}
