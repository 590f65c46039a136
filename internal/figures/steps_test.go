package figures

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// Steps are returned in the order in which they began, each with its duration.
func TestStepsAreInTheOrderInWhichTheyBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := errors.New("refused")
		var s Steps
		start := time.Now()
		outer := s.Begin("outer")
		time.Sleep(time.Second)
		s.Begin("inner")(refused)
		time.Sleep(time.Second)
		outer(nil)
		all, skipped := s.All()
		if len(all) != 2 || skipped != 0 {
			t.Fatalf("got %v, and %d more", all, skipped)
		}
		first := all[0]
		if first.Name != "outer" || !first.From.Equal(start) || first.To.Sub(first.From) != 2*time.Second ||
			first.Err != nil {
			t.Errorf("the first is %+v", first)
		}
		if inner := all[1]; inner.Name != "inner" || inner.To != inner.From || inner.Err != refused {
			t.Errorf("the second is %+v", inner)
		}
	})
}

// The steps of a purchase that retries forever are recorded only up to maxSteps.
func TestStepsAreFew(t *testing.T) {
	var s Steps
	for range 10 * maxSteps {
		s.Begin("again")(nil)
	}
	if all, skipped := s.All(); len(all) != maxSteps || skipped != 9*maxSteps {
		t.Errorf("got %d, and %d more", len(all), skipped)
	}
}
