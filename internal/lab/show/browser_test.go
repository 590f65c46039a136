//go:build system

package show_test

import (
	"fmt"
	"testing"

	"oversell/internal/bench/report/page/pagetest"
)

// tab is a tab of a headless Chromium without network access, together with the
// errors it reported.
type tab struct {
	*pagetest.Tab
	t *testing.T
}

func newTab(t *testing.T) *tab {
	t.Helper()
	return &tab{pagetest.New(t), t}
}

// count returns how many elements match.
func (b *tab) count(selector string) int {
	b.t.Helper()
	return pagetest.Eval[int](b.Tab, fmt.Sprintf("document.querySelectorAll(%q).length", selector))
}

// moment waits until the details show the moment that has this text.
func (b *tab) moment(text string) {
	b.t.Helper()
	b.Until(fmt.Sprintf(`document.querySelector(".moment pre").textContent === %q`, text))
}

// shows waits until the cell is open and its timeline is drawn.
func (b *tab) shows(title string) {
	b.t.Helper()
	b.Until(fmt.Sprintf(`document.getElementById("cell").open && `+
		`document.getElementById("cell-title").textContent === %q`, title))
}

// readable fails the test if the page is wider than the window, or has a text with too little
// contrast. It takes a screenshot.
func (b *tab) readable(name string) {
	b.t.Helper()
	b.Keep(name)
	b.Readable(name)
}
