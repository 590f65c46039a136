package runs

import (
	"sync"
	"time"

	"oversell/internal/bench"
	"oversell/internal/bench/report"
	"oversell/internal/catalog"
	"oversell/internal/figures"
)

// recorder records a run. It implements bench.Watcher. The bench calls it from one goroutine at a
// time.
type recorder struct {
	manager *Manager
	run     *run

	look func() bench.Live // nil until the requests of the row are about to be sent
	halt chan struct{}     // closed to end the sampling; nil: no row is sampled
	wg   sync.WaitGroup
}

// Row implements bench.Progress. A row that is run again starts over.
func (c *recorder) Row(n, all int, strategy string, condition catalog.Condition) {
	c.stop()
	c.look = nil
	s, err := catalog.Strategies().Find(strategy)
	live := &Live{
		Row: n, Of: all, Strategy: strategy, Condition: condition,
		Requests: c.run.Settings.Requests, Stock: c.run.Settings.Stock,
		Phase: Setup, Broken: []Broken{}, Faults: []bench.Fault{}, exclusive: err == nil && exclusive(s),
	}
	points := &series{Series: Series{
		Row: n, Strategy: strategy, Condition: condition, Points: []Point{}, Broken: live.Broken, Faults: live.Faults,
	}}
	c.manager.update(func() {
		c.run.now = live
		c.run.series = append(c.run.series[:n-1], points)
	})
}

// Waiting implements bench.Progress.
func (c *recorder) Waiting(string, func() int64) {}

// Watch implements bench.Watcher.
func (c *recorder) Watch(look func() bench.Live) {
	c.look, c.halt = look, make(chan struct{})
	halt := c.halt
	c.wg.Go(func() { c.sample(look, halt) })
}

// sample samples the row until halt is closed.
func (c *recorder) sample(look func() bench.Live, halt <-chan struct{}) {
	ticker := time.NewTicker(pointPause)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-halt:
			return
		}
		if l := look(); l.Elapsed > 0 {
			c.manager.update(func() { c.see(l) })
		}
	}
}

// see records a sample of the row under way. The caller must hold the manager's mu.
func (c *recorder) see(l bench.Live) {
	live, p := c.run.now, pointOf(l)
	live.Phase = Load
	if l.Waiting == 0 {
		live.Phase = Audit
	}
	live.see(p)
	live.happened(l)
	c.add(p, false)
}

// add adds a point to the series of the row under way, and updates the violations and faults of the
// series.
func (c *recorder) add(p Point, last bool) {
	s := c.run.series[len(c.run.series)-1]
	s.add(p, last)
	s.Broken, s.Faults = c.run.now.Broken, c.run.now.Faults
}

// Done implements bench.Progress.
func (c *recorder) Done(row report.Row) {
	c.stop()
	c.manager.update(func() {
		p := lastPoint(row)
		c.run.rows = append(c.run.rows, row)
		c.run.now.see(p)
		if c.look != nil { // records what has happened since the last sample
			c.run.now.happened(c.look())
		}
		c.run.now.Phase = Judged
		c.add(p, true)
	})
}

// stop ends the sampling of a row.
func (c *recorder) stop() {
	if c.halt == nil {
		return
	}
	close(c.halt)
	c.wg.Wait()
	c.halt = nil
}

// Series holds the points of one row, at most maxPoints of them, and what happened in it.
type Series struct {
	Row       int               `json:"n"`
	Strategy  string            `json:"strategy"`
	Condition catalog.Condition `json:"condition"`
	Points    []Point           `json:"points"`
	Broken    []Broken          `json:"broken"`
	Faults    []bench.Fault     `json:"faults"`
}

const (
	// pointPause is the time between two samples of the row under way.
	pointPause = 50 * time.Millisecond

	// maxPoints is the maximum number of points of a row. When it is reached, every second
	// point is dropped.
	maxPoints = 100
)

// series collects points. The time between two points grows with the length of the row.
type series struct {
	Series
	step float64 // the shortest time between two points, in ms
}

// add adds a point, unless it is too close to the previous one. The last point of a row is always
// added.
func (s *series) add(p Point, last bool) {
	n := len(s.Points)
	if n > 0 && !last && p.T < s.Points[n-1].T+s.step {
		return
	}
	if n == maxPoints {
		s.thin()
	}
	s.Points = append(s.Points, p)
}

func (s *series) thin() {
	half := make([]Point, maxPoints/2)
	for i := range half {
		half[i] = s.Points[2*i]
	}
	s.Points = half
	s.step = max(2*s.step, 2*figures.Milliseconds(pointPause)) * 0.95 // tickers are not exact
}
