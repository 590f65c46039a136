package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/google/uuid"

	"oversell/internal/proc"
)

// gauge is how many are inside in an instance, where the bench can see it at any
// moment: also of a process that is stopped, which cannot be asked.
type gauge struct{ words *proc.Words }

// The words of a gauge. Both only grow during a row: that they are what they were
// says that nobody came or went meanwhile.
const (
	gaugeCame = iota
	gaugeWent
	gaugeWords
)

// newGauge makes a gauge, and returns the path at which another process opens it.
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

// opened removes the gauge's file, when whoever is to have it open has.
func (g *gauge) opened() {
	if g != nil {
		_ = g.words.Remove() // at worst a small file stays
	}
}

// close ends the use of the gauge here. Nobody may read it any more.
func (g *gauge) close() {
	if g != nil {
		_ = g.words.Close() // at worst a page of memory stays
	}
}

func (g *gauge) read() (came, went int64) {
	return g.words.Load(gaugeCame), g.words.Load(gaugeWent)
}

// maxGlances bounds how often gauges are read for nobody to come or go meanwhile.
const maxGlances = 100

// inside is how many are inside at one moment, in all instances together: so many
// that nobody came or went from when the first gauge was read until all had been
// read. It returns false if there was no such moment.
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

// counter counts those inside by the gauge, of one item: who is still inside with
// an earlier row's is not of this one. Without a gauge it does nothing. It is safe
// for concurrent use.
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
