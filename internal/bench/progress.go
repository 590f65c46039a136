package bench

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"

	"oversell/internal/bench/report"
	"oversell/internal/catalog"
	"oversell/internal/present"
)

// Outcomes names what a row waits for while its requests are in flight.
const Outcomes = "outcomes"

// Silent is a Progress that shows nothing.
type Silent struct{}

// Row implements Progress.
func (Silent) Row(int, int, string, catalog.Condition) {}

// Waiting implements Progress.
func (Silent) Waiting(string, func() int64) {}

// Done implements Progress.
func (Silent) Done(report.Row) {}

// Bar is a Progress that prints a line for each finished row on a terminal. Below these lines it
// draws the current row and the number of missing outcomes. Call Close at the end.
type Bar struct {
	w    io.Writer
	bar  *progressbar.ProgressBar
	stop chan struct{}
	wg   sync.WaitGroup

	drawing sync.Mutex // held while writing to w

	mu      sync.Mutex
	label   string
	what    string // what the bench waits for
	missing func() int64
}

// redraw is the interval at which the bar is drawn.
const redraw = 100 * time.Millisecond

// NewBar returns a Bar that draws on w.
func NewBar(w io.Writer) *Bar {
	b := &Bar{w: w, stop: make(chan struct{}), label: "starting"}
	b.bar = progressbar.NewOptions(1,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetWidth(20),
		progressbar.OptionShowCount(),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionSetPredictTime(false),
		progressbar.OptionSetElapsedTime(true),
	)
	b.wg.Go(b.draw)
	return b
}

func (b *Bar) draw() {
	ticker := time.NewTicker(redraw)
	defer ticker.Stop()
	for {
		select {
		case <-b.stop:
			return
		case <-ticker.C:
			b.drawing.Lock()
			b.bar.Describe(b.text())
			b.drawing.Unlock()
		}
	}
}

func (b *Bar) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.missing == nil:
		return b.label
	case b.what == Outcomes:
		return fmt.Sprintf("%s %5d outcomes to come", b.label, b.missing())
	}
	return fmt.Sprintf("%s %s, %5d to go", b.label, b.what, b.missing())
}

// Row implements Progress.
func (b *Bar) Row(n, all int, strategy string, c catalog.Condition) {
	b.bar.ChangeMax(all)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.missing = nil
	b.label = fmt.Sprintf("%-24s", strategy+" under "+string(c))
}

// Waiting implements Progress.
func (b *Bar) Waiting(what string, missing func() int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.what, b.missing = what, missing
}

// Done implements Progress.
func (b *Bar) Done(row report.Row) {
	b.drawing.Lock()
	defer b.drawing.Unlock()
	_ = b.bar.Clear() // only drawing can fail
	_, _ = fmt.Fprintln(b.w, row.Line(present.Style{}))
	_ = b.bar.Add(1)
}

// Close removes the bar.
func (b *Bar) Close() {
	close(b.stop)
	b.wg.Wait()
	_ = b.bar.Clear() // only drawing can fail
}
