package guard

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// queue starts n callers that wait for a lock in the order of their ids.
func queue(t *testing.T, g Guard, in *inside, n int) *sync.WaitGroup {
	var all sync.WaitGroup
	for id := range n {
		all.Go(func() {
			if _, err := g.Do(t.Context(), entry, in.section(id)); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
	}
	return &all
}

func TestLineAsksWithOneCallerOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lock := oneLock{held: true} // held by another process
		var in inside
		all := queue(t, lock.guard(&Line{Delay: 10 * time.Millisecond}), &in, 1000)
		before := lock.timesAsked()
		time.Sleep(time.Second)
		if asked := lock.timesAsked() - before; asked < 50 || asked > 200 {
			t.Errorf("1000 callers asked %d times in a second, want about 100", asked)
		}
		_ = fakeLock{&lock}.Unlock(t.Context())
		all.Wait()
	})
}

// A Line waits for Delay only while another process has the lock. A release in its own process wakes the
// first caller immediately.
func TestLineWakesOnRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lock oneLock
		in := inside{stay: time.Millisecond}
		start := time.Now()
		queue(t, lock.guard(&Line{Delay: time.Minute}), &in, 100).Wait()
		if took := time.Since(start); took != 100*time.Millisecond {
			t.Errorf("100 callers of 1ms each took %v, want 100ms", took)
		}
		if lock.asked > 110 {
			t.Errorf("100 callers asked %d times, want hardly more than once each", lock.asked)
		}
	})
}

// If the lock expires while its holder still works, the next caller enters: a Line is not a lock.
func TestLineIsNoLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lock oneLock
		in := inside{stay: time.Second}
		all := queue(t, lock.guard(&Line{Delay: 10 * time.Millisecond}), &in, 2)
		lock.mu.Lock()
		lock.held = false // the lock expires
		lock.mu.Unlock()
		all.Wait()
		if in.most != 2 {
			t.Errorf("%d holders at once, want the 2 that the lock let in", in.most)
		}
	})
}
