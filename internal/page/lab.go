package page

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"

	"oversell/internal/lab"
	"oversell/internal/lab/anomalies"
	"oversell/internal/lab/show"
	"oversell/internal/message"
	"oversell/internal/naming"
	"oversell/internal/web/problem"
)

// Measure runs the lab, and calls progress with the number of finished cells and the number of all
// cells.
type Measure func(ctx context.Context, progress func(done, of int)) (lab.Report, error)

// Anomalies is the handler of the part Break: see Lab.
type Anomalies struct {
	http.Handler
	ctx     context.Context // of the run
	stop    context.CancelFunc
	measure Measure
	occupy  Occupy
	logger  *slog.Logger
	wg      sync.WaitGroup

	mu       sync.Mutex
	measured bool // from the start of a run until its error, if any, has been reported
	progress labProgress
	failed   error
	matrix   *matrix // nil until a run has succeeded
}

// matrix is the result of a run of the lab, in the form in which it is sent to clients.
type matrix struct {
	index      file
	strategies []string
	cells      map[string]file // by anomaly and strategy
}

// Lab returns the handler of the part Break, which shows the lab's anomalies:
//
//	GET /api/lab                       the matrix, without the timelines of its cells
//	GET /api/lab/recorded              the recorded matrix, which is available immediately
//	GET /api/lab/{anomaly}/{strategy}  one cell with its timeline; the strategy may have a short name
//
// The lab runs once, at the first request that arrives while the bench is idle. Until the run has
// finished, the reply is 202 with its progress. If the run fails, one request gets the error, and the
// next request starts another run. The run ends with ctx. Close must be called in the end.
func Lab(ctx context.Context, measure Measure, occupy Occupy, logger *slog.Logger) *Anomalies {
	a := &Anomalies{measure: measure, occupy: occupy, logger: logger}
	a.progress.Of = len(lab.Subjects()) * len(anomalies.All())
	a.ctx, a.stop = context.WithCancel(ctx)
	a.Handler = problem.Routes{
		"GET /api/lab": a.serve(func(m *matrix, w http.ResponseWriter, r *http.Request) {
			m.index.ServeHTTP(w, r)
		}),
		"GET /api/lab/recorded": problem.Parameters(func(w http.ResponseWriter, _ *http.Request) {
			replyJSON(w, http.StatusOK, indexOf(recorded()))
		}),
		"GET /api/lab/{anomaly}/{strategy}": a.serve((*matrix).cell),
	}.Handler()
	return a
}

// Close stops the run that is under way and waits for it to finish.
func (a *Anomalies) Close() {
	a.mu.Lock()
	a.stop()
	a.mu.Unlock()
	a.wg.Wait()
}

// serve replies with reply once there is a matrix.
func (a *Anomalies) serve(reply func(*matrix, http.ResponseWriter, *http.Request)) http.HandlerFunc {
	return ownSite(problem.Parameters(func(w http.ResponseWriter, r *http.Request) {
		m, progress, err := a.look()
		switch {
		case err != nil:
			problem.Reply(w, http.StatusInternalServerError, "internal",
				message.Text("the lab failed; the shop's log says why"))
		case m == nil:
			w.Header().Set("Retry-After", "1")
			replyJSON(w, http.StatusAccepted, progress)
		default:
			reply(m, w, r)
		}
	}))
}

type labProgress struct {
	Done int `json:"done"`
	Of   int `json:"of"`
}

// look returns the matrix, or the progress of the run. It begins a run if none has begun and no bench
// is under way.
func (a *Anomalies) look() (*matrix, labProgress, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.failed; err != nil {
		a.failed, a.measured = nil, false
		return nil, labProgress{}, err
	}
	if !a.measured && a.ctx.Err() == nil {
		a.begin()
	}
	return a.matrix, a.progress, nil
}

// begin begins a run. If a bench is under way it does nothing, and a later request tries again. The
// caller must hold mu.
func (a *Anomalies) begin() {
	leave, err := a.occupy(message.Text("the lab, for the matrix"))
	if err != nil {
		return
	}
	a.measured, a.progress.Done = true, 0
	a.wg.Go(func() {
		m, err := a.run()
		leave() // before the matrix is shown: a client that sees it may start a bench
		a.mu.Lock()
		defer a.mu.Unlock()
		a.matrix, a.failed = m, err
	})
}

func (a *Anomalies) run() (*matrix, error) {
	report, err := a.measure(a.ctx, func(done, of int) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.progress = labProgress{done, of}
	})
	var m *matrix
	if err == nil {
		m, err = newMatrix(report)
	}
	if err != nil && a.ctx.Err() == nil {
		a.logger.Error("running the lab", "error", err)
	}
	return m, err
}

func cellOf(anomaly, strategy string) string { return anomaly + "/" + strategy }

// recorded returns the expected result of a run of the lab.
func recorded() (report lab.Report) {
	table := anomalies.Locks()
	for _, c := range table.Subjects {
		report.Manifest.Strategies = append(report.Manifest.Strategies, c.Name)
	}
	for _, s := range table.Scenarios {
		report.Anomalies = append(report.Anomalies, s.Anomaly)
		for _, c := range table.Subjects {
			cell := lab.Cell{
				Anomaly: s.Name, Strategy: c.Name, Outcome: s.Expected(c.Name), Expected: s.Expected(c.Name),
			}
			report.Cells = append(report.Cells, cell)
		}
	}
	return report
}

// index is the matrix without the timelines.
type index struct {
	Manifest  lab.Manifest  `json:"manifest"`
	Losses    []lab.Loss    `json:"losses"` // the worst first
	Anomalies []lab.Anomaly `json:"anomalies"`
	Cells     []brief       `json:"cells"`
}

// brief is a cell without its timeline.
type brief struct {
	lab.Cell
	Trace   any  `json:"trace,omitempty"` // nil: it hides the timeline
	Events  int  `json:"events"`
	Endless bool `json:"endless,omitempty"` // it holds only because its lock never expires
}

func indexOf(report lab.Report) index {
	all := index{Manifest: report.Manifest, Losses: lab.Losses(), Anomalies: report.Anomalies}
	for _, c := range report.Cells {
		endless := show.OnlyEndless(report.Manifest, c)
		all.Cells = append(all.Cells, brief{Cell: c, Events: len(c.Trace), Endless: endless})
	}
	return all
}

func newMatrix(report lab.Report) (*matrix, error) {
	m := &matrix{strategies: report.Manifest.Strategies, cells: make(map[string]file)}
	for _, c := range report.Cells {
		text, err := packJSON(show.Tell(report.Manifest, c))
		if err != nil {
			return nil, fmt.Errorf("writing the cell %s: %w", cellOf(c.Anomaly, c.Strategy), err)
		}
		m.cells[cellOf(c.Anomaly, c.Strategy)] = text
	}
	var err error
	if m.index, err = packJSON(indexOf(report)); err != nil {
		return nil, fmt.Errorf("writing the matrix: %w", err)
	}
	return m, nil
}

func (m *matrix) cell(w http.ResponseWriter, r *http.Request) {
	anomaly, strategy := r.PathValue("anomaly"), r.PathValue("strategy")
	text, ok := m.cells[cellOf(anomaly, naming.Expand(strategy, m.strategies))]
	if !ok {
		problem.Reply(w, http.StatusNotFound, "unknown_cell", message.Newf("there is no anomaly %s with strategy %s",
			problem.Quoted(anomaly), problem.Quoted(strategy)))
		return
	}
	text.ServeHTTP(w, r)
}
