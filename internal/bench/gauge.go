package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/uuid"

	"oversell/internal/proc"
)

// gauge has figures of an instance in shared memory: its holders, and for how long it held
// connections to the database. So the bench can read them at any moment, even while the
// process is stopped or after it was killed.
type gauge struct{ words *proc.Words }

// The words of a gauge. All only grow during a row: if they have not changed, nobody
// entered or left in between.
const (
	gaugeCame = iota
	gaugeWent
	gaugeHeld // nanoseconds that connections to the database were out of the pool
	gaugeWords
)

// newGauge makes a gauge, and returns the path for the other process.
func newGauge() (*gauge, string, error) {
	path := filepath.Join(os.TempDir(), "oversell-gauge-"+uuid.NewString())
	words, err := proc.CreateWords(path, gaugeWords)
	if err != nil {
		return nil, "", fmt.Errorf("making a gauge: %w", err)
	}
	return &gauge{words}, path, nil
}

func openGauge(path string) (*gauge, error) {
	words, err := proc.OpenWords(path, gaugeWords)
	if err != nil {
		return nil, fmt.Errorf("opening the gauge: %w", err)
	}
	return &gauge{words}, nil
}

// opened removes the gauge's file after the other process has opened it.
func (g *gauge) opened() {
	if g != nil {
		_ = g.words.Remove() // at worst a small file is left
	}
}

// close unmaps the gauge. Nobody may read it any more.
func (g *gauge) close() {
	if g != nil {
		_ = g.words.Close() // at worst a page of memory is left
	}
}

func (g *gauge) read() (came, went int64) {
	return g.words.Load(gaugeCame), g.words.Load(gaugeWent)
}

// held is for how long connections to the database were out of the pool in this row.
func (g *gauge) held() time.Duration { return time.Duration(g.words.Load(gaugeHeld)) }

// maxGlances bounds the attempts to read all gauges at one moment.
const maxGlances = 100

// inside is how many holders all instances have at one moment. It reads all gauges until
// two readings agree, and returns false if none do.
func inside(gauges []*gauge) (n int64, ok bool) {
	sum := func() (came, went int64) {
		for _, g := range gauges {
			c, w := g.read()
			came, went = came+c, went+w
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
	gauge *gauge
	item  string
}

// follow begins a row on an item.
func (c *counter) follow(item string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.item = item
	if c.gauge != nil {
		c.gauge.words.Store(gaugeCame, 0)
		c.gauge.words.Store(gaugeWent, 0)
		c.gauge.words.Store(gaugeHeld, 0)
	}
}

// count implements figures.Inside.
func (c *counter) count(item string, step int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.gauge == nil, item != c.item:
	case step > 0:
		c.gauge.words.Add(gaugeCame, 1)
	default:
		c.gauge.words.Add(gaugeWent, 1)
	}
}

// held is told for how long a connection to the database was out of the pool.
func (c *counter) held(d time.Duration) { c.gauge.words.Add(gaugeHeld, int64(d)) }
