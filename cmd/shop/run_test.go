//go:build system

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/chromedp"

	"oversell/internal/bench/report/page/pagetest"
	"oversell/internal/figures"
	"oversell/internal/page/runs"
)

// A visitor that comes when too many are watching still sees the earlier runs, and watches
// as soon as there is room.
func TestPageWatchesOnceThereIsRoom(t *testing.T) {
	t.Parallel()
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

// Each row of a run shows the figures of the audit.
func TestPageShowsARunAsTheAuditFoundIt(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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
	t.Parallel()
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
	t.Parallel()
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

// finished waits until the shop has no run under way, and returns the last one.
func finished(t *testing.T, site string) (run runs.Run) {
	t.Helper()
	for list := (struct{ Runs []runs.Summary }{}); ; time.Sleep(50 * time.Millisecond) { // until the test's time is up
		if list = get[struct{ Runs []runs.Summary }](t, site, "api/runs"); len(list.Runs) > 0 && list.Runs[0].Ended != nil {
			return get[runs.Run](t, site, "api/runs/"+list.Runs[0].ID)
		}
	}
}

// All visitors see the run in progress, and it goes on when the page that began it is
// closed.
func TestPageShowsTheSameRunToAll(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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
	t.Parallel()
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
