package bench

import (
	"sync"
	"testing"
	"time"

	"oversell/internal/fleet"
)

// gauged returns two counters, and the shops through which another process reads them.
func gauged(t *testing.T) (counters []*worker, seen *shops) {
	t.Helper()
	var members []*fleet.Member
	for range 2 {
		words, err := fleet.CreateWords(t.TempDir(), gaugeWords)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = words.Close() })
		c := &worker{seams: new(fleet.Seams), gauge: words}
		c.follow(plan{Item: "item"})
		counters, members = append(counters, c), append(members, &fleet.Member{Words: words})
	}
	return counters, &shops{Fleet: fleet.Of(members...), gauged: true}
}

// Two holders that take turns are never counted as inside at the same time, however fast they
// alternate.
func TestWhoTakesTurnsIsNeverSeenTogether(t *testing.T) {
	counters, seen := gauged(t)
	var lock sync.Mutex
	var wg sync.WaitGroup
	over := time.Now().Add(100 * time.Millisecond)
	for _, c := range counters {
		wg.Go(func() {
			for time.Now().Before(over) {
				lock.Lock()
				c.count("item", +1)
				c.count("item", -1)
				lock.Unlock()
			}
		})
	}
	looks := make(map[int64]int)
	for time.Now().Before(over) {
		if n, ok := seen.inside(); ok {
			looks[n]++
		}
	}
	wg.Wait()
	for n := range looks {
		if n != 0 && n != 1 {
			t.Errorf("%d were seen inside at once: %v", n, looks)
		}
	}
	if n, ok := seen.inside(); n != 0 || !ok {
		t.Errorf("in the end %d are inside, %v", n, ok)
	}
}

// A holder that is still inside with an item of an earlier row is not counted in this row.
func TestWhoIsLeftOfAnEarlierRowIsNotCounted(t *testing.T) {
	counters, seen := gauged(t)
	first := counters[0]
	first.count("item", +1)
	first.held(time.Second)
	held := func() time.Duration { return time.Duration(seen.Members()[0].Words.Load(gaugeHeld)) }
	if got := held(); got != time.Second {
		t.Errorf("connections were held for %v, want 1s", got)
	}
	first.follow(plan{Item: "next"})
	if got := held(); got != 0 {
		t.Errorf("connections were held for %v in the next row, want 0", got)
	}
	first.count("next", +1)
	first.count("item", -1)
	if n, ok := seen.inside(); n != 1 || !ok {
		t.Errorf("%d are inside, %v; want 1", n, ok)
	}
}
