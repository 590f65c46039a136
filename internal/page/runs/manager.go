// Package runs starts benches for the page and reports them to any number of clients while they are
// under way. All figures come from the bench: this package only chooses which points of a row to
// keep.
//
// Everything is bounded: only one run is under way at a time, and its size and time are limited. The last few runs
// are kept, each with a limited number of points.
package runs

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"oversell/internal/backend/lockservers"
	"oversell/internal/bench/report"
	"oversell/internal/catalog"
	"oversell/internal/message"
	"oversell/internal/naming"
	"oversell/internal/present"
	"oversell/internal/web/problem"
)

// The errors that a Manager wraps.
var (
	ErrBusy       = errors.New("a run is under way")
	ErrOccupied   = errors.New("no run can start meanwhile")
	ErrUnknownRun = errors.New("unknown run")
	ErrNotRunning = errors.New("the run has ended")
	ErrNoReport   = errors.New("no row of the run is finished")
	ErrClosed     = errors.New("the shop is closing")
)

// The causes with which a run is ended early.
var (
	errStopped   = errors.New("stopped")
	errTimeLimit = errors.New("took longer than the limit")
)

// Config configures a Manager.
type Config struct {
	Command func() (*exec.Cmd, error) // makes an instance of the bench: see bench.Config
	Shop    *Backends                 // nil: there is no backend Shop
	Logger  *slog.Logger
}

// Backends are the servers that a shop runs on. They may hold passwords.
type Backends struct {
	RedisURL, DBURL string
	Servers         *lockservers.Servers // nil: none
}

// Manager starts runs and keeps them. It is safe for concurrent use. Close must be
// called in the end.
type Manager struct {
	cfg   Config
	ctx   context.Context // of all runs
	close context.CancelCauseFunc
	wg    sync.WaitGroup

	limits  Limits
	measure func(ctx context.Context, r *run) error // runs the rows; tests replace it

	mu      sync.Mutex
	runs    []*run            // the oldest first
	others  []message.Message // names of the tasks that keep runs from starting: see Occupy
	version uint64            // of the state that subscribers see, from 1
	listed  uint64            // the version in which a run last began or ended
	changed chan struct{}     // closed when version changes
}

// New returns a Manager. Its run is stopped when ctx ends.
func New(ctx context.Context, cfg Config) *Manager {
	m := &Manager{cfg: cfg, limits: defaultLimits(), version: 1, listed: 1, changed: make(chan struct{})}
	m.measure = m.bench
	m.ctx, m.close = context.WithCancelCause(ctx)
	m.limits.Requests.Max = m.mostRequests()
	return m
}

// Close stops the run that is under way, waits for it to finish, and ends all subscriptions. It may be called more
// than once.
func (m *Manager) Close() {
	m.mu.Lock()
	m.close(ErrClosed)
	m.mu.Unlock()
	m.wg.Wait()
}

// Start starts a run and returns its id. s.Strategies may contain short names. The errors wrap ErrSettings, ErrBusy,
// ErrOccupied or ErrClosed.
func (m *Manager) Start(s Settings) (id string, err error) {
	s.Strategies = naming.ExpandAll(s.Strategies, catalog.Strategies().Names())
	s.Conditions = slices.Clone(s.Conditions)
	cfg, err := m.check(s)
	if err != nil {
		return "", err
	}
	cfg.ID = uuid.NewString()[:8]
	r := &run{Summary: Summary{ID: cfg.ID, State: Running, Started: now(), Settings: s}, cfg: cfg}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.underWay(); err != nil {
		return "", err
	}
	if len(m.others) > 0 {
		return "", message.Errorf("%w: %s", ErrOccupied, m.others[0])
	}
	limited, release := context.WithTimeoutCause(m.ctx, m.limits.Time, errTimeLimit)
	ctx, stop := context.WithCancelCause(limited)
	r.stop = stop
	m.runs = append(m.runs, r)
	if extra := len(m.runs) - m.limits.Kept; extra > 0 {
		m.runs = slices.Delete(m.runs, 0, extra)
	}
	m.touch()
	m.listed = m.version
	m.wg.Go(func() {
		defer release()
		defer stop(nil)
		m.run(ctx, r)
	})
	return r.ID, nil
}

// Stop stops a run, and keeps its finished rows. It does not wait for the run to end. Its error wraps ErrUnknownRun,
// or ErrNotRunning if the run has ended.
func (m *Manager) Stop(id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, err := m.find(id)
	if err != nil {
		return err
	}
	if r.Ended != nil {
		return message.Errorf("%w: %s", ErrNotRunning, id)
	}
	r.State = Stopping
	r.stop(errStopped)
	m.touch()
	return nil
}

// List returns the runs that are kept, the newest first.
func (m *Manager) List() []Summary {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.list()
}

// list is like List, but the caller must hold mu.
func (m *Manager) list() []Summary {
	all := make([]Summary, 0, len(m.runs))
	for _, r := range slices.Backward(m.runs) {
		all = append(all, r.summary())
	}
	return all
}

// Get returns everything that is known about a run, or an error that wraps ErrUnknownRun.
func (m *Manager) Get(id string) (Run, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, err := m.find(id)
	if err != nil {
		return Run{}, err
	}
	return r.whole(), nil
}

// Report writes the bench's offline report of the finished rows of a run. Its error wraps ErrUnknownRun, or
// ErrNoReport if there are no finished rows.
func (m *Manager) Report(id string, w io.Writer, style present.Style) error {
	m.mu.Lock()
	r, err := m.find(id)
	var found report.Report
	if err == nil {
		found = report.Report{Manifest: r.manifest, Rows: slices.Clone(r.rows)}
	}
	m.mu.Unlock()
	if err != nil {
		return err
	}
	if len(found.Rows) == 0 {
		return message.Errorf("%w: %s", ErrNoReport, id)
	}
	return found.WriteHTML(w, style)
}

// find returns the run with the id. The caller must hold mu.
func (m *Manager) find(id string) (*run, error) {
	for _, r := range m.runs {
		if r.ID == id {
			return r, nil
		}
	}
	return nil, message.Errorf("%w: %s", ErrUnknownRun, problem.Quoted(id))
}

// update changes what subscribers see.
func (m *Manager) update(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
	m.touch()
}

// touch wakes the subscribers. The caller must hold mu.
func (m *Manager) touch() {
	m.version++
	close(m.changed)
	m.changed = make(chan struct{})
}

// now returns the current time in UTC, in whole milliseconds.
func now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

// Occupy keeps runs from starting until leave is called. It is for work that uses the processor for
// a long time, and would distort what a run measures. The error wraps ErrBusy while a run is under
// way, or is ErrClosed. Several such tasks may run at once.
func (m *Manager) Occupy(what message.Message) (leave func(), err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.underWay(); err != nil {
		return nil, err
	}
	m.others = append(m.others, what)
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		i := slices.IndexFunc(m.others, func(other message.Message) bool { return other.String() == what.String() })
		m.others = slices.Delete(m.others, i, i+1)
	}, nil
}

// underWay returns ErrClosed, or an error that wraps ErrBusy while a run is under way. The caller must hold mu.
func (m *Manager) underWay() error {
	if m.ctx.Err() != nil {
		return ErrClosed
	}
	if n := len(m.runs); n > 0 && m.runs[n-1].Ended == nil {
		return message.Errorf("%w: %s", ErrBusy, m.runs[n-1].ID)
	}
	return nil
}
