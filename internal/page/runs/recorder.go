package runs

import (
	"context"
	"sync"
	"time"

	"oversell/internal/bench"
	"oversell/internal/bench/report"
	"oversell/internal/catalog"
	"oversell/internal/figures"
	"oversell/internal/guard"
)

// recorder records a run. It implements bench.Watcher. The bench calls it from one goroutine at a
// time.
type recorder struct {
	bench.Silent // for Waiting, whose count a sample has too
	manager      *Manager
	run          *run

	look func() bench.Live // nil until the requests of the row are about to be sent
	halt func()            // ends the sampling; nil: no row was sampled yet
	wg   sync.WaitGroup
}

// Row implements bench.Progress. A row that is run again starts over.
func (c *recorder) Row(n, _ int, strategy string, condition catalog.Condition) {
	c.stop()
	c.look = nil
	s, err := catalog.Strategies().Find(strategy)
	series := &Series{
		Row: n, Strategy: strategy, Condition: condition,
		Points: []Point{}, Broken: []Broken{}, Faults: []bench.Fault{},
		phase: Setup, exclusive: err == nil && exclusive(s),
	}
	c.manager.update(func() { c.run.series = append(c.run.series[:n-1], series) })
}

// Watch implements bench.Watcher.
func (c *recorder) Watch(look func() bench.Live) {
	ctx, halt := context.WithCancel(context.Background())
	c.look, c.halt = look, halt
	c.wg.Go(func() {
		for guard.Sleep(ctx, pointPause) == nil {
			if l := look(); l.Elapsed > 0 {
				c.manager.update(func() { c.see(l) })
			}
		}
	})
}

// see records a sample of the row under way. The caller must hold the manager's mu.
func (c *recorder) see(l bench.Live) {
	s, p := c.run.latest(), pointOf(l)
	s.phase = Load
	if l.Waiting == 0 {
		s.phase = Audit
	}
	s.see(p, c.run.Settings.Stock)
	s.happened(l)
	if l.Waiting > 0 { // the last point comes from the finished row
		s.add(p, false)
	}
}

// Done implements bench.Progress.
func (c *recorder) Done(row report.Row) {
	c.stop()
	c.manager.update(func() {
		s, p := c.run.latest(), lastPoint(row)
		c.run.rows = append(c.run.rows, row)
		s.see(p, c.run.Settings.Stock)
		if c.look != nil { // records what has happened since the last sample
			s.happened(c.look())
		}
		s.phase = Judged
		s.add(p, true)
	})
}

// stop ends the sampling of a row.
func (c *recorder) stop() {
	if c.halt != nil {
		c.halt()
		c.wg.Wait()
	}
}

// Series holds the points of one row, at most maxPoints of them, and what happened in it.
type Series struct {
	Row       int               `json:"n"`
	Strategy  string            `json:"strategy"`
	Condition catalog.Condition `json:"condition"`
	Points    []Point           `json:"points"`
	Broken    []Broken          `json:"broken"`
	Faults    []bench.Fault     `json:"faults"`

	phase     Phase
	last      *Point  // the last sample, which need not be one of Points; nil in Setup
	step      float64 // the shortest time between two points, in ms; it grows with the length of the row
	exclusive bool    // the strategy promises one holder at a time
}

const (
	// pointPause is the time between two samples of the row under way.
	pointPause = 50 * time.Millisecond

	// maxPoints is the maximum number of points of a row. When it is reached, every second
	// point is dropped.
	maxPoints = 100
)

// add adds a point, unless it is too close to the previous one. The last point of a row is always
// added.
func (s *Series) add(p Point, last bool) {
	n := len(s.Points)
	if n > 0 && !last && p.T < s.Points[n-1].T+s.step {
		return
	}
	if n > 0 {
		p.T = max(p.T, s.Points[n-1].T) // a sample is dated shortly after its requests were counted
	}
	if n == maxPoints {
		s.thin()
	}
	s.Points = append(s.Points, p)
}

func (s *Series) thin() {
	half := make([]Point, maxPoints/2)
	for i := range half {
		half[i] = s.Points[2*i]
	}
	s.Points = half
	s.step = max(2*s.step, 2*figures.Milliseconds(pointPause)) * 0.95 // samples are not dated exactly
}
