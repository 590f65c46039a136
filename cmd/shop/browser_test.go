package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"oversell/internal/bench/report/page/pagetest"
	"oversell/internal/figures"
	"oversell/internal/lab"
	"oversell/internal/page/runs"
)

// desk is the default size and theme of the page.
var desk = pagetest.Look{Width: 1280, Height: 900, Scheme: "light"}

// openPage runs a shop with everything embedded, and a browser that can reach only the shop.
func openPage(t *testing.T, args ...string) (b *pagetest.Tab, site string) {
	t.Helper()
	b = pagetest.New(t)
	t.Setenv(asProgram, "1") // for the processes that it starts of itself
	p := start(t, args...)
	t.Cleanup(func() {
		p.stop()
		<-p.code
	})
	return b, "http://" + p.addr + "/"
}

// get reads a reply of the shop.
func get[T any](t *testing.T, site, path string) (out T) {
	t.Helper()
	res, err := http.Get(site + path)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(&out); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", path, res.Status, err)
	}
	return out
}

// waitForLab waits until the lab has tried everything.
func waitForLab(t *testing.T, site string) {
	t.Helper()
	for {
		res, err := http.Get(site + "api/lab")
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		switch res.StatusCode {
		case http.StatusOK:
			return
		case http.StatusAccepted:
			time.Sleep(50 * time.Millisecond) // it is asked again until it is ready, or the test's time is up
		default:
			t.Fatal(res.Status)
		}
	}
}

// text returns an expression for the text of an element.
func text(selector string) string {
	return fmt.Sprintf(`(document.querySelector(%q)?.innerText ?? "")`, selector)
}

// click clicks the element of a selector, once it exists and is enabled.
func click(b *pagetest.Tab, selector string) {
	b.Until(fmt.Sprintf(`document.querySelector(%q)?.disabled === false || document.querySelector(%[1]q)?.matches("a, summary")`, selector))
	pagetest.Eval[bool](b, fmt.Sprintf(`document.querySelector(%q).click() ?? true`, selector))
}

// Stepping through a cell reaches the moment at which it breaks, the address has the step,
// and the next stage's cell has no such moment.
func TestPageStepsToTheBreak(t *testing.T) {
	b, site := openPage(t)
	waitForLab(t, site)
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

// foreignDelete lets A buy, with a lock that expires before it unlocks.
var foreignDelete = []string{"A", "A", "A", "p3000", "B", "A"}

// In the scheduler the user makes stage 2 delete another holder's lock, and the page says
// so. The same moves do not break stage 4. A link restores all moves.
func TestPageLetsOneBeTheScheduler(t *testing.T) {
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

// hold delays the replies to the page's requests for a path until release is called in the
// page. Then the reply arrives even if the page has aborted the request.
func hold(b *pagetest.Tab, path string) {
	pagetest.Eval[bool](b, fmt.Sprintf(`(() => {
	  const ask = window.fetch;
	  window.fetch = async (path, init) => {
	    if (path.split("?")[0] !== %q) return ask(path, init);
	    const reply = await ask(path);
	    const text = await reply.text();
	    await new Promise((release) => Object.assign(window, { release, wanted: () => !init.signal?.aborted }));
	    return new Response(text, reply);
	  };
	  return true;
	})()`, path))
}

// held is true once the reply is there that the page waits for.
const held = `window.release !== undefined`

// released lets the reply through, and is true when all has been drawn that comes
// of it.
const released = `new Promise((done) => {
  release();
  setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(() => done(true))), 100);
})`

// A late reply to a part that the user has left does not change the current part, nor its
// title and address.
func TestPageLeavesAPartThatIsStillLoading(t *testing.T) {
	b, site := openPage(t)
	waitForLab(t, site)
	for _, part := range []struct{ address, waitsFor string }{
		{"#/break/check-then-delete/v3_uuid", "/api/lab"},
		{"#/break/check-then-delete/v3_uuid", "/api/lab/check-then-delete/v3_uuid"},
		{"#/play/v2_ttl", "/api/schedule/levels"},
		{"#/read/v4_lua", "/api/stages"},
	} {
		b.Visit(site, "?"+url.QueryEscape(part.waitsFor)+"#/", desk) // a page that has loaded nothing
		b.Until(`document.querySelector(".cards") !== null`)
		hold(b, part.waitsFor)
		pagetest.Eval[string](b, fmt.Sprintf(`location.hash = %q`, part.address))
		b.Until(held)
		pagetest.Eval[string](b, `location.hash = "#/run"`)
		b.Until(`document.querySelector(".runform") !== null`)
		const seen = `[document.title, location.hash, document.querySelector("h1").innerText].join("; ")`
		before := pagetest.Eval[string](b, seen)
		if pagetest.Eval[bool](b, `wanted()`) {
			t.Errorf("%s still asks for %s when it was left", part.address, part.waitsFor)
		}
		b.Until(released)
		if after := pagetest.Eval[string](b, seen); after != before {
			t.Errorf("%s: with the reply of %s, which was left, the page shows %q, before %q", part.address, part.waitsFor, after, before)
		}
	}
	b.Quiet()
}

// If two cells are chosen one after the other the page shows the second one, however late
// the first one arrives, and the arrow keys step only through the second.
func TestPageShowsTheCellThatWasChosenLast(t *testing.T) {
	b, site := openPage(t)
	waitForLab(t, site)
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

// The engine's result for one level is not shown on another.
func TestPageEndsASearchWithItsLevel(t *testing.T) {
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

// While the lab has to wait the page says so, and asks again.
func TestPageWaitsForALabThatIsBusy(t *testing.T) {
	b, site := openPage(t)
	waitForLab(t, site)
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

// A visitor that comes when too many are watching still sees the earlier runs, and watches
// as soon as there is room.
func TestPageWatchesOnceThereIsRoom(t *testing.T) {
	b, site := openPage(t)
	var watching []io.Closer
	leave := func() {
		for _, body := range watching {
			body.Close()
		}
	}
	defer leave()
	for {
		res, err := http.Get(site + "api/runs/events")
		if err != nil {
			t.Fatal(err)
		}
		watching = append(watching, res.Body)
		if res.StatusCode != http.StatusOK {
			break
		}
	}
	res, err := http.Post(site+"api/runs", "application/json", strings.NewReader(`{"strategies":["none"],"conditions":["calm"],"requests":100,"stock":10}`))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	b.Visit(site, "#/run", desk)
	b.Until(text(".live") + `.includes("was lost") && document.querySelectorAll(".earlier tbody tr").length === 1`)
	leave()
	b.Until(text(".live") + `.includes("was lost") === false && document.querySelectorAll(".figures tbody tr").length === 1`)
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

// Each row of a run shows the figures of the audit.
func TestPageShowsARunAsTheAuditFoundIt(t *testing.T) {
	b, site := openPage(t)
	b.Visit(site, "#/run", desk)
	b.Until(`document.querySelector(".runform") !== null`)
	pagetest.Eval[bool](b, `(() => {
	  const set = (id, value) => { document.getElementById(id).value = value; };
	  set("run-requests", 600);
	  set("run-stock", 60);
	  return true;
	})()`)
	click(b, `.runform button[type=submit]`)
	b.Until(`document.querySelectorAll(".figures tbody tr").length === 2 && document.querySelector(".runform button[type=submit]").disabled === false`)
	id := get[struct{ Runs []struct{ ID string } }](t, site, "api/runs").Runs[0].ID
	type row struct {
		Strategy string
		Sold     int64
		Stock    int64
		Oversold int64
		Verdict  figures.Verdict
	}
	run := get[struct{ Rows []row }](t, site, "api/runs/"+id)
	if len(run.Rows) != 2 {
		t.Fatalf("%d rows", len(run.Rows))
	}
	for _, r := range run.Rows {
		cell := func(figure string) string {
			return pagetest.Eval[string](b, text(fmt.Sprintf(`tr[data-strategy=%q] [data-figure=%q]`, r.Strategy, figure)))
		}
		if got, want := cell("sold"), fmt.Sprintf("%d / %d", r.Sold, r.Stock); got != want {
			t.Errorf("%s: the page shows %q sold, the audit %q", r.Strategy, got, want)
		}
		if got, want := cell("oversold"), fmt.Sprint(r.Oversold); got != want {
			t.Errorf("%s: the page shows %q oversold, the audit %q", r.Strategy, got, want)
		}
		if got := pagetest.Eval[string](b, text(fmt.Sprintf(`tr[data-strategy=%q] .mark`, r.Strategy))); !strings.Contains(got, string(r.Verdict)) {
			t.Errorf("%s: the page shows the verdict %q, want %s", r.Strategy, got, r.Verdict)
		}
	}
	if run.Rows[0].Verdict == figures.OK || run.Rows[1].Verdict != figures.OK {
		t.Errorf("the verdicts are %s of none and %s of v6", run.Rows[0].Verdict, run.Rows[1].Verdict)
	}
	b.Do(chromedp.Reload())
	b.Until(`document.querySelectorAll(".figures tbody tr").length === 2`)
	b.Quiet()
}

// A row of lua_stream shows when its accepted orders were written. The row of a strategy that
// writes at once has no such times.
func TestPageShowsWhenAcceptedOrdersWereWritten(t *testing.T) {
	b, site := openPage(t)
	b.Visit(site, "#/run", desk)
	id := begin(t, site, `{"strategies":["lua_atomic","lua_stream"],"conditions":["calm"],"requests":200,"stock":50}`)
	b.Until(`document.querySelectorAll(".figures tbody tr").length === 2`)
	rows := get[struct{ Rows []map[string]any }](t, site, "api/runs/"+id).Rows
	for _, figure := range []string{"durable_p99_ms", "drain_ms"} {
		cell := func(strategy string) string {
			return pagetest.Eval[string](b, text(fmt.Sprintf(`tr[data-strategy=%q] [data-figure=%q]`, strategy, figure)))
		}
		if got := cell("lua_atomic"); got != "–" {
			t.Errorf("%s of lua_atomic is %q", figure, got)
		}
		want := resolved[string](t, b, fmt.Sprintf(`(await import("/page/text.js")).number(%v)`, rows[1][figure]))
		if got := cell("lua_stream"); got != want {
			t.Errorf("%s of lua_stream is shown as %q, want %q", figure, got, want)
		}
	}
	if head := pagetest.Eval[string](b, text(".figures thead")); strings.Contains(head, "results.") {
		t.Errorf("a column has no title: %s", head)
	}
	b.Quiet()
}

// Two runs are overlaid: one with a stock that checks fencing tokens, and one without. The
// timeline shows the holder inside while its process is paused.
func TestPageLaysRunsOverEachOther(t *testing.T) {
	b, site := openPage(t)
	b.Visit(site, "#/run", desk)
	b.Until(`document.querySelector(".runform") !== null`)
	for i, start := range []string{`[data-preset=unfenced]`, `.runform button[type=submit]`} {
		click(b, start)
		b.Until(text(".fact.holders dd") + ` === "1"`)
		b.Until(fmt.Sprintf(`document.querySelectorAll(".earlier tbody tr").length === %d && document.querySelector(".runform button[type=submit]").disabled === false`, i+1))
		pagetest.Eval[bool](b, `(document.getElementById("run-fencing").value = "checked") !== ""`)
	}
	list := get[struct{ Runs []struct{ ID string } }](t, site, "api/runs").Runs
	var ids, oversold []string
	for _, listed := range list {
		run := get[struct {
			Settings struct{ Unfenced bool }
			Rows     []struct{ Oversold int64 }
		}](t, site, "api/runs/"+listed.ID)
		if broke := run.Rows[0].Oversold > 0; broke != run.Settings.Unfenced {
			t.Errorf("unfenced is %v, and %d are oversold", run.Settings.Unfenced, run.Rows[0].Oversold)
		}
		ids, oversold = append(ids, listed.ID), append(oversold, fmt.Sprint(run.Rows[0].Oversold))
	}
	for _, id := range ids {
		click(b, fmt.Sprintf(`.earlier input[data-run=%q]`, id))
		b.Until(fmt.Sprintf(`location.hash.includes(%q)`, id))
	}
	b.Until(`document.querySelectorAll(".overlay tbody tr").length === 2 && document.querySelectorAll(".results .u-legend .u-series").length === 3`)
	shown := pagetest.Eval[[]string](b, `[...document.querySelectorAll(".overlay tbody tr td:nth-last-child(3) .number")].map(({ textContent }) => textContent)`)
	if !slices.Equal(shown, oversold) {
		t.Errorf("the page shows %v oversold, the audits %v", shown, oversold)
	}
	b.Quiet()
}

// begin starts a run of the bench and returns its id.
func begin(t *testing.T, site, settings string) string {
	t.Helper()
	res, err := http.Post(site+"api/runs", "application/json", strings.NewReader(settings))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var run struct{ ID string }
	if err := json.NewDecoder(res.Body).Decode(&run); err != nil || res.StatusCode != http.StatusCreated {
		t.Fatal(res.Status, err)
	}
	return run.ID
}

// Overlaid runs and the choice among them do not change while another run is in progress. A
// run in progress arrives row by row.
func TestPageKeepsWhatIsLaidOverEachOther(t *testing.T) {
	b, site := openPage(t)
	b.Visit(site, "#/run", desk)
	b.Until(`document.querySelector(".runform") !== null`)
	const small = `{"strategies":["none","v6_watchdog"],"conditions":["calm"],"requests":200,"stock":20}`
	var ids []string
	run := func(settings string) {
		ids = append(ids, begin(t, site, settings))
		b.Until(fmt.Sprintf(`document.querySelectorAll(".earlier tbody tr").length === %d && document.querySelector(".runform button[type=submit]").disabled === false`, len(ids)))
	}
	run(small)
	run(small)
	pagetest.Eval[string](b, fmt.Sprintf(`location.hash = "#/run/%s,%s"`, ids[0], ids[1]))
	b.Until(`document.querySelector("#overlay-row")?.options.length === 2`)
	pagetest.Eval[bool](b, `(() => {
	  window.select = document.querySelector("#overlay-row");
	  select.value = "v6_watchdog · calm";
	  select.dispatchEvent(new Event("change"));
	  select.focus();
	  return true;
	})()`)
	b.Until(`(window.canvas = document.querySelector(".results canvas")) !== null`)
	run(small)
	if kept := pagetest.Eval[[]bool](b, `[canvas.isConnected, select.isConnected, document.activeElement === select, select.value === "v6_watchdog · calm"]`); slices.Contains(kept, false) {
		t.Errorf("after another run the plot, the choice, its focus and its value are as before: %v", kept)
	}

	slow := begin(t, site, `{"strategies":["none","v6_watchdog"],"conditions":["calm"],"requests":1000,"stock":1000,"work_us":100000}`)
	pagetest.Eval[string](b, fmt.Sprintf(`location.hash = "#/run/%s,%s"`, ids[0], slow))
	b.Until(text(".results .underway") + `.startsWith("run 2 is under way")`)
	const curves = `document.querySelectorAll(".results .u-legend .u-series").length - 1` // one is the stock's
	b.Until(`document.querySelectorAll(".overlay tbody:first-of-type .mark").length === 2 && ` + curves + ` === 1`)
	if value := pagetest.Eval[string](b, `document.activeElement === select ? select.value : ""`); value != "v6_watchdog · calm" {
		t.Errorf("with another run the choice is %q", value)
	}
	pagetest.Eval[bool](b, `(() => {
	  select.value = "none · calm";
	  select.dispatchEvent(new Event("change"));
	  return true;
	})()`)
	b.Until(curves + ` === 2`)
	res, err := http.Post(site+"api/runs/"+slow+"/stop", "application/json", nil)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	b.Until(text(".results .underway") + ` === "" && ` + curves + ` === 2`)
	b.Quiet()
}

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
	b, show := stageOf(t, "none", "v9_cohort")
	show(`now(1, "load", point(50, 13))`)
	for selector, want := range map[string]string{".fact.remaining dd": "-3", ".fact.holders dd": "–", ".fact.waiting dd": "7"} {
		if got := pagetest.Eval[string](b, text(laneOf(1, selector))); got != want {
			t.Errorf("%s is %q, want %q", selector, got, want)
		}
	}
	if came := pagetest.Eval[string](b, text(laneOf(1, ".came"))); came != "sold 13 of 10: 3 too many" {
		t.Errorf("the lane says %q", came)
	}
	b.Quiet()
}

// While the next case is prepared its lane is empty: no curve of another case is in it. A case
// that is tried again loses the curve of its last try.
func TestPageShowsNoCurveOfAnotherCase(t *testing.T) {
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
	if came := pagetest.Eval[string](b, text(laneOf(2, ".came"))); came != "1 sold of 10" {
		t.Errorf("in its next try the case says %q", came)
	}
	b.Quiet()
}

// finished waits until the shop has no run under way, and returns the last one.
func finished(t *testing.T, site string) (run runs.Run) {
	t.Helper()
	for list := (struct{ Runs []runs.Summary }{}); ; time.Sleep(50 * time.Millisecond) { // until the test's time is up
		if list = get[struct{ Runs []runs.Summary }](t, site, "api/runs"); len(list.Runs) > 0 && list.Runs[0].Ended != nil {
			return get[runs.Run](t, site, "api/runs/"+list.Runs[0].ID)
		}
	}
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
	for _, width := range []int64{400, 1280} {
		for _, scheme := range []string{"light", "dark"} {
			b.Visit(site, fmt.Sprintf("?%d%s#/run", width, scheme), pagetest.Look{Width: width, Height: 720, Scheme: scheme})
			b.Until(ended)
			at := fmt.Sprintf("stage-%d-%s", width, scheme)
			b.Readable(at)
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
	b.Quiet()
}

// All visitors see the run in progress, and it goes on when the page that began it is
// closed.
func TestPageShowsTheSameRunToAll(t *testing.T) {
	b, site := openPage(t)
	other := pagetest.New(t)
	b.Visit(site, "#/run", desk)
	other.Visit(site, "#/run", desk)
	other.Until(text(".live") + `.includes("Nothing runs")`)
	click(b, `.runform button[type=submit]`)
	b.Until(`document.querySelector(".runform button[type=submit]").disabled`)
	b.Visit(site, "#/", desk)
	other.Until(`document.querySelectorAll(".figures tbody tr").length === 2 && document.querySelector(".runform button[type=submit]").disabled === false`)
	b.Visit(site, "#/run", desk)
	b.Until(`document.querySelectorAll(".figures tbody tr").length === 2`)
	if mine, theirs := pagetest.Eval[string](b, text(".results")), pagetest.Eval[string](other, text(".results")); mine != theirs {
		t.Errorf("one sees\n%s\nand the other\n%s", mine, theirs)
	}
	b.Quiet()
	other.Quiet()
}

// If the shop has a token, only a visitor with the token can begin a run.
func TestPageAsksForTheToken(t *testing.T) {
	b, site := openPage(t, "-token", "sesame")
	b.Visit(site, "#/run", desk)
	b.Until(`document.querySelector("#run-token") !== null`)
	pagetest.Eval[bool](b, `(() => { for (const input of document.querySelectorAll("input[name=strategy]")) input.checked = input.value === "none"; return true; })()`)
	click(b, `.runform button[type=submit]`)
	b.Until(text(".told") + `.includes("token")`)
	pagetest.Eval[bool](b, `(document.querySelector("#run-token").value = "sesame") === "sesame"`)
	click(b, `.runform button[type=submit]`)
	b.Until(`document.querySelectorAll(".figures tbody tr").length === 1`)
	if kept := pagetest.Eval[bool](b, `Object.values(localStorage).includes("sesame") || location.href.includes("sesame")`); kept {
		t.Error("the token outlives the tab")
	}
}

// Ten runs leave only what the page shows of them.
func TestPageStaysSmallOverTenRuns(t *testing.T) {
	b, site := openPage(t)
	b.Visit(site, "#/run", desk)
	b.Until(`document.querySelector(".runform") !== null`)
	pagetest.Eval[bool](b, `(() => {
	  for (const input of document.querySelectorAll("input[name=strategy]")) input.checked = input.value === "v6_watchdog";
	  document.getElementById("run-requests").value = 200;
	  document.getElementById("run-stock").value = 20;
	  return true;
	})()`)
	const runs = 10
	var nodes, heap [runs]float64
	for i := range runs {
		click(b, `.runform button[type=submit]`)
		b.Until(fmt.Sprintf(`document.querySelectorAll(".earlier tbody tr").length === %d && document.querySelector(".runform button[type=submit]").disabled === false`, i+1))
		b.Until(`document.querySelectorAll(".figures tbody tr").length === 1`)
		pagetest.Call(b, heapprofiler.CollectGarbage, cdp.Empty{})
		nodes[i] = pagetest.Eval[float64](b, `document.querySelectorAll("*").length`)
		heap[i] = pagetest.Eval[float64](b, `performance.memory.usedJSHeapSize`)
	}
	const row = 20 // elements that a line of the list of runs takes at most
	if more := nodes[runs-1] - nodes[1]; more > (runs-2)*row {
		t.Errorf("the page has %v more elements than after the second run: %v", more, nodes)
	}
	if more := heap[runs-1] - heap[1]; more > 1<<20 {
		t.Errorf("the page keeps %v more bytes than after the second run: %v", more, heap)
	}
	b.Quiet()
}

// On a stage's page the line that fixes an anomaly links to the cell where that breaks.
func TestPageReadsAStageBesideTheOneBefore(t *testing.T) {
	b, site := openPage(t)
	for _, width := range []int64{1280, 400} {
		b.Visit(site, "#/read/v4_lua", pagetest.Look{Width: width, Height: 900, Scheme: "light"})
		b.Until(`document.querySelectorAll(".diff .fixing .flag").length > 0`)
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
		b.Until(`document.querySelector(".diff .fixing .flag") !== null`)
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

// A buyer sees the order, and the count goes down for all visitors.
func TestPageSells(t *testing.T) {
	b, site := openPage(t)
	b.Visit(site, "#/shop", desk)
	b.Until(text("#left") + ` === "1,000"`)
	click(b, `.buying button[type=submit]`)
	b.Until(text("#left") + ` === "999" && document.querySelectorAll(".part-shop tbody code").length === 1`)
	res, err := http.Post(site+"api/items/hot/deduct", "application/json", strings.NewReader(`{"quantity":9}`))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	b.Until(text("#left") + ` === "990"`)
	b.Quiet()
}

// The language switch changes all texts and is remembered, and an address can have a
// language.
func TestPageSpeaksChinese(t *testing.T) {
	b, site := openPage(t)
	chinese, told := get[map[string]string](t, site, "page/texts/zh.json"), get[map[string]string](t, site, "page/texts/zh.told.json")
	b.Visit(site, "?lang=en#/shop", desk)
	b.Until(text("h1") + ` === "The flash sale"`)
	b.Visit(site, "#/shop", desk)
	click(b, "#language")
	b.Until(fmt.Sprintf(`%s === %q && document.documentElement.lang === "zh-CN"`, text("h1"), chinese["shop.title"]))
	b.Do(chromedp.Reload())
	b.Until(fmt.Sprintf(`%s === %q`, text("h1"), chinese["shop.title"]))
	b.Visit(site, "#/play/v2_ttl/"+strings.Join(foreignDelete, "."), desk)
	b.Until(fmt.Sprintf(`%s.includes(%q)`, text(".standingline"), strings.NewReplacer("{0}", "A", "{1}", "B").Replace(told["{0} deleted the lock of {1}"])))
	b.Visit(site, "?lang=en#/read", desk)
	b.Until(text("h1") + ` === "Read the stages"`)
	b.Quiet()
}

// If the translations of the shop's texts cannot be loaded, a part is still shown, with those
// texts in English. The next part has them.
func TestPageTellsInEnglishWhatItCannotTranslate(t *testing.T) {
	b, site := openPage(t)
	chinese, forms := get[map[string]string](t, site, "page/texts/zh.json"), get[map[string]string](t, site, "page/texts/zh.told.json")
	b.Visit(site, "?lang=zh#/", desk)
	b.Until(`document.querySelector(".cards") !== null`)
	pagetest.Eval[bool](b, `(() => {
	  const ask = window.fetch;
	  window.fetch = async (path, init) => {
	    if (!String(path).endsWith("/page/texts/zh.told.json")) return ask(path, init);
	    window.fetch = ask;
	    throw new TypeError("Failed to fetch");
	  };
	  return true;
	})()`)
	hash := "#/play/v2_ttl/" + strings.Join(foreignDelete, ".")
	pagetest.Eval[string](b, fmt.Sprintf(`location.hash = %q`, hash))
	b.Until(text(".standingline") + `.includes("A deleted the lock of B")`)
	if h1 := pagetest.Eval[string](b, text("h1")); h1 != chinese["play.title"] {
		t.Errorf("the part is titled %q, want %q", h1, chinese["play.title"])
	}
	pagetest.Eval[string](b, `location.hash = "#/shop"`)
	b.Until(fmt.Sprintf(`%s === %q`, text("h1"), chinese["shop.title"]))
	pagetest.Eval[string](b, fmt.Sprintf(`location.hash = %q`, hash))
	b.Until(fmt.Sprintf(`%s.includes(%q)`, text(".standingline"), strings.NewReplacer("{0}", "A", "{1}", "B").Replace(forms["{0} deleted the lock of {1}"])))
	b.Quiet()
}

// Every part can be read at any width, in the light and the dark theme.
func TestPageIsReadable(t *testing.T) {
	b, site := openPage(t)
	waitForLab(t, site)
	parts := map[string]struct{ path, ready string }{
		"home":  {"#/", `document.querySelector(".cards") !== null`},
		"break": {"#/break", `document.querySelector(".matrix") !== null`},
		"cell":  {"#/break/check-then-delete/v3_uuid?step=12", `document.querySelector(".moment.break") !== null`},
		"play":  {"#/play/v2_ttl/A.A.A.p3000.B.A", `document.querySelector(".findings") !== null && document.querySelector(".lanes .row") !== null`},
		"run":   {"#/run", `document.querySelector(".runform") !== null && document.querySelector(".earlier h2") !== null`},
		"read":  {"#/read/v4_lua", `document.querySelector(".diff") !== null`},
		"shop":  {"#/shop", `document.querySelector(".buy") !== null`},
		"class": {"#/shop/class", `document.querySelector(".shell") !== null`},
		"seats": {"#/shop/seats", `document.querySelector(".unitrows tbody th") !== null && document.querySelector(".books dd") !== null`},
	}
	holdSeats(t, site)
	visits := 0
	for name, part := range parts {
		for _, width := range []int64{400, 1280, 1920} {
			for _, scheme := range []string{"light", "dark"} {
				visits++ // so that each is loaded anew
				b.Visit(site, fmt.Sprintf("?%d%s", visits, part.path), pagetest.Look{Width: width, Height: 900, Scheme: scheme})
				b.Until(part.ready)
				at := fmt.Sprintf("%s-%d-%s", name, width, scheme)
				b.Readable(at)
				b.Keep(at)
			}
		}
	}
	b.Quiet()
}
