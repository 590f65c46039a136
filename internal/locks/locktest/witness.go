package locktest

import (
	"fmt"
	"slices"
	"sync"
)

// A Witness watches a critical section without knowing its lock. Each holder registers on entry; if
// another holder is inside, that is an overlap. A Witness is safe for concurrent use. The zero
// Witness is ready to use.
type Witness struct {
	mu       sync.Mutex
	inside   []string
	most     int
	overlaps []string
}

// Enter records that a holder has entered. The holder must call leave exactly once, when it leaves.
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

// Most returns the largest number of holders that were inside at once.
func (w *Witness) Most() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.most
}

// Overlaps describes each entry of a holder while another holder was inside.
func (w *Witness) Overlaps() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.overlaps)
}
