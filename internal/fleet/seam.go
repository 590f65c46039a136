package fleet

import (
	"context"
	"oversell/internal/guard"
	"slices"
	"sync"
	"time"
)

// Seam is a place where a process can be held or killed: what comes before it has been done,
// and what comes after has not.
type Seam string

// Arm says which calls meet a fault, at which seams. The zero value arms no seam.
type Arm struct {
	At    []Seam `json:"at,omitempty"`
	Skip  int    `json:"skip,omitempty"`  // this many arrivals at the seams are let pass first
	Every int    `json:"every,omitempty"` // then every n-th arrival meets the fault, from the first on; default 1
	Most  int    `json:"most,omitempty"`  // most calls that meet the fault; default 1

	// Delay is how long a call is held up; 0: it waits until Member.Resume, or until the process
	// is killed.
	Delay time.Duration `json:"delay,omitempty"`

	// Around names what must not go on while a call waits: see Seams.
	Around string `json:"around,omitempty"`
}

// Seams are the seams of one process. They are safe for concurrent use.
type Seams struct {
	// Around is called before a call waits, if the Arm has an Around, and end when the call goes
	// on.
	Around func(ctx context.Context, what string) (end func())

	// Park is called by a call that waits, and returns when it may go on.
	Park func(at Seam)
	// HeldUp is called by a call that is delayed, with the end of the delay.
	HeldUp func(until time.Time)

	mu     sync.Mutex
	armed  Arm
	passed int
	met    int
}

// Set replaces the armed seams.
func (s *Seams) Set(a Arm) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.armed, s.passed, s.met = a, 0, 0
}

// Reach is called by a call at a seam, and returns when the call may go on. It reports whether
// the call waited for the bench.
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
