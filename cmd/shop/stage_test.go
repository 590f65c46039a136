//go:build system

package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"oversell/internal/bench/report/page/pagetest"
	"oversell/internal/figures"
	"oversell/internal/page/runs"
)

// stageOf makes a stage of a run of two cases that is not the shop's, as window.stage. show
// gives it what the stream would, and returns once it is drawn.
func stageOf(t *testing.T, strategies ...string) (b *pagetest.Tab, show func(now string)) {
	t.Helper()
	b, site := openPage(t)
	b.Visit(site, "#/shop", desk)
	b.Until(`document.querySelector(".buy") !== null`)
	names, err := json.Marshal(strategies)
	if err != nil {
		t.Fatal(err)
	}
	pagetest.Eval[bool](b, `(() => {
	  (async () => {
	    const { newStage } = await import("/page/stage.js");
	    const settings = { strategies: `+string(names)+`, conditions: ["calm"], stock: 10 };
	    const stage = newStage({ strategies: settings.strategies.map((name) => ({ name, exclusive: true })) }, () => {}, () => {});
	    document.body.append(stage.node);
	    const point = (t_ms, sold, more) => ({ t_ms, audit_ms: t_ms, waiting: 7, remaining: 10 - sold, sold, sold_out: 0, failed: 0, unknown: 0, holders: -1, max_holders: 1, ...more });
	    const now = (row, phase, point) => ({ row, of: 2, strategy: settings.strategies[row - 1], condition: "calm", phase, stock: 10, point, broken: [], faults: [] });
	    const run = (now) => stage.update({ id: "1", state: "running", rows: [], settings, now });
	    Object.assign(window, { stage, point, now, run });
	  })();
	  return true;
	})()`)
	b.Until(`window.run !== undefined`)
	return b, func(now string) {
		t.Helper()
		pagetest.Eval[bool](b, `((window.drawn = false), run(`+now+`), requestAnimationFrame(() => requestAnimationFrame(() => window.drawn = true)), true)`)
		b.Until(`window.drawn`)
	}
}

// laneOf returns a selector for a part of the lane of a case.
func laneOf(n int, part string) string { return fmt.Sprintf(`.lane[data-n="%d"] %s`, n, part) }

// The case in progress shows the figures that it has, even negative ones; only an unknown
// number of holders is left out.
func TestPageShowsStockBelowZero(t *testing.T) {
	t.Parallel()
	b, show := stageOf(t, "none", "v9_cohort")
	show(`now(1, "load", point(50, 13))`)
	for selector, want := range map[string]string{".fact.remaining dd": "-3", ".fact.holders dd": "–", ".fact.waiting dd": "7"} {
		if got := pagetest.Eval[string](b, text(laneOf(1, selector))); got != want {
			t.Errorf("%s is %q, want %q", selector, got, want)
		}
	}
	if came := pagetest.Eval[string](b, text(laneOf(1, ".came"))); came != "13 sold, only 10 in stock: 3 too many" {
		t.Errorf("the lane says %q", came)
	}
	b.Quiet()
}

// While the next case is prepared its lane is empty: no curve of another case is in it. A case
// that is tried again loses the curve of its last try.
func TestPageShowsNoCurveOfAnotherCase(t *testing.T) {
	t.Parallel()
	b, show := stageOf(t, "none", "v9_cohort")
	curves := func(want ...int) {
		t.Helper()
		for i, n := range want {
			if got := pagetest.Eval[int](b, fmt.Sprintf(`document.querySelectorAll(%q).length`, laneOf(i+1, "path.sold.within"))); got != n {
				t.Errorf("case %d has %d curves, want %d", i+1, got, n)
			}
		}
	}
	show(`now(1, "setup", null)`)
	curves(0, 0)
	show(`now(1, "load", point(50, 3))`)
	show(`now(1, "load", point(900, 13))`)
	curves(1, 0)
	show(`now(2, "setup", null)`)
	curves(1, 0)
	if said := pagetest.Eval[string](b, text(laneOf(2, ".came"))); !strings.Contains(said, "starting processes") {
		t.Errorf("the lane of the next case says %q", said)
	}
	show(`now(2, "load", point(50, 5))`)
	curves(1, 1)
	scales := pagetest.Eval[[]string](b, `[...document.querySelectorAll(".lane .stockmark")].map((mark) => mark.getAttribute("y1"))`)
	if len(scales) != 2 || scales[0] != scales[1] {
		t.Errorf("the stock is at %v: not one scale", scales)
	}
	show(`now(2, "setup", null)`) // the machine stalled
	curves(1, 0)
	show(`now(2, "load", point(40, 1))`)
	if came := pagetest.Eval[string](b, text(laneOf(2, ".came"))); came != "1 of 10 sold" {
		t.Errorf("in its next try the case says %q", came)
	}
	b.Quiet()
}

// onStage is all that the stage says, the texts in its pictures included.
const onStage = `document.querySelector(".live").textContent`

// A card starts a run at once. At the end the stage shows the case that failed, beside the other
// one and on one scale with it. A thumbnail opens the picture of its case. After a reload the
// page says the same.
func TestPageFreezesOnTheFailure(t *testing.T) {
	b, site := openPage(t)
	b.Visit(site, "#/run", desk)
	click(b, `[data-preset=first]`)
	b.Until(`document.querySelector("[data-preset=first]").disabled && document.querySelector(".livehead .danger").hidden === false`)
	run := finished(t, site)
	ended := `document.querySelector("[data-preset=first]")?.disabled === false && document.querySelectorAll(".figures .thumbnail path.sold").length === 4`
	b.Until(ended)
	b.Until(`document.querySelector(".lane.chosen.failed[data-strategy=none]") !== null && ` + onStage + `.includes("Last run: done")`)
	none := run.Samples[0]
	if len(none.Broken) == 0 || none.Broken[len(none.Broken)-1].At <= 0 {
		t.Fatalf("none: %+v", none.Broken)
	}
	for i, row := range run.Rows {
		words := pagetest.Eval[string](b, text(laneOf(i+1, ".came")))
		if want := resolved[string](t, b, fmt.Sprintf(`(await import("/page/text.js")).number(%d)`, row.Sold)); !strings.Contains(words, want) || !strings.Contains(words, string(row.Verdict)) {
			t.Errorf("the lane of %s says %q, want %s sold and %s", row.Strategy, words, want, row.Verdict)
		}
	}
	for _, broken := range none.Broken {
		want := resolved[string](t, b, fmt.Sprintf(`(await import("/page/text.js")).t("live.broken", { ms: Math.round(%v) })`, broken.At))
		if got := pagetest.Eval[string](b, text(laneOf(1, fmt.Sprintf(".invariant.broken[data-invariant=%s]", broken.Invariant)))); !strings.Contains(got, want) {
			t.Errorf("%s of none is shown as %q, want %q in it", broken.Invariant, got, want)
		}
	}
	marks := pagetest.Eval[[]string](b, `[...document.querySelectorAll(".lane .stockmark")].map((mark) => mark.getAttribute("y1"))`)
	if len(marks) != 2 || marks[0] != marks[1] {
		t.Errorf("the stock is at %v: not one scale", marks)
	}
	for _, address := range []string{"", fmt.Sprintf("#/run/%s?case=2", run.ID)} {
		if address != "" {
			click(b, fmt.Sprintf(`.figures a[href=%q]`, address))
			b.Until(fmt.Sprintf(`location.hash === %q && document.querySelector(".lane.chosen").dataset.n === "2" && document.querySelectorAll(".figures .chosen .opens[aria-current]").length === 1`, address))
		}
		before := pagetest.Eval[string](b, onStage+` + `+text(".results"))
		chosen := pagetest.Eval[string](b, `document.querySelector(".lane.chosen").dataset.strategy`)
		b.Do(chromedp.Reload())
		b.Until(ended + ` && ` + onStage + `.includes("Last run: done")`)
		if again := pagetest.Eval[string](b, onStage+` + `+text(".results")); again != before {
			t.Errorf("%s: loaded again it says\n%s\nbefore\n%s", address, again, before)
		}
		if again := pagetest.Eval[string](b, `document.querySelector(".lane.chosen").dataset.strategy`); again != chosen {
			t.Errorf("%s: loaded again %s is chosen, before %s", address, again, chosen)
		}
	}
	// The mark of the break is on the curve, at the time that is said beside it.
	if on := pagetest.Eval[bool](b, `(({ cx, cy }) => [...document.querySelectorAll(".lane.failed path.sold")].some((path) =>
	  path.isPointInStroke(new DOMPoint(cx.baseVal.value, cy.baseVal.value))))(document.querySelector(".lane.failed .crossing"))`); !on {
		t.Error("the mark of the break is beside the curve")
	}
	for _, width := range []int64{400, 1280} {
		for _, scheme := range []string{"light", "dark"} {
			b.Visit(site, fmt.Sprintf("?%d%s#/run", width, scheme), pagetest.Look{Width: width, Height: 720, Scheme: scheme})
			b.Until(ended)
			at := fmt.Sprintf("stage-%d-%s", width, scheme)
			b.Readable(at)
			checkEdges(t, b, at)
			b.Keep(at)
			if bottom := pagetest.Eval[float64](b, `Math.max(...[...document.querySelectorAll(".lane .invariants")].map((list) => list.getBoundingClientRect().bottom))`); width == 1280 && bottom > 720 {
				t.Errorf("the lanes end at %v pixels: below the fold", bottom)
			}
		}
	}
	b.Quiet()
}

// The stage shows the run that the address names, also while another one is under way, and nothing
// of a run that does not exist. A case that was stopped is not judged, after a reload neither.
func TestPageShowsTheRunThatIsSelected(t *testing.T) {
	t.Parallel()
	b, site := openPage(t)
	begin(t, site, `{"strategies":["none","v6_watchdog"],"conditions":["calm"],"requests":200,"stock":20}`)
	first := finished(t, site)
	b.Visit(site, "#/run/"+first.ID, desk)
	ready := `document.querySelectorAll(".figures .thumbnail path.sold").length === 4`
	b.Until(ready + ` && document.querySelector(".lane.chosen[data-strategy=none]") !== null`)
	before := pagetest.Eval[string](b, `document.querySelector(".twolanes").textContent`)

	next := begin(t, site, `{"strategies":["v9_cohort","v2_ttl"],"conditions":["calm"],"requests":1000,"stock":1000,"work_us":100000}`)
	b.Until(`document.querySelector(".elsewhere").hidden === false`)
	if shown := pagetest.Eval[string](b, `document.querySelector(".twolanes").textContent`); shown != before {
		t.Errorf("while another run is under way the stage shows\n%s\nbefore\n%s", shown, before)
	}
	click(b, ".elsewhere a")
	b.Until(`document.querySelector(".elsewhere").hidden && document.querySelector(".lane.chosen[data-strategy=v9_cohort] path.sold") !== null`)
	if titles := pagetest.Eval[string](b, text(".twolanes")); strings.Contains(titles, "none") {
		t.Errorf("of the run under way the stage shows %s", titles)
	}
	click(b, ".livehead .danger")
	stopped := finished(t, site)
	const settled = `document.querySelector(".live")?.textContent.includes("Last run: stopped") && document.querySelector(".lane[data-n='1'] .unjudged") !== null`
	b.Until(settled)
	if stopped.ID != next || len(stopped.Rows) > 0 {
		t.Fatalf("%s has %d rows", stopped.ID, len(stopped.Rows))
	}
	if came := pagetest.Eval[string](b, text(laneOf(2, ".came"))); came != "was not run" {
		t.Errorf("the case that was not begun says %q", came)
	}
	b.Until(fmt.Sprintf(`document.querySelector(%q)?.textContent.startsWith("sold ")`, laneOf(1, ".soldname")))
	after := pagetest.Eval[string](b, onStage)
	b.Do(chromedp.Reload())
	b.Until(settled + ` && ` + fmt.Sprintf(`document.querySelector(%q) !== null`, laneOf(1, "path.sold")))
	if again := pagetest.Eval[string](b, onStage); again != after {
		t.Errorf("loaded again it says\n%s\nbefore\n%s", again, after)
	}
	b.Quiet()
	pagetest.Eval[string](b, `location.hash = "#/run/nobodys"`)
	b.Until(`document.querySelector(".results .alarm") !== null`)
	if pagetest.Eval[bool](b, `document.querySelector(".live").checkVisibility()`) {
		t.Error("beside a run that does not exist the stage shows another one")
	}
}

// Behind the lock of a dead holder nobody is served: the stage says so while the buyers wait, with
// the moment that the shop recorded, and draws where the process was killed. The next lock goes on.
func TestPageSaysThatNobodyIsServed(t *testing.T) {
	t.Parallel()
	b, site := openPage(t)
	b.Visit(site, "#/run", desk)
	click(b, `[data-preset=crash]`)
	const served = "[data-invariant=service]"
	b.Until(fmt.Sprintf(`document.querySelector(%q) !== null`, laneOf(1, served+".broken")))
	if waiting := pagetest.Eval[string](b, text(laneOf(1, ".fact.waiting dd"))); waiting == "0" {
		t.Error("it is only said when nobody waits any more")
	}
	during := pagetest.Eval[string](b, text(laneOf(1, served)))
	run := finished(t, site)
	b.Until(`document.querySelectorAll(".figures tbody tr").length === 2 && ` + onStage + `.includes("Last run: done")`)
	var broken []runs.Broken
	for _, one := range run.Samples[0].Broken {
		if one.Invariant == runs.Served {
			broken = append(broken, one)
		}
	}
	if len(broken) != 1 || run.Rows[0].Verdict != figures.Stuck {
		t.Fatalf("v1_setnx: %s, %+v", run.Rows[0].Verdict, run.Samples[0].Broken)
	}
	at := resolved[string](t, b, fmt.Sprintf(`(await import("/page/text.js")).t("live.broken", { ms: Math.round(%v) })`, broken[0].At))
	after := pagetest.Eval[string](b, text(laneOf(1, served)))
	if after != during || !strings.Contains(after, at) || !strings.Contains(after, broken[0].Text) {
		t.Errorf("during the case the page said %q, then %q; want %q and %q in it", during, after, at, broken[0].Text)
	}
	if got := pagetest.Eval[string](b, text(laneOf(2, served))); strings.Contains(got, "✗") || got == "" {
		t.Errorf("of v9_cohort it says %q", got)
	}
	for i := range run.Rows {
		if faults := run.Samples[i].Faults; len(faults) != 1 || faults[0].At <= 0 {
			t.Errorf("the faults of case %d are %+v", i+1, faults)
		}
		if drawn := pagetest.Eval[[]string](b, fmt.Sprintf(`[...document.querySelectorAll(%q)].map(({ textContent }) => textContent)`, laneOf(i+1, ".faultname"))); !slices.Equal(drawn, []string{"process killed"}) {
			t.Errorf("case %d shows the faults %q", i+1, drawn)
		}
	}
	b.Keep("stage-nobody")
	b.Visit(site, "?lang=en&phone#/run", pagetest.Look{Width: 400, Height: 900, Scheme: "light"})
	b.Until(`document.querySelector(".lane .alarmname") !== null`)
	if cut := pagetest.Eval[[]string](b, `[...document.querySelectorAll(".lane .picture")].flatMap((picture) => {
	  const axis = picture.querySelector(".stockmark").getBoundingClientRect().left;
	  return [...picture.querySelectorAll(".alarmname, .faultname")].filter((name) => name.getBoundingClientRect().left < axis - 3);
	}).map(({ textContent }) => textContent)`); len(cut) > 0 {
		t.Errorf("on a phone these begin left of the axis: %q", cut)
	}
	b.Quiet()
}

// Where a fault may let a single write through, the stock of the card is so small that the picture
// shows the excess.
func TestCardsShowAnExcessThatIsSeen(t *testing.T) {
	site := openShop(t)
	options := get[struct{ Presets []runs.Preset }](t, site, "api/runs/options")
	for _, preset := range options.Presets {
		if !slices.Contains([]string{"pause", "cut", "unfenced"}, preset.Name) {
			continue
		}
		settings, err := json.Marshal(preset.Settings)
		if err != nil {
			t.Fatal(err)
		}
		begin(t, site, string(settings))
		run := finished(t, site)
		if len(run.Rows) == 0 {
			t.Fatalf("%s ended without a row: %+v", preset.Name, run.Summary)
		}
		if row := run.Rows[0]; row.Oversold*20 < preset.Stock {
			t.Errorf("%s: %d are sold of %d, which nobody sees", preset.Name, row.Sold, preset.Stock)
		}
	}
}

// Nothing keeps the browser busy for more than 50 ms while Run is loaded, a run is shown from its
// start to its end, and one of its cases is opened.
func TestRunKeepsTheBrowserFree(t *testing.T) {
	b, site := openPage(t)
	keepsFree(t, 50*time.Millisecond, func(query string) time.Duration {
		return b.LongestTask(func() {
			b.Visit(site, query+"#/run", desk)
			b.Until(`document.querySelector("[data-preset=first]")?.disabled === false`)
			click(b, `[data-preset=first]`)
			b.Until(`document.querySelector("[data-preset=first]").disabled`)
			run := finished(t, site)
			b.Until(`document.querySelector("[data-preset=first]")?.disabled === false && document.querySelectorAll(".figures .thumbnail path.sold").length === 4`)
			click(b, fmt.Sprintf(`.figures a[href="#/run/%s?case=2"]`, run.ID))
			b.Until(`document.querySelector(".lane.chosen").dataset.n === "2"`)
		})
	})
	b.Quiet()
}
