package fleet

import (
	"testing"
	"testing/synctest"
	"time"
)

// A fault meets only the calls for which it is set.
func TestSeamsMeetTheRightCalls(t *testing.T) {
	var s Seams
	s.Set(Arm{At: []Seam{"here"}, Skip: 1, Every: 3, Most: 2})
	var met []int
	for i := range 12 {
		if _, yes := s.meets("here"); yes {
			met = append(met, i)
		}
		if _, yes := s.meets("there"); yes {
			t.Errorf("call %d: a seam that is not armed", i)
		}
	}
	if len(met) != 2 || met[0] != 1 || met[1] != 4 {
		t.Errorf("calls %v met the fault, want 1 and 4", met)
	}
}

// A delayed call continues after the delay, or when its context ends.
func TestDelayAtASeam(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := 0
		s := &Seams{HeldUp: func(time.Time) { told++ }}
		s.Set(Arm{At: []Seam{"here"}, Delay: time.Minute})
		begun := time.Now()
		s.Reach(t.Context(), "here")
		if d := time.Since(begun); d != time.Minute || told != 1 {
			t.Errorf("held up for %v, told %d times", d, told)
		}
		s.Reach(t.Context(), "here")
		if d := time.Since(begun); d != time.Minute {
			t.Errorf("a second call was held up too, until %v", d)
		}
	})
}
