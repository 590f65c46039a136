package runs

import (
	"slices"
	"time"

	"oversell/internal/catalog"
)

// Series has the points of one row, at most maxPoints of them, and what happened in it.
type Series struct {
	Row       int               `json:"n"`
	Strategy  string            `json:"strategy"`
	Condition catalog.Condition `json:"condition"`
	Points    []Point           `json:"points"`
	Broken    []Broken          `json:"broken"`
	Faults    []Fault           `json:"faults"`
}

const (
	// pointPause is the time between two samples of the row under way.
	pointPause = 50 * time.Millisecond

	// maxPoints bounds the points of a row. At more, every second one is dropped.
	maxPoints = 100
)

// series collects points, in steps that grow with the length of the row.
type series struct {
	Series
	step float64 // the least time between two points, in ms
}

// add adds a point, unless it is too close to the one before. The last point of a row is
// always added.
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
	for i := range maxPoints / 2 {
		s.Points[i] = s.Points[2*i]
	}
	s.Points = s.Points[:maxPoints/2]
	s.step = max(2*s.step, 2*milliseconds(pointPause)) * 0.95 // a ticker is not exact
}

func (s *series) clone() Series {
	c := s.Series
	c.Points = append([]Point{}, slices.Clip(s.Points)...)
	c.Broken, c.Faults = append([]Broken{}, s.Broken...), append([]Fault{}, s.Faults...)
	return c
}
