package cache

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// LimitMisses replaces maxEmpty.
func (r *Reader) LimitMisses(n int) { r.misses.limit = n }

// A missing key counts only once, even if it is read many times, until its marker has expired. A key
// whose value was found does not count.
func TestMissesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := misses{limit: 3}
		for round := range 3 {
			for i := range 100 {
				if entered := m.enter(fmt.Sprint("key-", i)); entered != (i < 3) {
					t.Errorf("round %d: key %d may leave something: %v", round, i, entered)
				}
			}
			time.Sleep(emptyTTL / 2)
		}
		m.found("key-0")
		if !m.enter("late") || m.enter("later") {
			t.Error("one key was free, and not taken once")
		}
		time.Sleep(2 * emptyTTL)
		if !m.enter("later") || len(m.keys)+len(m.older) != 1 {
			t.Errorf("%d keys count after all have expired, and a new one", len(m.keys)+len(m.older))
		}
	})
}
