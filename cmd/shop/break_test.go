//go:build system

package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"oversell/internal/bench/report/page/pagetest"
	"oversell/internal/lab"
)

// matrixReply is what the page knows of the lab.
type matrixReply struct {
	Manifest  lab.Manifest
	Losses    []lab.Loss
	Anomalies []lab.Anomaly
	Cells     []struct {
		lab.Cell
		Endless bool
	}
}

// outcome returns what came out of one cell.
func (m matrixReply) outcome(anomaly, strategy string) lab.Outcome {
	for _, c := range m.Cells {
		if c.Anomaly == anomaly && c.Strategy == strategy {
			return c.Outcome
		}
	}
	return lab.Unknown
}

// openMatrix opens the part Break once the lab has tried everything.
func openMatrix(t *testing.T, look pagetest.Look, address string) (b *pagetest.Tab, site string, m matrixReply) {
	t.Helper()
	b, site = openLab(t)
	m = get[matrixReply](t, site, "api/lab")
	visitMatrix(b, site, look, address)
	return b, site, m
}

// visitMatrix loads the page anew at an address, which has the matrix.
func visitMatrix(b *pagetest.Tab, site string, look pagetest.Look, address string) {
	b.Visit(site, "#/", look)
	b.Visit(site, address, look)
	b.Until(`document.querySelector(".matrix") !== null && document.querySelector(".everyschedule table") !== null`)
}

// What the matrix shows: the names of the anomalies of each group, and those of the columns.
const (
	groupsShown = `Object.fromEntries([...document.querySelectorAll(".matrix tbody")].map((body) =>
	  [body.classList[1], [...body.querySelectorAll(".name")].map((name) => name.textContent)]))`
	orderShown    = `[...document.querySelectorAll(".matrix tbody")].map((body) => body.classList[1])`
	namesShown    = `[...document.querySelectorAll(".matrix .name")].map((name) => name.textContent)`
	columnsShown  = `[...document.querySelectorAll(".matrix thead [data-column]")].map((head) => head.dataset.column)`
	pinnedShown   = `[...document.querySelectorAll(".matrix thead .pinned")].map((head) => head.dataset.column)`
	columnsHidden = `(() => {
	  const box = document.querySelector(".board .scroll").getBoundingClientRect();
	  const names = document.querySelector(".matrix thead th").getBoundingClientRect().right;
	  return [...document.querySelectorAll(".matrix thead [data-column]")].filter((head) => {
	    const { left, right } = head.getBoundingClientRect();
	    return left < names - 2 || right > Math.min(box.right, innerWidth) + 2;
	  }).length;
	})()`
)

// The anomalies are in groups by what the user loses, the worst first, and each cell is a square
// whose class and sign say what came out.
func TestBreakGroupsByLoss(t *testing.T) {
	t.Parallel()
	b, _, m := openMatrix(t, desk, "#/break")
	var order []string
	for _, loss := range m.Losses {
		order = append(order, string(loss))
	}
	if got := pagetest.Eval[[]string](b, orderShown); !slices.Equal(got, order) {
		t.Errorf("the groups are %v, want %v", got, order)
	}
	groups := pagetest.Eval[map[string][]string](b, groupsShown)
	for _, a := range m.Anomalies {
		if !slices.Contains(groups[string(a.Loss)], a.Name) {
			t.Errorf("%s is not among %s", a.Name, a.Loss)
		}
	}
	signs := map[lab.Outcome]string{lab.Holds: "holds ✓", lab.Breaks: "breaks ✗", lab.NA: "na ·", lab.Unknown: "unknown ?"}
	shown := pagetest.Eval[map[string]string](b, `Object.fromEntries([...document.querySelectorAll("a.square")].map((link) =>
	  [link.hash.replace("#/break/", ""), link.classList[1] + " " + link.textContent]))`)
	for _, c := range m.Cells {
		want := signs[c.Outcome]
		if c.Endless {
			want = "endless ∞"
		}
		if got := shown[c.Anomaly+"/"+c.Strategy]; got != want {
			t.Errorf("%s on %s is shown as %q, want %q", c.Anomaly, c.Strategy, got, want)
		}
	}
	b.Quiet()
}

// Columns are pinned by a click and by the address, stand first with the words of their cells,
// and the rows in which they differ can be asked for. What is chosen stays after a reload.
func TestBreakComparesPinnedColumns(t *testing.T) {
	t.Parallel()
	b, site, m := openMatrix(t, desk, "#/break")
	compared := []string{"redsync", "v6_watchdog", "v8_fenced"}
	for _, name := range compared {
		click(b, fmt.Sprintf(`[data-pin=%q]`, name))
	}
	if got := pagetest.Eval[[]string](b, columnsShown); !slices.Equal(got[:3], compared) || len(got) != len(m.Manifest.Strategies) {
		t.Errorf("the columns are %v, want %v first", got, compared)
	}
	pagetest.Eval[bool](b, `(() => {
	  const rows = document.querySelector(".tools select");
	  rows.value = "differ";
	  return rows.dispatchEvent(new Event("change"));
	})()`)
	var differ []string
	for _, loss := range m.Losses {
		for _, a := range m.Anomalies {
			first := m.outcome(a.Name, compared[0])
			if a.Loss == loss && (m.outcome(a.Name, compared[1]) != first || m.outcome(a.Name, compared[2]) != first) {
				differ = append(differ, a.Name)
			}
		}
	}
	if got := pagetest.Eval[[]string](b, namesShown); len(differ) == 0 || !slices.Equal(got, differ) {
		t.Errorf("the rows that differ are %v, want %v", got, differ)
	}
	const noted = `[...document.querySelectorAll(".matrix .note")].every((note) => note.textContent !== "")`
	b.Until(noted)
	b.Do(chromedp.Reload())
	b.Until(`document.querySelector(".matrix") !== null && ` + noted)
	if got := pagetest.Eval[[]string](b, namesShown); !slices.Equal(got, differ) {
		t.Errorf("loaded again, the rows are %v, want %v", got, differ)
	}
	if got := pagetest.Eval[[]string](b, pinnedShown); !slices.Equal(got, compared) {
		t.Errorf("loaded again, %v are pinned, want %v", got, compared)
	}
	click(b, `[data-pin="v6_watchdog"]`)
	if got := pagetest.Eval[[]string](b, pinnedShown); !slices.Equal(got, []string{"redsync", "v8_fenced"}) {
		t.Errorf("without v6_watchdog, %v are pinned", got)
	}
	visitMatrix(b, site, desk, "#/break?pin=redsync,v6,v8,nobody")
	if got := pagetest.Eval[[]string](b, pinnedShown); !slices.Equal(got, compared) {
		t.Errorf("by the address %v are pinned, want %v", got, compared)
	}
	b.Quiet()
}

// The filter shows the anomalies with a word in their name or sentence, or those of one loss. A
// cell that is opened from there is closed to the same choice.
func TestBreakFilters(t *testing.T) {
	t.Parallel()
	b, _, m := openMatrix(t, desk, "#/break")
	pagetest.Eval[bool](b, `(() => {
	  const search = document.querySelector(".tools input[type=search]");
	  search.value = "DELETES";
	  return search.dispatchEvent(new Event("input"));
	})()`)
	var with []string
	for _, loss := range m.Losses {
		for _, a := range m.Anomalies {
			if a.Loss == loss && strings.Contains(strings.ToLower(a.Name+" "+a.Sentence), "deletes") {
				with = append(with, a.Name)
			}
		}
	}
	if got := pagetest.Eval[[]string](b, namesShown); len(with) == 0 || !slices.Equal(got, with) {
		t.Errorf("with the word there are %v, want %v", got, with)
	}
	b.Do(chromedp.Reload())
	b.Until(`document.querySelector(".matrix") !== null`)
	if got := pagetest.Eval[[]string](b, namesShown); !slices.Equal(got, with) {
		t.Errorf("loaded again there are %v, want %v", got, with)
	}
	chosen := pagetest.Eval[string](b, `location.hash`)
	click(b, fmt.Sprintf(`a.square[href="#/break/%s/v2_ttl"]`, with[0]))
	b.Until(`document.querySelector("dialog.cellbox[open] .lanes .row") !== null`)
	b.Do(chromedp.KeyEvent(kb.Escape))
	b.Until(fmt.Sprintf(`document.querySelector("dialog.cellbox") === null && location.hash === %q`, chosen))
	if at := pagetest.Eval[string](b, `document.activeElement.hash ?? ""`); at != "#/break/"+with[0]+"/v2_ttl" {
		t.Errorf("after the cell was closed the keyboard is at %q", at)
	}
	click(b, `.tools .comparing button:last-of-type`) // show everything
	click(b, `[data-loss="stuck"]`)
	if got := pagetest.Eval[[]string](b, orderShown); !slices.Equal(got, []string{"stuck"}) {
		t.Errorf("of the losses there are %v", got)
	}
	b.Quiet()
}

// Where columns are out of sight, a sign says how many, and a click on it shows the next ones.
func TestBreakTellsOfColumnsOutOfSight(t *testing.T) {
	t.Parallel()
	b, site, _ := openMatrix(t, pagetest.Look{Width: 400, Height: 800, Scheme: "light"}, "#/break")
	const sign = `Number((document.querySelector(".beyond .right").textContent.match(/\d+/) ?? [0])[0])
	  + Number((document.querySelector(".beyond .left").textContent.match(/\d+/) ?? [0])[0])`
	b.Until(sign + ` > 0`)
	for range 2 {
		b.Until(fmt.Sprintf(`%s === %s`, sign, columnsHidden))
		click(b, `.beyond .right`)
		b.Until(`document.querySelector(".board .scroll").classList.contains("moreleft")`)
	}
	visitMatrix(b, site, pagetest.Look{Width: 1280, Height: 720, Scheme: "light"}, "?wide#/break")
	b.Until(`document.querySelector(".beyond").hidden`)
	if n := pagetest.Eval[int](b, columnsHidden); n != 0 {
		t.Errorf("at 1280 columns, %d are out of sight", n)
	}
	b.Quiet()
}

// A cell fills the window. What has not happened yet is pale, a dashed arc leads from the command
// that is held up to its arrival, and the other locks are in a strip of one line.
func TestBreakCellFillsTheWindow(t *testing.T) {
	t.Parallel()
	b, _, m := openMatrix(t, desk, "#/break/check-then-delete/v3_uuid?step=7")
	b.Until(`document.querySelector(".lanes .row.current") !== null`)
	if got, want := pagetest.Eval[[]int](b, `(({ width, height }) => [width, height])(document.querySelector("dialog.cellbox").getBoundingClientRect())`), []int{1280, 900}; !slices.Equal(got, want) {
		t.Errorf("the cell has %v, want %v", got, want)
	}
	const ghosts = `(() => {
	  const veil = document.querySelector(".veil");
	  const edge = veil.getBoundingClientRect().top;
	  const rows = [...document.querySelectorAll(".lanes .row")].map((row) => row.getBoundingClientRect());
	  return [rows.filter(({ bottom }) => bottom <= edge + 1).length, Number(getComputedStyle(veil).opacity) < 1 ? 1 : 0];
	})()`
	if got := pagetest.Eval[[]int](b, ghosts); !slices.Equal(got, []int{7, 1}) {
		t.Errorf("at step 7 the moments above the veil, and whether it lets others through, are %v", got)
	}
	const arcs = `[...document.querySelectorAll(".lanes path.flight")].map((path) => {
	  const { y, height } = path.getBBox();
	  const at = [...document.querySelectorAll(".lanes .row")].findIndex((row) => row.offsetTop + 11 > y + height);
	  return document.querySelectorAll(".lanes .row")[at].textContent;
	})`
	if got := pagetest.Eval[[]string](b, arcs); len(got) != 1 || !strings.Contains(got[0], "DEL lock") {
		t.Errorf("arcs lead to %q, want one to DEL lock", got)
	}
	if n := pagetest.Eval[int](b, `document.querySelectorAll(".siblings .square").length`); n != len(m.Manifest.Strategies) {
		t.Errorf("the strip has %d locks, want %d", n, len(m.Manifest.Strategies))
	}
	if high := pagetest.Eval[float64](b, `document.querySelector(".siblings").getBoundingClientRect().height`); high > 40 {
		t.Errorf("the strip is %v pixels high", high)
	}
	b.Do(chromedp.KeyEvent("l"))
	b.Until(`document.querySelector("#cell-title")?.textContent === "check-then-delete v4_lua" && location.hash.startsWith("#/break/check-then-delete/v4_lua")`)
	b.Quiet()
}

// A cell that holds only because its lock never expires says so, and leads to one in which that
// lock is stuck.
func TestBreakTellsWhatOnlyHoldsForEver(t *testing.T) {
	t.Parallel()
	b, _, m := openMatrix(t, desk, "#/break/expires-while-held/v1_setnx")
	b.Until(`document.querySelector(".ruling.endless") !== null`)
	if told := pagetest.Eval[string](b, text(".ruling")); !strings.Contains(told, "only because its lock never expires") {
		t.Errorf("the cell says %q", told)
	}
	click(b, `.price a`)
	b.Until(`document.querySelector(".ruling.breaks") !== null`)
	at := strings.Split(strings.Split(pagetest.Eval[string](b, `location.hash`), "?")[0], "/")
	if m.outcome(at[2], at[3]) != lab.Breaks || at[3] != "v1_setnx" {
		t.Errorf("it leads to %v", at)
	}
	b.Quiet()
}

// The keyboard goes from square to square, over the heads of the groups, and tells each.
func TestBreakIsUsedByKeyboard(t *testing.T) {
	t.Parallel()
	b, _, m := openMatrix(t, desk, "#/break")
	last := ""
	for _, a := range m.Anomalies {
		if a.Loss == m.Losses[0] {
			last = a.Name
		}
	}
	next := m.Anomalies[slices.IndexFunc(m.Anomalies, func(a lab.Anomaly) bool { return a.Loss == m.Losses[1] })].Name
	pagetest.Eval[bool](b, fmt.Sprintf(`document.querySelector('a.square[href="#/break/%s/v2_ttl"]').focus() ?? true`, last))
	b.Do(chromedp.KeyEvent(kb.ArrowDown))
	b.Do(chromedp.KeyEvent(kb.ArrowRight))
	if at := pagetest.Eval[string](b, `document.activeElement.hash`); at != "#/break/"+next+"/v3_uuid" {
		t.Errorf("below %s on v2_ttl, and right, is %q", last, at)
	}
	if tip := pagetest.Eval[string](b, text("#square-tip")); !strings.Contains(tip, next+" on v3_uuid") {
		t.Errorf("the words beside the square are %q", tip)
	}
	b.Do(chromedp.KeyEvent(kb.Enter))
	b.Until(`document.querySelector("dialog.cellbox[open]") !== null`)
	b.Quiet()
}

// What every schedule leads to stands below the matrix, and each break is a link to the scheduler.
func TestBreakShowsEverySchedule(t *testing.T) {
	t.Parallel()
	b, _, _ := openMatrix(t, desk, "#/break")
	click(b, `.everyschedule a[href="#/play/v2_ttl/A.A.p3000.B.B.A.B"]`)
	b.Until(text(".goalcard") + `.includes("more is sold than there is")`)
	b.Quiet()
}

// Nothing in the part keeps the browser busy for more than 100 ms.
func TestBreakKeepsTheBrowserFree(t *testing.T) {
	b, site, _ := openMatrix(t, desk, "#/break")
	steps := []struct{ address, ready string }{
		{"#/break", `document.querySelector(".everyschedule table") !== null`},
		{"#/break?pin=redsync,v6,v8", `document.querySelector(".note") !== null && [...document.querySelectorAll(".matrix .note")].every((note) => note.textContent !== "")`},
		{"#/break/check-then-delete/v3_uuid?step=3", `document.querySelector(".lanes .row.current") !== null`},
	}
	keepsFree(t, 100*time.Millisecond, func(query string) time.Duration {
		b.Visit(site, query+"#/", desk)
		b.Until(`document.querySelector(".cards") !== null`)
		return b.LongestTask(func() {
			for _, step := range steps {
				pagetest.Eval[string](b, fmt.Sprintf(`location.hash = %q`, step.address))
				b.Until(step.ready)
			}
		})
	})
	b.Quiet()
}
