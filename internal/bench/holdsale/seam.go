package holdsale

import (
	"context"
	"slices"
	"sync"
	"time"

	"oversell/internal/proc"
)

// Seam is a point in the life of a hold at which its process may be killed or stopped: what
// comes before has been done, and what comes after has not.
type Seam string

// The seams, in the order of a hold's life.
const (
	AfterTake     Seam = "take"    // the units are taken from the stock, and the hold is not written
	AfterCapture  Seam = "capture" // the buyer is charged, and the stage does not know yet
	BeforeClaim   Seam = "claim"   // the payment has read that the hold is there, and has written nothing
	AfterOrder    Seam = "order"   // the order is written, and the hold not ended, or the transaction not committed
	BeforeRefund  Seam = "refund"  // the payment was refused, and not refunded
	BeforeRestock Seam = "sweep"   // the sweep has ended a hold, and not given its units back
)

// beforeCapture is where a shop is cut off from the payment provider: the payment is
// authorised, and the request to capture it is about to be sent. Nothing is killed there: a
// process that dies has charged nobody.
const beforeCapture Seam = "authorised"

// Seams lists the seams at which a shop may be killed.
func Seams() []Seam {
	return []Seam{AfterTake, AfterCapture, BeforeClaim, AfterOrder, BeforeRefund, BeforeRestock}
}

// arm says at which seams a shop's process meets a fault.
type arm struct {
	Seams []Seam `json:"seams"`
	Skip  int    `json:"skip"` // how often a seam is passed before
	// Delay is how long a call is held up at a seam; 0: the first call that reaches one waits
	// until the bench says how it goes on.
	Delay time.Duration `json:"delay"`
	Most  int           `json:"most"` // calls that are held up, at most
	Every int           `json:"every"`
	// Quiet lets no transaction of the process be open while a call waits, so that a process
	// that is stopped keeps no lock in the database.
	Quiet bool `json:"quiet"`
	// Alone lets no other call of the process have units in its hands while a call waits, so
	// that a process that is killed cuts no other call in two.
	Alone bool `json:"alone"`
}

// seams are those of one process. It is safe for concurrent use.
type seams struct {
	park    func(at Seam) // tells the bench, and returns when it lets the call go on
	delayed func(at Seam) // tells the bench

	writing sync.RWMutex // held for reading by every write to the database
	hands   sync.RWMutex // held for reading by every call that moves units

	mu     sync.Mutex
	armed  arm
	passed int
	met    int
}

// set arms seams instead of those that were armed before.
func (s *seams) set(a arm) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.armed, s.passed, s.met = a, 0, 0
}

// reach is called by whoever comes to a seam. It returns when the call may go on.
func (s *seams) reach(ctx context.Context, at Seam) {
	a, met := s.meets(at)
	switch {
	case !met:
	case a.Delay > 0:
		s.delayed(at)
		proc.Sleep(ctx, a.Delay)
	case a.Quiet:
		s.writing.Lock()
		defer s.writing.Unlock()
		s.park(at)
	case a.Alone:
		defer s.alone(callOf(ctx))()
		s.park(at)
	default:
		s.park(at)
	}
}

// alone waits until no other call has units in its hands, and lets none have any until the
// returned function is called.
func (s *seams) alone(c *call) (end func()) {
	if !c.moves {
		s.hands.Lock()
		return s.hands.Unlock
	}
	s.hands.RUnlock()
	s.hands.Lock()
	return func() {
		s.hands.Unlock()
		s.hands.RLock()
	}
}

// moving lets a call move units, unless one waits alone. The call must call end.
func (s *seams) moving(ctx context.Context, c *call) (_ context.Context, end func()) {
	c.moves = true
	s.hands.RLock()
	return marked(ctx, c), s.hands.RUnlock
}

// meets counts the arrival of a call at a seam, and reports whether it meets the fault.
func (s *seams) meets(at Seam) (arm, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.armed
	if !slices.Contains(a.Seams, at) || s.met >= a.Most {
		return a, false
	}
	s.passed++
	if s.passed <= a.Skip || (s.passed-a.Skip-1)%max(1, a.Every) != 0 {
		return a, false
	}
	s.met++
	return a, true
}
