package runs

import (
	"slices"
	"time"

	"oversell/internal/locks"
)

// Series is the points of one row, at most maxPoints of them.
type Series struct {
	Row       int             `json:"n"`
	Strategy  string          `json:"strategy"`
	Condition locks.Condition `json:"condition"`
	Points    []Point         `json:"points"`
}

const (
	// pointPause is how often a row under way is looked at.
	pointPause = 50 * time.Millisecond

	// maxPoints bounds the points of a row. When there are more, every second one
	// is dropped.
	maxPoints = 100
)

// series collects points, in ever larger steps.
type series struct {
	Series
	step float64 // least time between two points, in ms
}

// add adds a point, unless it comes too soon after the last one. The last one of a
// row is added in any case.
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
	return c
}
