package runs

import (
	"context"
	"errors"
	"slices"
	"time"

	"oversell/internal/backend"
	"oversell/internal/backend/lockservers"
	"oversell/internal/bench"
	"oversell/internal/bench/report"
	"oversell/internal/catalog"
	"oversell/internal/figures"
	"oversell/internal/message"
)

// State is the state of a run.
type State string

// The states.
const (
	Running  State = "running"
	Stopping State = "stopping" // it was told to stop, but has not ended yet
	Done     State = "done"
	Stopped  State = "stopped" // it ended early, on request
	Failed   State = "failed"
)

// Summary describes a run without its rows.
type Summary struct {
	ID       string     `json:"id"`
	State    State      `json:"state"`
	Started  time.Time  `json:"started"`
	Ended    *time.Time `json:"ended"` // nil while the run is under way
	Settings Settings   `json:"settings"`
	RowsAll  int        `json:"rows_all"`
	RowsDone int        `json:"rows_done"`
	Redis    string     `json:"redis"` // kind and version; "": not opened yet
	DB       string     `json:"db"`
	Error    string     `json:"error"` // why it failed

	// Message is the Error with its format and arguments, for a translation.
	Message message.Message `json:"message,omitzero"`

	// Figures of the finished rows: the largest number of units that a row oversold, the different
	// verdicts, and whether all rows match the catalog's expectation.
	Oversold   int64             `json:"oversold"`
	Verdicts   []figures.Verdict `json:"verdicts"`
	AsExpected bool              `json:"as_expected"`
}

// Run holds everything that is known about a run.
type Run struct {
	Summary
	Rows    []report.Row `json:"rows"`
	Now     *Live        `json:"now"`     // the row under way, or nil
	Samples []Series     `json:"samples"` // of the rows that have begun
}

// run is a run. The Manager's mu guards the fields that change. Fields of its Summary that can be
// computed from other fields are not set: see summary.
type run struct {
	Summary
	cfg  bench.Config
	stop context.CancelCauseFunc

	manifest report.Manifest
	rows     []report.Row
	series   []*Series // of the rows that have begun
}

func (r *run) summary() Summary {
	s := r.Summary
	s.RowsAll, s.RowsDone = r.Settings.rows(), len(r.rows)
	s.Redis, s.DB = r.manifest.Redis, r.manifest.DB
	s.Verdicts, s.AsExpected = []figures.Verdict{}, report.Report{Rows: r.rows}.AsExpected()
	for _, row := range r.rows {
		s.Oversold = max(s.Oversold, row.Oversold)
		if !slices.Contains(s.Verdicts, row.Verdict) {
			s.Verdicts = append(s.Verdicts, row.Verdict)
		}
	}
	return s
}

func (r *run) whole() Run {
	whole := Run{Summary: r.summary(), Rows: append([]report.Row{}, r.rows...), Now: r.live(), Samples: []Series{}}
	for _, s := range r.series {
		whole.Samples = append(whole.Samples, *s)
	}
	return whole
}

// latest returns the series of the row that began last.
func (r *run) latest() *Series { return r.series[len(r.series)-1] }

// live returns the row under way, or nil. Nothing that it refers to is changed later.
func (r *run) live() *Live {
	if len(r.series) == 0 || r.Ended != nil {
		return nil
	}
	s := r.latest()
	return &Live{
		Row: s.Row, Of: r.Settings.rows(), Strategy: s.Strategy, Condition: s.Condition,
		Requests: r.Settings.Requests, Stock: r.Settings.Stock,
		Phase: s.phase, Point: s.last, Broken: s.Broken, Faults: s.Faults,
	}
}

// run runs r to its end, or until ctx ends.
func (m *Manager) run(ctx context.Context, r *run) {
	err := m.measure(ctx, r)
	state, said := Done, message.Message{}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errTimeLimit):
		state, said = Failed, message.Newf("it took longer than the limit: %v", m.limits.Time)
	case cause != nil:
		state = Stopped
	case err != nil:
		state, said = Failed, m.told(r, err)
	}
	switch {
	case err != nil && state == Stopped: // it may say what was left behind, or what had failed before the stop
		m.cfg.Logger.Info("a run of the bench was stopped", "run", r.ID, "error", err)
	case err != nil:
		m.cfg.Logger.Error("a run of the bench failed", "run", r.ID, "error", err)
	}
	m.update(func() {
		r.State, r.Error, r.Message = state, said.String(), said
		r.Ended = new(now())
		m.listed = m.version + 1
	})
}

// told returns the text of an error for clients. Errors of the shop's own backends stay in the log:
// they may name hosts and users.
func (m *Manager) told(r *run, err error) message.Message {
	if r.Settings.Backend == Shop {
		return message.Text("the shop's Redis or database, or a process of the run, failed; the shop's log says more")
	}
	return message.Of(err)
}

// bench opens the backends of a run, and the lock servers that its strategies need, and runs the bench.
func (m *Manager) bench(ctx context.Context, r *run) (err error) {
	cfg, needs := r.cfg, catalog.Strategies().Needs(r.Settings.Strategies)
	own := Backends{RedisURL: string(Embedded), DBURL: string(Embedded)}
	if r.Settings.Backend == Shop {
		own = *m.cfg.Shop
	} else {
		specs := lockservers.Specs{Redlock: string(Embedded), Etcd: "local"}
		if own.Servers, err = lockservers.New(ctx, specs, needs...); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, own.Servers.Close()) }()
	}
	servers, err := backend.Serve(ctx, own.RedisURL, own.DBURL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, servers.Close()) }()
	addresses, names, err := own.Servers.Open(ctx, needs...)
	if err != nil {
		return err
	}
	cfg.RedisURL, cfg.DBURL, cfg.Servers = servers.RedisURL, servers.DBURL, addresses
	manifest := cfg.Manifest(servers.RedisName, servers.DBName)
	manifest.Servers = names
	m.update(func() { r.manifest = manifest })
	progress := &recorder{manager: m, run: r}
	defer progress.stop()
	_, err = bench.Run(ctx, cfg, progress)
	return err
}
