//go:build system

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"oversell/internal/bench/report/page/pagetest"
	"oversell/internal/lab"
)

// foreignDelete lets A buy, with a lock that expires before it unlocks.
var foreignDelete = []string{"A", "A", "A", "p3000", "B", "A"}

// In the scheduler the user makes stage 2 delete another holder's lock, and the page says
// so. The same moves do not break stage 4. A link restores all moves.
func TestPageLetsOneBeTheScheduler(t *testing.T) {
	t.Parallel()
	b, site := openPage(t)
	b.Visit(site, "#/play/v2_ttl", desk)
	for i, move := range foreignDelete {
		if strings.HasPrefix(move, "p") {
			click(b, `.time button[data-focus*="3,000"]`) // by a ttl
		} else {
			click(b, fmt.Sprintf(`[data-focus=%q]`, move))
		}
		b.Until(fmt.Sprintf(`location.hash.endsWith(%q) && %s.toLowerCase().includes("moves: %d")`, "/"+strings.Join(foreignDelete[:i+1], "."), text(".standingline"), i+1))
	}
	b.Until(`document.querySelector(".findings .alarm") !== null`)
	verdict := pagetest.Eval[string](b, text(".standingline"))
	state := play(t, site, "v2_ttl", foreignDelete)
	var finding string
	for _, f := range state.Findings {
		if f.Kind == lab.ForeignDelete {
			finding = f.Text
		}
	}
	if finding == "" || !strings.Contains(verdict, finding) {
		t.Errorf("the page says %q, want the engine's %q in it", verdict, finding)
	}

	link := pagetest.Eval[string](b, `location.hash`)
	shown := pagetest.Eval[string](b, text("main"))
	b.Visit(site, "#/", desk)
	b.Until(`document.querySelector(".cards") !== null`)
	b.Visit(site, link, desk)
	b.Until(`document.querySelector(".findings .alarm") !== null`)
	if again := pagetest.Eval[string](b, text("main")); again != shown {
		t.Errorf("the link shows\n%s\nbefore it was\n%s", again, shown)
	}

	b.Visit(site, "#/play/v4_lua/"+strings.Join(foreignDelete, "."), desk)
	b.Until(text(".goalcard h2") + ` === "v4_lua" && ` + text(".standingline") + `.includes("moves: 6")`)
	if n := pagetest.Eval[int](b, `document.querySelectorAll(".findings .alarm, .standingline.won").length`); n > 0 {
		t.Errorf("by the same moves v4_lua is broken: %s", pagetest.Eval[string](b, text("main")))
	}

	b.Visit(site, "#/play/none/A.B", desk)
	b.Until(`document.querySelector('[data-focus="A"]') !== null`)
	pagetest.Eval[bool](b, `document.querySelector('[data-focus="A"]').focus() ?? true`)
	b.Do(chromedp.KeyEvent(kb.Enter)) // A buys, and the keyboard goes on with B
	b.Until(`document.activeElement?.dataset.focus === "B"`)
	b.Do(chromedp.KeyEvent(kb.Enter))
	b.Until(`document.querySelector(".standingline.won") !== null`)
	pagetest.Eval[bool](b, `[...document.querySelectorAll(".playtools button")][0].click() ?? true`) // take it back
	b.Until(`document.querySelector(".standingline.open") !== null && location.hash === "#/play/none/A.B.A"`)
	click(b, `.recorded a.mark.breaks`)
	b.Until(`document.querySelector(".standingline.won") !== null`)
	b.Quiet()
}

// Addresses of the page may have short names of strategies. The page shows the whole ones.
func TestPageTakesShortNames(t *testing.T) {
	t.Parallel()
	b, site := openLab(t)
	for _, tt := range []struct{ address, shown, want, hash string }{
		{"#/play/v2", "document.title", "v2_ttl", "#/play/v2_ttl/"},
		{"#/play/v4/A.A?buyers=3", "document.title", "nested_v4_lua", "#/play/nested_v4_lua/A.A?buyers=3"},
		{"#/read/v4", text(".stageabout h2"), "v4_lua", "#/read/v4_lua"},
		{"#/break/check-then-delete/v3", text("dialog h2"), "v3_uuid", "#/break/check-then-delete/v3_uuid?step=1"},
		{"#/break?pin=v6,redsync_", text(".matrix thead"), "v6_watchdog", "#/break?pin=v6,redsync_"},
	} {
		b.Visit(site, "?"+url.QueryEscape(tt.address)+tt.address, desk)
		b.Until(fmt.Sprintf(`%s.includes(%q) && location.hash === %q`, tt.shown, tt.want, tt.hash))
		if strings.HasPrefix(tt.address, "#/play") {
			b.Until(`document.querySelector(".gameboard .buyer") !== null`)
		}
	}
	if n := pagetest.Eval[int](b, `document.querySelectorAll("main .alarm").length`); n > 0 {
		t.Errorf("the page says %s", pagetest.Eval[string](b, text("main")))
	}
	b.Quiet()
}

// The engine's result for one level is not shown on another.
func TestPageEndsASearchWithItsLevel(t *testing.T) {
	t.Parallel()
	b, site := openPage(t)
	for _, next := range []string{"#/play/v4_lua", "#/play/none?buyers=3"} {
		b.Visit(site, "?"+url.QueryEscape(next)+"#/play/none", desk)
		b.Until(`document.querySelector(".standingline.open") !== null`)
		hold(b, "/api/schedule/search")
		click(b, `.finding .pair button`)
		b.Until(held + ` && document.querySelector(".again progress") !== null`)
		pagetest.Eval[string](b, fmt.Sprintf(`location.hash = %q`, next))
		b.Until(`document.querySelector(".again").children.length === 0 && document.querySelector(".standingline.open") !== null`)
		if pagetest.Eval[bool](b, `wanted()`) {
			t.Errorf("%s: the search goes on", next)
		}
		b.Until(released)
		if answer := pagetest.Eval[string](b, text(".again")); answer != "" {
			t.Errorf("%s shows what was asked of #/play/none: %s", next, answer)
		}
	}
	b.Quiet()
}

// What every schedule of a level leads to is shown at once, replayed from its link, and
// searched again with the same result.
func TestPageShowsTheProof(t *testing.T) {
	t.Parallel()
	b, site := openPage(t)
	b.Visit(site, "#/play/v8_fenced", desk)
	b.Until(`document.querySelector(".recorded dl") !== null`)
	click(b, `.finding summary`)
	if shown := pagetest.Eval[string](b, text(".recorded")); strings.Count(shown, "impossible") != 4 || !strings.Contains(shown, "all explored") {
		t.Errorf("of v8_fenced the page shows %q", shown)
	}
	pagetest.Eval[bool](b, `document.querySelector("details.proofs").open = true`)
	click(b, `a[href="#/play/v2_ttl/A.lA.p3000.B.A"]`)
	b.Until(`document.querySelector(".standingline.won") !== null && location.hash === "#/play/v2_ttl/A.lA.p3000.B.A"`)
	if shown := pagetest.Eval[string](b, text(".recorded")); !strings.Contains(shown, "v2_ttl") || strings.Count(shown, "impossible") != 2 {
		t.Errorf("of v2_ttl the page shows %q", shown)
	}
	click(b, `.finding .pair button`)
	b.Until(`document.querySelector(".again strong")?.textContent.includes("the same result as on record")`)
	b.Quiet()
}

// What is about a lock is not called impossible of a strategy that has none.
func TestPageSaysWhatDoesNotApply(t *testing.T) {
	t.Parallel()
	b, site := openPage(t)
	for _, tt := range []struct {
		strategy string
		want     []string // of oversell, overlap, foreign-delete, self-wait, stuck
	}{
		{"none", []string{"▶ moves: 4", "· n/a", "· n/a", "· n/a", "✓ impossible"}},
		{"local", []string{"▶ moves: 4", "▶ moves: 2", "· n/a", "· n/a", "✓ impossible"}},
		{"watch", []string{"✓ impossible", "· n/a", "· n/a", "· n/a", "✓ impossible"}},
	} {
		b.Visit(site, "#/play/"+tt.strategy, desk)
		b.Until(`document.querySelector(".recorded dl") !== null`)
		b.Until(fmt.Sprintf(`document.querySelector(".recorded strong").textContent.startsWith(%q)`, tt.strategy+":"))
		got := pagetest.Eval[[]string](b, `[...document.querySelectorAll(".recorded dd .mark")].map((mark) => mark.textContent)`)
		if !slices.Equal(got, tt.want) {
			t.Errorf("of %s the page says %q, want %q", tt.strategy, got, tt.want)
		}
		row := fmt.Sprintf(`[...document.querySelectorAll("table.proofs tr")].find((row) => row.cells[0].textContent === %q).querySelectorAll(".mark")`, tt.strategy)
		if all := pagetest.Eval[[]string](b, `[...`+row+`].map((mark) => mark.textContent)`); !slices.Equal(all, tt.want) {
			t.Errorf("in the table %s has %q, want %q", tt.strategy, all, tt.want)
		}
	}
	click(b, `.finding summary`)
	pagetest.Eval[bool](b, `document.querySelector("details.proofs").open = true`)
	if why := pagetest.Eval[string](b, text("details.proofs")); !strings.Contains(why, "there is no lock to break") {
		t.Errorf("the table does not say why: %q", why)
	}
	b.Keep("proof-na")
	b.Quiet()
}

// play asks the engine for the result of some moves.
func play(t *testing.T, site, strategy string, moves []string) (state lab.State) {
	t.Helper()
	body := fmt.Sprintf(`{"strategy":%q,"buyers":2,"moves":%q}`, strategy, strings.Join(moves, "."))
	res, err := http.Post(site+"api/schedule", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(&state); err != nil || res.StatusCode != http.StatusOK {
		t.Fatal(res.Status, err)
	}
	return state
}

// Nothing keeps the browser busy for more than 100 ms while the scheduler is opened, and while a
// level is won.
func TestPlayKeepsTheBrowserFree(t *testing.T) {
	b, site := openPage(t)
	keepsFree(t, 100*time.Millisecond, func(query string) time.Duration {
		return b.LongestTask(func() {
			b.Visit(site, query+"#/play/v2_ttl", desk)
			for i := range foreignDelete {
				b.Until(`document.querySelector(".gameboard .buyer") !== null`)
				pagetest.Eval[string](b, fmt.Sprintf(`location.hash = "#/play/v2_ttl/%s"`, strings.Join(foreignDelete[:i+1], ".")))
				b.Until(fmt.Sprintf(`document.querySelectorAll(".lanes .row").length > %d`, i))
			}
			b.Until(`document.querySelector(".findings .alarm") !== null`)
		})
	})
	b.Quiet()
}
