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
)

// drawn is true once all files of a stage are shown.
const drawn = `document.querySelector(".source") !== null && document.querySelector(".part-read [aria-busy]") === null`

// On a stage's page the line that fixes an anomaly links to the cell where that breaks.
func TestPageReadsAStageBesideTheOneBefore(t *testing.T) {
	b, site := openPage(t)
	for _, width := range []int64{1280, 400} {
		b.Visit(site, "#/read/v4_lua", pagetest.Look{Width: width, Height: 900, Scheme: "light"})
		b.Until(drawn + ` && document.querySelectorAll(".diff .fixing .flag").length > 0`)
		if link := pagetest.Eval[string](b, `document.querySelector(".diff .fixing .flag").getAttribute("href")`); link != "#/break/check-then-delete/v3_uuid" {
			t.Errorf("the line leads to %s", link)
		}
		sides := pagetest.Eval[int](b, `[...document.querySelector(".diff tbody:not([hidden]) tr.same").querySelectorAll(".side")].filter((side) => side.checkVisibility()).length`)
		if want := map[int64]int{1280: 2, 400: 1}[width]; sides != want {
			t.Errorf("at %d pixels %d sides are shown, want %d", width, sides, want)
		}
	}
	b.Quiet()
}

// Read shows code first. The comment of a file and the package comment are folded, and can be
// opened by keyboard. Code has colours, in both themes.
func TestPageReadsCodeFirst(t *testing.T) {
	b, site := openPage(t)
	const comment = `[...document.querySelectorAll("#mutex\\.go-head tr")].filter((row) => row.checkVisibility()).length`
	const expanded = `document.querySelector("[aria-controls='mutex.go-head']").getAttribute("aria-expanded")`
	for _, scheme := range []string{"light", "dark"} {
		b.Visit(site, "?"+scheme+"#/read/v4_lua", pagetest.Look{Width: 1280, Height: 900, Scheme: scheme})
		b.Until(drawn + ` && document.querySelector(".diff .fixing .flag") !== null`)
		first := pagetest.Eval[string](b, `[...document.querySelectorAll(".diff tr:is(.added, .changed, .removed)")].find((row) =>
		  row.checkVisibility()).querySelector(".now code").innerText`)
		if want := "if redis.call('GET', KEYS[1]) ~= ARGV[1] then"; first != want {
			t.Errorf("the first change that is shown is %q, want %q", first, want)
		}
		if top := pagetest.Eval[float64](b, `document.querySelector(".diff tr.fixing").getBoundingClientRect().bottom`); top > 900 {
			t.Errorf("the first change is %v pixels down", top)
		}
		colours := pagetest.Eval[[]string](b, `["code", ".code-keyword", ".code-string", ".code-number", ".code-comment"].map((name) =>
		  getComputedStyle(document.querySelector(".diff tr.same " + name)).color)`)
		slices.Sort(colours)
		if len(slices.Compact(colours)) != 5 {
			t.Errorf("%s: code, keywords, strings, numbers and comments have the colours %v", scheme, colours)
		}

		if n, is := pagetest.Eval[int](b, comment), pagetest.Eval[string](b, expanded); n != 0 || is != "false" {
			t.Errorf("%d lines of the comment are shown, aria-expanded is %s", n, is)
		}
		pagetest.Eval[bool](b, `document.querySelector("[aria-controls='mutex.go-head']").focus() ?? true`)
		b.Do(chromedp.KeyEvent(kb.Enter))
		b.Until(expanded + ` === "true" && ` + comment + ` > 10`)
		b.Readable(scheme)
		b.Keep("comment-" + scheme)
		b.Do(chromedp.KeyEvent(kb.Enter))
		b.Until(expanded + ` === "false" && ` + comment + ` === 0`)

		const rest = `document.querySelector(".stageabout pre.comment").checkVisibility()`
		if !strings.Contains(pagetest.Eval[string](b, text(".stageabout p.comment")), "Unlock compares and deletes in one step") || pagetest.Eval[bool](b, rest) {
			t.Error("of the package comment not just the first sentence is shown")
		}
		pagetest.Eval[bool](b, `document.querySelector(".stageabout summary").focus() ?? true`)
		b.Do(chromedp.KeyEvent(kb.Enter))
		b.Until(rest)

		click(b, ".pair input")
		b.Until(expanded + ` === "true" && ` + comment + ` > 10 && document.querySelectorAll(".diff .folded").length === 2`)
	}
	b.Visit(site, "?line#/read/v4_lua?line=mutex.go-3", desk) // a link to a line opens what it is in
	b.Until(`document.getElementById("mutex.go-3")?.checkVisibility()`)
	b.Quiet()
}

// Nothing keeps the browser busy for more than 100 ms while the longest stage is opened, and
// while its files are shown in full.
func TestReadKeepsTheBrowserFree(t *testing.T) {
	b, site := openPage(t)
	keepsFree(t, 100*time.Millisecond, func(query string) time.Duration {
		return b.LongestTask(func() {
			b.Visit(site, query+"#/read/v9_cohort", desk)
			b.Until(drawn)
			before := pagetest.Eval[int](b, `document.querySelectorAll(".diff tr").length`)
			click(b, ".pair input")
			b.Until(fmt.Sprintf(`%s && document.querySelectorAll(".diff tr").length > %d`, drawn, before))
		})
	})
	b.Quiet()
}
