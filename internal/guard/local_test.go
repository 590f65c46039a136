package guard

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// sell runs n read-work-write sections, each through the guard that pick returns. It returns
// the number of units that are left of n.
func sell(t *testing.T, n int, pick func(caller int) Guard) int {
	var mu sync.Mutex // only for the race detector; not held during a whole section
	left := n
	get := func() int { mu.Lock(); defer mu.Unlock(); return left }
	set := func(v int) { mu.Lock(); defer mu.Unlock(); left = v }
	var all sync.WaitGroup
	for caller := range n {
		all.Go(func() {
			_, err := pick(caller).Do(t.Context(), entry, func(context.Context) error {
				now := get()
				time.Sleep(time.Millisecond)
				set(now - 1)
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	return left
}

func TestNoneLosesUpdates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if left := sell(t, 10, func(int) Guard { return None{} }); left != 9 {
			t.Errorf("%d of 10 left after 10 sales at once, want 9: all read the same stock", left)
		}
	})
}

func TestLocalIsOneMutexAProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := new(Local)
		if left := sell(t, 10, func(int) Guard { return one }); left != 0 {
			t.Errorf("one process: %d of 10 left after 10 sales, want 0", left)
		}
		two := []Guard{new(Local), new(Local)}
		if left := sell(t, 10, func(caller int) Guard { return two[caller%2] }); left != 5 {
			t.Errorf("two processes: %d of 10 left after 10 sales, want 5: each sold past the other", left)
		}
	})
}

// If a buyer leaves during a section, the section's context does not end.
func TestSectionIsNotCutByCancel(t *testing.T) {
	var lock oneLock
	for name, g := range map[string]Guard{
		"none": None{}, "local": new(Local), "distributed": lock.guard(Fixed{time.Millisecond}),
	} {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := g.Do(ctx, Entry{Key: "k"}, func(ctx context.Context) error {
			cancel()
			return ctx.Err()
		})
		if err != nil {
			t.Errorf("%s: the section's context ended with its caller's: %v", name, err)
		}
	}
}
