//go:build system

package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"oversell/internal/bench/report/page/pagetest"
	"oversell/internal/lab"
)

// Stepping through a cell reaches the moment at which it breaks, the address has the step,
// and the next stage's cell has no such moment.
func TestPageStepsToTheBreak(t *testing.T) {
	t.Parallel()
	b, site := openLab(t)
	cell := get[lab.Cell](t, site, "api/lab/check-then-delete/v3_uuid")
	if cell.Outcome != lab.Breaks {
		t.Fatalf("the cell %s", cell.Outcome)
	}
	b.Visit(site, "#/break", desk)
	click(b, `a.square[href="#/break/check-then-delete/v3_uuid"]`)
	b.Until(`document.querySelector(".lanes .row.current") !== null`)
	if n := pagetest.Eval[int](b, `document.querySelectorAll(".lanes .row:not(.later)").length`); n != 1 {
		t.Errorf("at the first step %d moments are not ghosts", n)
	}
	for steps := 0; !pagetest.Eval[bool](b, `document.querySelector(".moment.break") !== null`); steps++ {
		if steps > len(cell.Trace)*2 {
			t.Fatal("no step is the break")
		}
		b.Do(chromedp.KeyEvent(kb.ArrowRight))
	}
	told := pagetest.Eval[string](b, text(".moment .wrong"))
	var breaks string
	for _, e := range cell.Trace {
		if e.Kind == lab.Break {
			breaks = e.Text
		}
	}
	if breaks == "" || !strings.Contains(told, breaks) {
		t.Errorf("the page tells %q, want %q in it", told, breaks)
	}
	if got, want := pagetest.Eval[string](b, keysShown), "lock string | token-C1 | 3000 ms"; got != want {
		t.Errorf("at the break the keys are %q, want %q", got, want)
	}
	still := pagetest.Eval[string](b, text(".still"))
	b.Do(chromedp.Reload())
	b.Until(`document.querySelector(".moment.break") !== null`)
	if again := pagetest.Eval[string](b, text(".still")); again != still {
		t.Errorf("loaded again it shows %q, before %q", again, still)
	}
	b.Do(chromedp.KeyEvent(kb.ArrowLeft))
	b.Until(`document.querySelector(".moment.break") === null`)
	for _, at := range []struct{ step, keys string }{
		{"A · command SET lock", "*lock string | token-A1 | 3000 ms"},
		{"the lease ends", "*lock | not there | "},
		{"B · command SET lock", "*lock string | token-B1 | 3000 ms"},
		{"A · command DEL lock", "*lock | not there | "}, // which was B's by then
	} {
		b.Do(chromedp.KeyEvent(kb.Home))
		found := false
		for range len(cell.Trace) * 2 {
			if found = strings.Contains(strings.Join(strings.Fields(pagetest.Eval[string](b, text(".moment"))), " "), at.step); found {
				break
			}
			b.Do(chromedp.KeyEvent(kb.ArrowRight))
		}
		if got := pagetest.Eval[string](b, keysShown); !found || got != at.keys {
			t.Errorf("after %q the keys are %q, want %q", at.step, got, at.keys)
		}
	}

	b.Visit(site, "#/break/check-then-delete/v4_lua", desk)
	b.Until(`document.querySelector("#cell-title")?.innerText.includes("v4_lua") && document.querySelector(".lanes .row") !== null`)
	if n := pagetest.Eval[int](b, `document.querySelectorAll(".lanes .row.break").length`); n > 0 {
		t.Errorf("the cell of v4_lua has %d breaks", n)
	}
	b.Quiet()
}

// keysShown are the keys beside the moment of a cell; one that has just changed has
// a star before it.
const keysShown = `[...document.querySelectorAll(".inredis tbody tr")].map((row) =>
  (row.classList.contains("changed") ? "*" : "") + [...row.cells].map((cell) => cell.textContent.trim()).join(" | ")).join("; ")`

// The drawing behind the rows follows them when the type becomes larger, as on a projector, and
// smaller again: each command's dot stays at its line. The head of the lease stays whole.
func TestPageDrawsTheTimelineAgainForAProjector(t *testing.T) {
	t.Parallel()
	b, site := openLab(t)
	b.Visit(site, "#/break/check-then-delete/v3_uuid?step=6", desk)
	b.Until(`document.querySelectorAll(".lanes .tick").length > 0`)
	const off = `(() => {
	  const middle = (node) => (({ top, bottom }) => (top + bottom) / 2)(node.getBoundingClientRect());
	  const lines = [...document.querySelectorAll(".lanes .row.command:not(.break) .time")].map(middle);
	  const dots = [...document.querySelectorAll(".lanes .tick")].map(middle);
	  return lines.length === dots.length ? Math.max(...lines.map((y, i) => Math.abs(y - dots[i]))) : -1;
	})()`
	const height = `[...document.querySelectorAll(".lanes .row")].at(-1).offsetTop`
	before := pagetest.Eval[float64](b, height)
	for _, present := range []bool{false, true, false} {
		b.Until(fmt.Sprintf(`("present" in document.documentElement.dataset) === %v && (%s > %v) === %[1]v`, present, height, before+50))
		if err := pagetest.Wait(b.Context, fmt.Sprintf(`((far) => far >= 0 && far <= 3)(%s)`, off)); err != nil { // it is drawn again a moment later
			t.Errorf("large type %v: a dot is %v pixels from the line of its command: %v", present, pagetest.Eval[float64](b, off), err)
		}
		if pagetest.Eval[bool](b, `(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth)(document.querySelector(".heads .redis"))`) {
			t.Errorf("large type %v: the head of the lease is cut off", present)
		}
		pagetest.Eval[bool](b, `document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "f", bubbles: true }))`)
	}
	b.Quiet()
}

// If two cells are chosen one after the other the page shows the second one, however late
// the first one arrives, and the arrow keys step only through the second.
func TestPageShowsTheCellThatWasChosenLast(t *testing.T) {
	t.Parallel()
	b, site := openLab(t)
	b.Visit(site, "#/break", desk)
	b.Until(`document.querySelector(".matrix") !== null`)
	hold(b, "/api/lab/check-then-delete/v3_uuid")
	pagetest.Eval[string](b, `location.hash = "#/break/check-then-delete/v3_uuid"`)
	b.Until(held)
	pagetest.Eval[string](b, `location.hash = "#/break/check-then-delete/v2_ttl"`)
	b.Until(`location.hash === "#/break/check-then-delete/v2_ttl?step=1"`)
	b.Until(released)
	b.Do(chromedp.KeyEvent(kb.ArrowRight))
	b.Until(`location.hash === "#/break/check-then-delete/v2_ttl?step=2"`)
	if title := pagetest.Eval[string](b, text("#cell-title")); !strings.Contains(title, "v2_ttl") {
		t.Errorf("the page shows %q", title)
	}
	b.Quiet()
}

// While the lab has to wait the page says so, and asks again.
func TestPageWaitsForALabThatIsBusy(t *testing.T) {
	t.Parallel()
	b, site := openLab(t)
	b.Visit(site, "#/", desk)
	b.Until(`document.querySelector(".cards") !== null`)
	pagetest.Eval[bool](b, `(() => {
	  const ask = window.fetch;
	  window.fetch = async (path, init) => {
	    if (path !== "/api/lab") return ask(path, init);
	    window.fetch = ask;
	    return Response.json({ status: 409, code: "busy", detail: "run 7 is under way" }, { status: 409 });
	  };
	  return true;
	})()`)
	pagetest.Eval[string](b, `location.hash = "#/break"`)
	b.Until(text("main") + `.includes("run 7 is under way")`)
	b.Until(`document.querySelector(".matrix") !== null`)
	b.Quiet()
}
