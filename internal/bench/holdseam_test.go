package bench

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"oversell/internal/fleet"
	"oversell/internal/holds"
	"oversell/internal/payment"
)

// comes waits until a call reaches the seam, or blocks on mu, which the test holds for reading. It
// reports whether the call reached the seam.
func comes(mu *sync.RWMutex, parked <-chan struct{}) bool {
	for mu.TryRLock() {
		mu.RUnlock()
		select {
		case <-parked:
			return true
		default:
			runtime.Gosched()
		}
	}
	return false
}

// A call that meets a fault waits at the seam only when nothing else goes on that the fault must not
// interrupt: a write, if the seam is quiet, or a call that moves units. Nothing of that begins until
// the call continues. A call that moves units itself does not wait for itself.
func TestNothingGoesOnAroundACallAtASeam(t *testing.T) {
	for _, tt := range []struct {
		around string
		moves  bool
	}{{quiet, false}, {alone, false}, {alone, true}} {
		parked, resume := make(chan struct{}), make(chan struct{})
		s := newHoldSeams(&fleet.Seams{Park: func(fleet.Seam) { close(parked); <-resume }})
		s.Set(fleet.Arm{At: []fleet.Seam{AfterOrder}, Around: tt.around})
		mu := &s.hands
		if tt.around == quiet {
			mu = &s.writing
		}
		mu.RLock()
		var waiting sync.WaitGroup
		waiting.Go(func() {
			ctx := t.Context()
			if tt.moves {
				moving, end := s.moving(ctx, new(call))
				defer end()
				ctx = moving
			}
			s.Reach(ctx, AfterOrder)
		})
		if comes(mu, parked) {
			t.Errorf("%+v: it waits at the seam although something goes on", tt)
		}
		mu.RUnlock()
		<-parked
		if mu.TryRLock() {
			t.Errorf("%+v: something began", tt)
		}
		close(resume)
		waiting.Wait()
		if !mu.TryLock() {
			t.Errorf("%+v: nothing can begin any more", tt)
		}
	}
}

// fakeStage refuses every claim, and fakePayments refunds every payment.
type (
	fakeStage    struct{ holds.Stage }
	fakePayments struct{ payment.Provider }
)

func (fakeStage) Claim(context.Context, string, int64, string) (holds.Order, error) {
	return holds.Order{}, holds.ErrNotHeld
}

func (fakePayments) Refund(context.Context, string, string) (payment.Payment, error) {
	return payment.Payment{}, nil
}

// The refund of a cancelled order is not at the seam of a refused payment.
func TestOnlyRefusedPaymentsReachTheSeamOfTheirRefund(t *testing.T) {
	met := 0
	s := newHoldSeams(&fleet.Seams{Park: func(fleet.Seam) { met++ }})
	s.Set(fleet.Arm{At: []fleet.Seam{BeforeRefund}})
	stage, payments := markedStage{fakeStage{}, s}, seamPayments{fakePayments{}, s}
	refund := func(id string, want int) {
		_, err := payments.Refund(t.Context(), id, "key")
		if must(t, err); met != want {
			t.Errorf("%s: reached %d times, want %d", id, met, want)
		}
	}
	refund("cancelled", 0)
	if _, err := stage.Claim(t.Context(), "hold", 1, "refused"); !errors.Is(err, holds.ErrNotHeld) {
		t.Errorf("Claim: %v", err)
	}
	refund("cancelled", 0)
	refund("refused", 1)
}

// Returned units are matched to expired holds in the order of expiry, which gives the longest
// delay.
func TestReturnsMeasureTheLongestWay(t *testing.T) {
	begun := time.Now()
	at := func(seconds int) time.Time { return begun.Add(time.Duration(seconds) * time.Second) }
	b := returns{expiries: []time.Time{at(1), at(2), at(9)}, base: 5}
	b.see(5, at(1))
	if b.longest != nil {
		t.Errorf("nothing is back, and %v s were measured", *b.longest)
	}
	b.see(7, at(4))
	if b.longest == nil || *b.longest != 3 {
		t.Errorf("measured %v, want 3 s", b.longest)
	}
	b.see(8, at(10))
	b.see(11, at(100)) // more units than the holds that expired
	if *b.longest != 3 {
		t.Errorf("measured %v, want 3 s", *b.longest)
	}
}
