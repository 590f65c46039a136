package bench

import (
	"sync"
	"time"

	"oversell/internal/fleet"
)

// A gauge has figures of an instance in shared words: its holders, and for how long it held
// connections to the database. So the bench can read them at any moment, even while the
// process is stopped or after it was killed. All only grow during a row: if they have not
// changed, nobody entered or left in between.
const (
	gaugeCame = iota
	gaugeWent
	gaugeHeld // nanoseconds that connections to the database were out of the pool
	gaugeWords
)

// maxGlances bounds the attempts to read all gauges at one moment.
const maxGlances = 100

// inside is how many holders all instances have at one moment. It reads all gauges until
// two readings agree, and returns false if none do.
func inside(all []*fleet.Member) (n int64, ok bool) {
	sum := func() (came, went int64) {
		for _, m := range all {
			came, went = came+m.Words.Load(gaugeCame), went+m.Words.Load(gaugeWent)
		}
		return came, went
	}
	came, went := sum()
	for range maxGlances {
		c, w := sum()
		if c == came && w == went {
			return came - went, true
		}
		came, went = c, w
	}
	return 0, false
}

// counter counts the holders of one item in the gauge: holders that are left from an
// earlier row do not count. Without a gauge it does nothing. It is safe for concurrent
// use.
type counter struct {
	mu    sync.Mutex
	gauge *fleet.Words
	item  string
}

// follow begins a row on an item.
func (c *counter) follow(item string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.item = item
	if c.gauge != nil {
		for word := range gaugeWords {
			c.gauge.Store(word, 0)
		}
	}
}

// count implements figures.Inside.
func (c *counter) count(item string, step int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.gauge == nil, item != c.item:
	case step > 0:
		c.gauge.Add(gaugeCame, 1)
	default:
		c.gauge.Add(gaugeWent, 1)
	}
}

// held is told for how long a connection to the database was out of the pool.
func (c *counter) held(d time.Duration) { c.gauge.Add(gaugeHeld, int64(d)) }
