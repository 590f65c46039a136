package figures

import (
	"slices"
	"time"
)

// Step is a part of the time that one purchase took.
type Step struct {
	Name string
	Span
	Err error
}

// Steps records the steps of a purchase. A nil Steps records nothing, and costs nothing. Steps is not
// safe for concurrent use.
type Steps struct {
	all     []Step
	skipped int
}

// maxSteps is the maximum number of recorded steps of one purchase, which may retry very often.
const maxSteps = 64

// Begin begins a step, and returns a function that ends it.
func (s *Steps) Begin(name string) (end func(err error)) {
	if s == nil {
		return func(error) {}
	}
	from := time.Now()
	return func(err error) { s.Add(name, Span{from, time.Now()}, err) }
}

// Add records a step that has ended.
func (s *Steps) Add(name string, span Span, err error) {
	switch {
	case s == nil:
	case len(s.all) >= maxSteps:
		s.skipped++
	default:
		s.all = append(s.all, Step{name, span, err})
	}
}

// All returns the recorded steps in the order in which they began, and the number of steps that
// were not recorded.
func (s *Steps) All() (all []Step, skipped int) {
	if s == nil {
		return nil, 0
	}
	slices.SortStableFunc(s.all, func(a, b Step) int { return a.From.Compare(b.From) })
	return s.all, s.skipped
}
