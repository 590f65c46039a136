package main

import (
	"fmt"
	"io"

	"oversell/internal/lab"
)

// bar shows how far the run has got, on a terminal.
type bar struct {
	w     io.Writer // nil: nothing is shown
	done  int
	total int
}

func newBar(stderr io.Writer, total int) *bar {
	if !terminal(stderr) {
		return &bar{}
	}
	return &bar{w: stderr, total: total}
}

func (b *bar) step(c lab.Cell) {
	b.done++
	if b.w != nil {
		fmt.Fprintf(b.w, "\r\x1b[K%d/%d %s, %s", b.done, b.total, c.Anomaly, c.Strategy)
	}
}

func (b *bar) clear() {
	if b.w != nil {
		fmt.Fprint(b.w, "\r\x1b[K")
	}
}
