package bench

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"oversell/internal/fleet"
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

// A quiet call starts when no write is under way, and blocks new writes.
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

// A call that waits alone starts when no other call is moving units, and blocks such calls. It does
// not wait for itself if it moves units.
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
