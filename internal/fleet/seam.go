package fleet

import (
	"context"
	"oversell/internal/guard"
	"slices"
	"sync"
	"time"
)

// Seam is a point between two steps of a call. A process can be held or killed when a call has
// completed the first step and has not begun the second.
type Seam string

// Arm selects the calls that meet a fault, and the seams at which they do. The zero value arms no seam.
type Arm struct {
	At    []Seam `json:"at,omitempty"`
	Skip  int    `json:"skip,omitempty"`  // number of arrivals at the seams that pass before the first fault
	Every int    `json:"every,omitempty"` // then the first and every n-th arrival after it meets the fault; default 1
	Most  int    `json:"most,omitempty"`  // maximum number of calls that meet the fault; default 1

	// Delay is the time for which a call is held up. If Delay is 0, the call waits
	// until Member.Resume is called or the process is killed.
	Delay time.Duration `json:"delay,omitempty"`

	// Around names an activity that must not go on while a call waits. It is passed to Seams.Around.
	Around string `json:"around,omitempty"`
}

// Seams contains the state of all seams of one process. It is safe for concurrent use.
type Seams struct {
	// Around is called before a call waits, if Arm.Around is set. end is called when the call continues.
	Around func(ctx context.Context, what string) (end func())

	// Park is called for a call that has to wait. It must return when the call may continue.
	Park func(at Seam)
	// HeldUp is called for a call that is delayed, with the end of the delay.
	HeldUp func(until time.Time)

	mu     sync.Mutex
	armed  Arm
	passed int
	met    int
}

// Set replaces the Arm, and restarts its counts.
func (s *Seams) Set(a Arm) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.armed, s.passed, s.met = a, 0, 0
}

// Reach must be called by a call that reaches a seam. It returns when the call may continue, and
// reports whether the call waited for the bench.
func (s *Seams) Reach(ctx context.Context, at Seam) (waited bool) {
	a, met := s.meets(at)
	switch {
	case !met:
		return false
	case a.Delay > 0:
		s.HeldUp(time.Now().Add(a.Delay))
		_ = guard.Sleep(ctx, a.Delay)
		return false
	case a.Around != "":
		defer s.Around(ctx, a.Around)()
	}
	s.Park(at)
	return true
}

// meets counts the arrival of a call at a seam, and reports whether it meets the fault.
func (s *Seams) meets(at Seam) (Arm, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.armed
	if !slices.Contains(a.At, at) || s.met >= max(1, a.Most) {
		return a, false
	}
	s.passed++
	if s.passed <= a.Skip || (s.passed-a.Skip-1)%max(1, a.Every) != 0 {
		return a, false
	}
	s.met++
	return a, true
}
