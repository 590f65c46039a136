package locktest

import (
	"fmt"
	"slices"
	"sync"
)

// A Witness watches a critical section and knows nothing of the lock around
// it: each holder registers on entry, and must find nobody else inside. It may be
// used by several goroutines at once. The zero Witness is ready to use.
type Witness struct {
	mu       sync.Mutex
	inside   []string
	most     int
	overlaps []string
}

// Enter records that who entered. The result records that who left: call it once.
func (w *Witness) Enter(who string) (leave func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.inside) > 0 {
		w.overlaps = append(w.overlaps, fmt.Sprintf("%s came in on %v", who, w.inside))
	}
	w.inside = append(w.inside, who)
	w.most = max(w.most, len(w.inside))
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		i := slices.Index(w.inside, who)
		w.inside = slices.Delete(w.inside, i, i+1)
	}
}

// Most returns the largest number that was inside at once.
func (w *Witness) Most() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.most
}

// Overlaps describes every entry that found somebody inside.
func (w *Witness) Overlaps() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.overlaps)
}
