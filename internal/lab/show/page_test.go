//go:build system

package show_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"oversell/internal/backend/backendtest"
	"oversell/internal/bench/report/pagetest"
	"oversell/internal/lab"
	"oversell/internal/lab/show"
)

func TestMain(m *testing.M) { os.Exit(backendtest.Main(m, pagetest.Close)) }

// parts maps each part of a lane to the selector of its elements.
var parts = map[string]string{
	"hold": "rect.holds", "belief": "rect.believes", "belief alone": "rect.alone", "two at once": "rect.two",
	"lease": "polygon.lease", "command": "circle.tick", "command under way": "path.flight",
	"its arrival": "path.arrival", "break": ".event.break",
}

// count returns the number of elements that match selector.
func count(b *pagetest.Tab, selector string) int {
	return pagetest.Eval[int](b, fmt.Sprintf("document.querySelectorAll(%q).length", selector))
}

// moment waits until the details show the moment with this text.
func moment(b *pagetest.Tab, text string) {
	b.Until(fmt.Sprintf(`document.querySelector(".moment pre").textContent === %q`, text))
}

// shows waits until the cell is open and its timeline is drawn.
func shows(b *pagetest.Tab, title string) {
	b.Until(fmt.Sprintf(`document.getElementById("cell").open && `+
		`document.getElementById("cell-title").textContent === %q`, title))
}

// readable takes a screenshot, and fails the test if the page is wider than the window or contains text
// with too little contrast.
func readable(b *pagetest.Tab, name string) {
	b.Keep(name)
	b.Readable(name)
}

// TestPage opens the page from disk and offline, on a desktop in light mode and on a phone in dark mode.
func TestPage(t *testing.T) {
	b := pagetest.New(t)
	file := pageFile(t, report())
	for width, scheme := range map[int64]string{1280: "light", 400: "dark"} {
		name := fmt.Sprintf("%d-%s", width, scheme)
		b.Open(file, "", pagetest.Look{Width: width, Height: 850, Scheme: scheme})
		readable(b, name+"-matrix")
		b.Do(chromedp.Click(chromedp.CSS(`a[href="#check-then-delete/v3_uuid"]`)))
		shows(b, "check-then-delete on v3_uuid")
		readable(b, name+"-timeline")
		if n := count(b, ".lanes .heads .actor"); n != 3 {
			t.Errorf("%s: %d lanes, want 3", name, n)
		}
		for what, selector := range parts {
			if count(b, ".lanes "+selector) == 0 {
				t.Errorf("%s: no %s is drawn", name, what)
			}
		}
	}
	b.Quiet()
}

// TestPageKeys goes from cell to cell and from moment to moment with the keyboard.
func TestPageKeys(t *testing.T) {
	b := pagetest.New(t)
	b.Open(pageFile(t, report()), "#check-then-delete/v3_uuid",
		pagetest.Look{Width: 1280, Height: 850, Scheme: "light"})
	shows(b, "check-then-delete on v3_uuid")
	for _, step := range []struct{ key, title string }{
		{kb.ArrowRight, "check-then-delete on v4_lua"},
		{kb.ArrowLeft, "check-then-delete on v3_uuid"},
		{"j", "orphan-after-crash on v3_uuid"},
		{"k", "check-then-delete on v3_uuid"},
		{"k", "check-then-delete on v3_uuid"}, // the first row: k does nothing
	} {
		b.Do(chromedp.KeyEvent(step.key))
		shows(b, step.title)
	}

	pagetest.Eval[any](b, `document.querySelector(".lanes .event").focus()`)
	moment(b, "SET lock 6f1c… PX 100 NX → OK")
	for range 5 {
		b.Do(chromedp.KeyEvent(kb.ArrowDown))
	}
	moment(b, "DEL lock …")

	b.Do(chromedp.KeyEvent(kb.Escape))
	b.Until(`!document.getElementById("cell").open && location.hash === ""`)
	b.Do(chromedp.KeyEvent(kb.ArrowDown))
	if got, want := pagetest.Eval[string](b, `document.activeElement.getAttribute("href")`),
		"#orphan-after-crash/v3_uuid"; got != want {
		t.Errorf("the focus is on %q, want %q", got, want)
	}
	b.Do(chromedp.KeyEvent(kb.Enter))
	shows(b, "orphan-after-crash on v3_uuid")
	pagetest.Eval[any](b, `history.back()`)
	b.Until(`!document.getElementById("cell").open`)
	b.Quiet()
}

// hostile is a text that a report from an untrusted source might contain.
const hostile = `</script><script>window.pwned = 1</script><img src=x onerror="window.pwned = 1"><!--'"` +
	"`${window.pwned = 1}`"

// TestPageEscapes opens a page in which every text is hostile, and checks that none of it is executed.
func TestPageEscapes(t *testing.T) {
	r := lab.Report{
		Manifest: lab.Manifest{Redis: hostile, Go: hostile, OS: hostile, Version: hostile,
			Strategies: []string{hostile}},
		Anomalies: []lab.Anomaly{{Name: hostile, Sentence: hostile, Sequence: hostile,
			Source: "javascript:window.pwned=1 " + hostile + " https://example.org/" + hostile}},
		Cells: []lab.Cell{{Anomaly: hostile, Strategy: hostile, Outcome: lab.Breaks, Expected: lab.Holds, Note: hostile,
			Trace: []lab.Event{
				{Actor: hostile, Kind: lab.Command, Text: hostile, Reply: hostile, Lock: hostile},
				{Actor: hostile, Kind: lab.Kind(hostile), Text: hostile},
				{Kind: lab.Break, Text: hostile},
			}}},
	}
	var page strings.Builder
	if err := show.HTML(&page, r, show.Style{}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(page.String(), "<script>window") || strings.Contains(page.String(), "<img") {
		t.Error("a text of the report is markup in the page")
	}

	b := pagetest.New(t)
	b.Open(pageFile(t, r), "", pagetest.Look{Width: 1280, Height: 850, Scheme: "light"})
	pagetest.Eval[any](b, `document.querySelector(".matrix a").click()`)
	shows(b, hostile+" on "+hostile)
	if pagetest.Eval[bool](b, `"pwned" in window`) {
		t.Error("a text of the report was run")
	}
	if n := count(b, `.source a[href^="javascript"], img, script:not(#data):not([type=module])`); n != 0 {
		t.Errorf("%d elements that the page has not", n)
	}
	b.Quiet()
}

// pageFile writes the page to a file.
func pageFile(t *testing.T, r lab.Report) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "lab.html")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := show.HTML(f, r, show.Style{}); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return file
}
