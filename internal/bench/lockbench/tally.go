package lockbench

import (
	"maps"
	"sync"

	"oversell/internal/guard"
)

// tally is what a process reports about its contenders besides their slots.
type tally struct {
	Told    map[string]int `json:"told,omitempty"`    // contenders by their error
	Release map[string]int `json:"release,omitempty"` // releases that failed, by their error
	Lost    int            `json:"lost,omitempty"`    // leases that had expired at the release
}

// add adds the tally of another process.
func (t *tally) add(other tally) {
	for text, n := range other.Told {
		count(&t.Told, text, n)
	}
	for text, n := range other.Release {
		count(&t.Release, text, n)
	}
	t.Lost += other.Lost
}

// maxReasons bounds the different errors, and maxReason their length in bytes: some have
// the port of each connection.
const (
	maxReasons = 8
	maxReason  = 160
)

func count(reasons *map[string]int, text string, n int) {
	if *reasons == nil {
		*reasons = make(map[string]int)
	}
	text = text[:min(len(text), maxReason)]
	if _, known := (*reasons)[text]; !known && len(*reasons) >= maxReasons {
		text = "other errors"
	}
	(*reasons)[text] += n
}

// counts is a tally for concurrent use. Its zero value is ready.
type counts struct {
	mu sync.Mutex
	tally
}

func (c *counts) told(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	count(&c.Told, err.Error(), 1)
}

func (c *counts) release(s guard.Stats) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.Lost {
		c.Lost++
	}
	if s.Release != nil {
		count(&c.Release, s.Release.Error(), 1)
	}
}

// get returns a copy.
func (c *counts) get() tally {
	c.mu.Lock()
	defer c.mu.Unlock()
	return tally{Told: maps.Clone(c.Told), Release: maps.Clone(c.Release), Lost: c.Lost}
}
