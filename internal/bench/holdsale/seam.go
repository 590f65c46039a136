package holdsale

import (
	"context"
	"sync"

	"oversell/internal/fleet"
)

// The seams, in the order of a hold's life.
const (
	AfterTake     fleet.Seam = "take"    // the units are taken from the stock, and the hold is not written
	AfterCapture  fleet.Seam = "capture" // the buyer is charged, and the stage does not know yet
	BeforeClaim   fleet.Seam = "claim"   // the payment has read that the hold is there, and has written nothing
	AfterOrder    fleet.Seam = "order"   // the order is written, and the hold not ended, or the transaction not committed
	BeforeRefund  fleet.Seam = "refund"  // the payment was refused, and not refunded
	BeforeRestock fleet.Seam = "sweep"   // the sweep has ended a hold, and not given its units back
)

// beforeCapture is where a shop is cut off from the payment provider: the payment is
// authorised, and the request to capture it is about to be sent. Nothing is killed there: a
// process that dies has charged nobody.
const beforeCapture fleet.Seam = "authorised"

// Seams lists the seams at which a shop may be killed.
func Seams() []fleet.Seam {
	return []fleet.Seam{AfterTake, AfterCapture, BeforeClaim, AfterOrder, BeforeRefund, BeforeRestock}
}

// What else has to wait while a call waits at a seam: see fleet.Arm.
const (
	// quiet lets no transaction of the process be open, so that a process that is stopped keeps no
	// lock in the database.
	quiet = "quiet"
	// alone lets no other call of the process have units in its hands, so that a process that is
	// killed cuts no other call in two.
	alone = "alone"
)

// seams are those of one process.
type seams struct {
	*fleet.Seams
	writing sync.RWMutex // held for reading by every write to the database
	hands   sync.RWMutex // held for reading by every call that moves units
}

func newSeams(of *fleet.Seams) *seams {
	s := &seams{Seams: of}
	of.Around = func(ctx context.Context, what string) (end func()) {
		if what == alone {
			return s.alone(callOf(ctx))
		}
		s.writing.Lock()
		return s.writing.Unlock
	}
	return s
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
