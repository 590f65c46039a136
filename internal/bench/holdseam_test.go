package bench

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"oversell/internal/fleet"
)

// comes waits until a call waits for mu, which is held for reading, or reaches the seam. It reports
// whether the call reached the seam.
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

// A call that waits quietly begins when no write is open, and lets no write begin.
func TestQuietSeamKeepsWritesOut(t *testing.T) {
	parked, resume := make(chan struct{}), make(chan struct{})
	s := newHoldSeams(&fleet.Seams{Park: func(fleet.Seam) { close(parked); <-resume }})
	s.Set(fleet.Arm{At: []fleet.Seam{BeforeClaim}, Around: quiet})
	s.writing.RLock()
	var call sync.WaitGroup
	call.Go(func() { s.Reach(t.Context(), BeforeClaim) })
	if comes(&s.writing, parked) {
		t.Error("it waits at the seam although a write is open")
	}
	s.writing.RUnlock()
	<-parked
	if s.writing.TryRLock() {
		t.Error("a write began")
	}
	close(resume)
	call.Wait()
	if !s.writing.TryRLock() {
		t.Error("no write can begin any more")
	}
}

// A call that waits alone begins when no other call is moving units, and blocks such calls. A call
// that is moving units does not wait for itself.
func TestAloneNobodyElseMovesUnits(t *testing.T) {
	for _, moves := range []bool{false, true} {
		parked, resume := make(chan struct{}), make(chan struct{})
		s := newHoldSeams(&fleet.Seams{Park: func(fleet.Seam) { close(parked); <-resume }})
		s.Set(fleet.Arm{At: []fleet.Seam{AfterOrder}, Around: alone})
		_, otherEnds := s.moving(t.Context(), new(call))
		var waiting sync.WaitGroup
		waiting.Go(func() {
			ctx := t.Context()
			if moves {
				moving, end := s.moving(ctx, new(call))
				defer end()
				ctx = moving
			}
			s.Reach(ctx, AfterOrder)
		})
		if comes(&s.hands, parked) {
			t.Errorf("moves %v: it waits at the seam although another call has units", moves)
		}
		otherEnds()
		<-parked
		if s.hands.TryRLock() {
			t.Errorf("moves %v: another call can take units", moves)
		}
		close(resume)
		waiting.Wait()
		if !s.hands.TryLock() {
			t.Errorf("moves %v: calls cannot move units any more", moves)
		}
	}
}

// Returned units are assigned to holds in the order of their expiry.
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
	b.see(11, at(100)) // more than expired
	if *b.longest != 3 {
		t.Errorf("measured %v, want 3 s", *b.longest)
	}
}
