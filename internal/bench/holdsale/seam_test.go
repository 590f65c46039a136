package holdsale

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A fault meets the calls that it is meant for, and no others.
func TestSeamsMeetTheRightCalls(t *testing.T) {
	var s seams
	s.set(arm{Seams: []Seam{BeforeClaim}, Skip: 1, Every: 3, Most: 2})
	var met []int
	for i := range 12 {
		if _, yes := s.meets(BeforeClaim); yes {
			met = append(met, i)
		}
		if _, yes := s.meets(AfterTake); yes {
			t.Errorf("call %d: a seam that is not armed", i)
		}
	}
	if len(met) != 2 || met[0] != 1 || met[1] != 4 {
		t.Errorf("calls %v met the fault, want 1 and 4", met)
	}
}

// comes waits until a call waits for mu, which is held for reading, and reports false, or true
// if the call does not wait for mu and comes to the seam.
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

// A call that waits quietly begins when no write is open, and lets none begin.
func TestQuietSeamKeepsWritesOut(t *testing.T) {
	parked, resume := make(chan struct{}), make(chan struct{})
	s := &seams{park: func(Seam) { close(parked); <-resume }}
	s.set(arm{Seams: []Seam{BeforeClaim}, Most: 1, Quiet: true})
	s.writing.RLock()
	var call sync.WaitGroup
	call.Go(func() { s.reach(t.Context(), BeforeClaim) })
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

// A call that waits alone begins when no other has units in its hands, and lets none have any.
// One that moves units itself does not wait for itself.
func TestAloneNobodyElseMovesUnits(t *testing.T) {
	for _, moves := range []bool{false, true} {
		parked, resume := make(chan struct{}), make(chan struct{})
		s := &seams{park: func(Seam) { close(parked); <-resume }}
		s.set(arm{Seams: []Seam{AfterOrder}, Most: 1, Alone: true})
		_, otherEnds := s.moving(t.Context(), new(call))
		var waiting sync.WaitGroup
		waiting.Go(func() {
			ctx := t.Context()
			if moves {
				moving, end := s.moving(ctx, new(call))
				defer end()
				ctx = moving
			}
			s.reach(ctx, AfterOrder)
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

// A call that is held up goes on after the delay, or when its context ends.
func TestDelayAtASeam(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := 0
		s := &seams{delayed: func(Seam) { told++ }}
		s.set(arm{Seams: []Seam{BeforeClaim}, Delay: time.Minute, Most: 1})
		begun := time.Now()
		s.reach(t.Context(), BeforeClaim)
		if d := time.Since(begun); d != time.Minute || told != 1 {
			t.Errorf("held up for %v, told %d times", d, told)
		}
		s.reach(t.Context(), BeforeClaim)
		if d := time.Since(begun); d != time.Minute {
			t.Errorf("a second call was held up too, until %v", d)
		}
	})
}

// Units that come back are counted for the holds in the order of their expiry.
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
