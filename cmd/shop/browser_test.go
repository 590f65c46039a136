//go:build system

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"oversell/internal/bench/report/pagetest"
	"oversell/internal/figures"
	"oversell/internal/lab"
	"oversell/internal/lab/anomalies"
	"oversell/internal/stock"
)

// desk is the default window size and theme of these tests.
var desk = pagetest.Look{Width: 1280, Height: 900, Scheme: "light"}

// openPage runs a shop with everything embedded, and a browser that can reach only the shop.
func openPage(t *testing.T, args ...string) (b *pagetest.Tab, site string) {
	t.Helper()
	b = pagetest.New(t)
	return b, openShop(t, args...)
}

// runLab runs the lab once; all shops of these tests use the result.
var runLab = sync.OnceValue(func() error {
	text, err := exec.Command(os.Args[0], matrixArg).Output()
	if err != nil {
		return err
	}
	return os.WriteFile(os.Getenv(keptMatrix), text, 0o600)
})

// openLab is like openPage, but waits until the shop's lab has finished.
func openLab(t *testing.T) (b *pagetest.Tab, site string) {
	t.Helper()
	must(t, runLab())
	site = openShop(t)
	for {
		res, err := http.Get(site + "api/lab")
		must(t, err)
		res.Body.Close()
		if res.StatusCode == http.StatusOK {
			return pagetest.New(t), site
		}
		time.Sleep(10 * time.Millisecond) // until the lab has finished, or the test times out
	}
}

// openShop starts a shop that a browser can open.
func openShop(t *testing.T, args ...string) (site string) {
	t.Helper()
	p := start(t, args...)
	t.Cleanup(func() { p.end(t) })
	return "http://" + p.addr + "/"
}

// get sends a GET request to the shop, and decodes the reply.
func get[T any](t *testing.T, site, path string) (out T) {
	t.Helper()
	res, err := http.Get(site + path)
	must(t, err)
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(&out); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", path, res.Status, err)
	}
	return out
}

// text returns a JavaScript expression for the text of the selected element.
func text(selector string) string {
	return fmt.Sprintf(`(document.querySelector(%q)?.innerText ?? "")`, selector)
}

// click clicks the selected element as soon as it exists and is enabled.
func click(b *pagetest.Tab, selector string) {
	b.Until(fmt.Sprintf(`document.querySelector(%q)?.disabled === false
		|| document.querySelector(%[1]q)?.matches("a, summary")`, selector))
	pagetest.Eval[bool](b, fmt.Sprintf(`document.querySelector(%q).click() ?? true`, selector))
}

// The page shows buyers their orders, and shows all visitors how the stock goes down.
func TestPageSells(t *testing.T) {
	t.Parallel()
	b, site := openPage(t)
	b.Visit(site, "#/shop", desk)
	b.Until(text("#left") + ` === "1,000"`)
	click(b, `.buying button[type=submit]`)
	b.Until(text("#left") + ` === "999" && document.querySelectorAll(".part-shop tbody code").length === 1`)
	res, err := http.Post(site+"api/items/hot/deduct", "application/json", strings.NewReader(`{"quantity":9}`))
	must(t, err)
	res.Body.Close()
	b.Until(text("#left") + ` === "990"`)

	// A reply whose end is missing is not an order.
	pagetest.Eval[bool](b, `(() => {
	  const whole = fetch;
	  fetch = (path, request) => {
	    if (request?.method !== "POST") return whole(path, request);
	    fetch = whole;
	    return Promise.resolve(new Response('{"order_id":"'));
	  };
	  return true;
	})()`)
	click(b, `.buying button[type=submit]`)
	b.Until(text(".buying .outcome.bad") + ` !== ""`)
	click(b, `.buying button[type=submit]`)
	b.Until(text("#left") + ` === "989" && document.querySelectorAll(".part-shop tbody code").length === 2`)

	// A part of the page that fails once is still polled.
	b.Until(`import("/page/dom.js").then(({ every }) => new Promise((done) => {
	  globalThis.reportError = () => globalThis.failed = true;
	  const stop = every(1, () => {
	    if (!globalThis.failed) throw new Error("once");
	    stop();
	    done(true);
	  });
	}))`)
	b.Quiet()
}

// Every part of the page is readable on a phone in the light theme in English, and on a desktop in
// the dark theme in Chinese.
func TestPageIsReadable(t *testing.T) {
	t.Parallel()
	b, site := openLab(t)
	parts := map[string]struct{ path, ready string }{
		"home": {"#/", `document.querySelector(".cards") !== null`},
		"break": {"#/break", `document.querySelector(".matrix") !== null
			&& document.querySelector(".everyschedule table") !== null`},
		"cell": {"#/break/check-then-delete/v3_uuid?step=12", `document.querySelector(".moment.break") !== null`},
		"play": {"#/play/v2_ttl/A.A.A.p3000.B.A", `document.querySelector(".findings") !== null
			&& document.querySelector(".lanes .row") !== null`},
		"run": {"#/run", `document.querySelector(".runform") !== null
			&& document.querySelector(".earlier h2") !== null`},
		"read":  {"#/read/v4_lua", `document.querySelector(".diff .added") !== null`},
		"shop":  {"#/shop", `document.querySelector(".buy") !== null`},
		"class": {"#/shop/class", `document.querySelector(".shell") !== null`},
		"seats": {"#/shop/seats", `document.querySelector(".seatform") !== null`},
	}
	for name, part := range parts {
		for _, look := range []pagetest.Look{
			{Width: 400, Height: 900, Scheme: "light"}, {Width: 1280, Height: 900, Scheme: "dark"},
		} {
			language := map[string]string{"light": "en", "dark": "zh"}[look.Scheme]
			at := fmt.Sprintf("%s-%d-%s-%s", name, look.Width, look.Scheme, language)
			b.Visit(site, fmt.Sprintf("?%s&lang=%s%s", at, language, part.path), look) // each URL loads anew
			b.Until(part.ready)
			b.Readable(at)
			b.Keep(at)
		}
	}
	b.Quiet()
}

// Until the first run, the page replays a recorded run, and labels it as recorded. After a run,
// each row shows the figures of the audit.
func TestPageShowsARunAsTheAuditFoundIt(t *testing.T) {
	t.Parallel()
	b, site := openPage(t)
	b.Visit(site, "#/run", desk)
	b.Until(text(".live h2") + ` === "Recorded run" && document.querySelector(".lane.failed .crossing") !== null`)
	pagetest.Eval[bool](b, `(() => {
	  const set = (id, value) => { document.getElementById(id).value = value; };
	  set("run-requests", 600);
	  set("run-stock", 60);
	  return true;
	})()`)
	click(b, `.runform button[type=submit]`)
	b.Until(`document.querySelectorAll(".figures tbody tr").length === 2
		&& document.querySelector(".runform button[type=submit]").disabled === false`)
	id := get[struct{ Runs []struct{ ID string } }](t, site, "api/runs").Runs[0].ID
	run := get[struct {
		Rows []struct {
			Strategy              string
			Sold, Stock, Oversold int64
			Verdict               figures.Verdict
		}
	}](t, site, "api/runs/"+id)
	for _, r := range run.Rows {
		want := map[string]string{
			`[data-figure="sold"]`:     fmt.Sprintf("%d / %d", r.Sold, r.Stock),
			`[data-figure="oversold"]`: fmt.Sprint(r.Oversold),
			`.mark`:                    string(r.Verdict),
		}
		for figure, want := range want {
			got := pagetest.Eval[string](b, text(fmt.Sprintf(`tr[data-strategy=%q] %s`, r.Strategy, figure)))
			if !strings.Contains(got, want) {
				t.Errorf("%s: the page shows %q at %s, the audit has %q", r.Strategy, got, figure, want)
			}
		}
	}
	b.Until(text(".live h2") + ` === "Last run: done"`)
	if len(run.Rows) != 2 {
		t.Errorf("the rows are %+v", run.Rows)
	}

	// A look at this run does not cost the next one, which is under way, the curve of its first case.
	begun, err := http.Post(site+"api/runs", "application/json", strings.NewReader(
		`{"strategies":["none","v6_watchdog"],"requests":2000,"stock":2000,"work_us":100000}`))
	must(t, err)
	begun.Body.Close()
	b.Until(text(".live h2") + ` === "Case 2 of 2"`)
	pagetest.Eval[string](b, fmt.Sprintf(`location.hash = "#/run/%s"`, id))
	b.Until(text(".live h2") + ` === "Earlier run: done"`)
	click(b, ".elsewhere a")
	b.Until(text(".live h2") + ` === "Case 2 of 2" && document.querySelector(".lane[data-n='1'] .sold") !== null`)
	b.Quiet()
}

// The matrix first shows the recorded results of the stages, and then runs the lab in the
// background.
func TestPageBeginsWithWhatTheStagesTeach(t *testing.T) {
	t.Parallel()
	must(t, runLab())
	b, site := openPage(t)
	b.Visit(site, "?lang=en#/break", desk)
	rows := `document.querySelectorAll(".matrix tbody tr:not(.head)").length`
	b.Until(rows + ` === 12 && document.querySelectorAll(".matrix .square.breaks").length > 20`)
	click(b, ".board > button")
	b.Until(fmt.Sprintf(`%s === %d && document.querySelectorAll(".matrix .control").length === 2`,
		rows, len(anomalies.All())))
	b.Until(`document.querySelectorAll(".matrix .square.endless").length > 0`) // only a run of the lab finds these
	b.Quiet()
}

// foreignDelete makes A buy with a lock that expires before A unlocks.
var foreignDelete = []string{"A", "A", "A", "p3000", "B", "A"}

// In the scheduler, the user makes v2 delete another holder's lock, and the page shows the state
// that the engine computes. The same moves do not break v4. A command of v7 waits in Redis.
func TestPageLetsOneBeTheScheduler(t *testing.T) {
	t.Parallel()
	b, site := openPage(t)
	b.Visit(site, "#/play/v2_ttl", desk)
	for i, move := range foreignDelete {
		if strings.HasPrefix(move, "p") {
			click(b, `.time button[data-focus*="3,000"]`) // lets the ttl pass
		} else {
			click(b, fmt.Sprintf(`[data-focus=%q]`, move))
		}
		b.Until(fmt.Sprintf(`location.hash.endsWith(%q) && %s.toLowerCase().includes("moves: %d")`,
			"/"+strings.Join(foreignDelete[:i+1], "."), text(".standingline"), i+1))
	}
	b.Until(`document.querySelector(".findings .alarm") !== null`)
	verdict := pagetest.Eval[string](b, text(".standingline"))
	var finding string
	for _, f := range play(t, site, "v2_ttl", foreignDelete).Findings {
		if f.Kind == lab.ForeignDelete {
			finding = f.Text
		}
	}
	if finding == "" || !strings.Contains(verdict, finding) {
		t.Errorf("the page says %q, want the engine's %q in it", verdict, finding)
	}
	b.Visit(site, "#/play/v4_lua/"+strings.Join(foreignDelete, "."), desk)
	b.Until(text(".goalcard h2") + ` === "v4_lua" && ` + text(".standingline") + `.includes("moves: 6")`)
	if n := pagetest.Eval[int](b, `document.querySelectorAll(".findings .alarm, .standingline.won").length`); n > 0 {
		t.Errorf("by the same moves v4_lua is broken: %s", pagetest.Eval[string](b, text("main")))
	}

	// The reply to a command that waits in Redis is shown when it arrives.
	b.Visit(site, "#/play/v7_queue/A.B.B.p300.A.A.A", desk)
	b.Until(text(".standingline") + `.includes("moves: 7") && document.querySelector(".lanes .row") !== null`)
	rows := pagetest.Eval[[]string](b, `[...document.querySelectorAll(".lanes .row")].map((row) => row.innerText)
		.filter((text) => text.includes("BLPOP"))`)
	if len(rows) != 2 || !strings.HasPrefix(rows[0], "0") || !strings.HasSuffix(rows[0], "…") ||
		!strings.HasPrefix(rows[1], "300") || !strings.Contains(rows[1], "↳") {
		t.Errorf("the rows of the command that waits are %q", rows)
	}
	b.Quiet()
}

// play returns the state that the engine computes for these moves.
func play(t *testing.T, site, strategy string, moves []string) (state lab.State) {
	t.Helper()
	body := fmt.Sprintf(`{"strategy":%q,"buyers":2,"moves":%q}`, strategy, strings.Join(moves, "."))
	res, err := http.Post(site+"api/schedule", "application/json", strings.NewReader(body))
	must(t, err)
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(&state); err != nil || res.StatusCode != http.StatusOK {
		t.Fatal(res.Status, err)
	}
	return state
}

// In a level that cannot be won, it is not enough to call it impossible: the player must choose the
// reason.
func TestPageAsksForTheReason(t *testing.T) {
	t.Parallel()
	b, site := openPage(t)
	b.Visit(site, "?lang=en#/play/v8_fenced", desk)
	b.Until(text(".explored") + `.startsWith("All ")`)
	click(b, ".helpers button:last-child")
	b.Until(`document.querySelectorAll(".reasons button").length === 3 && ` +
		`document.querySelector(".goalcard.won") === null`)
	click(b, ".reasons button:first-child")
	b.Until(text(".goalcard .also") + ` !== "" && document.querySelector(".goalcard.won") === null`)
	click(b, ".reasons button:nth-child(2)")
	b.Until(`document.querySelector(".goalcard.won") !== null`)
	click(b, ".explored button")
	b.Until(text(".finding[open] .moves") + `.includes("reply lost") || ` +
		text(".finding[open]") + `.includes(" pass · ")`)
	b.Quiet()
}

// Stepping through a cell leads to the step at which it breaks, and the address contains the step.
func TestPageStepsToTheBreak(t *testing.T) {
	t.Parallel()
	b, site := openLab(t)
	cell := get[lab.Cell](t, site, "api/lab/check-then-delete/v3_uuid")
	b.Visit(site, "#/break", desk)
	click(b, `a.square[href="#/break/check-then-delete/v3_uuid"]`)
	b.Until(`document.querySelector(".lanes .row.current") !== null`)
	for steps := 0; !pagetest.Eval[bool](b, `document.querySelector(".moment.break") !== null`); steps++ {
		if steps > len(cell.Trace)*2 {
			t.Fatal("no step is the break")
		}
		b.Do(chromedp.KeyEvent(kb.ArrowRight))
	}
	told := pagetest.Eval[string](b, text(".moment .wrong"))
	for _, e := range cell.Trace {
		if e.Kind == lab.Break && !strings.Contains(told, e.Text) {
			t.Errorf("the page says %q, want %q in it", told, e.Text)
		}
	}
	still := pagetest.Eval[string](b, text(".still"))
	b.Reload()
	b.Until(`document.querySelector(".moment.break") !== null`)
	if again := pagetest.Eval[string](b, text(".still")); again != still {
		t.Errorf("loaded again it shows %q, before %q", again, still)
	}
	b.Quiet()
}

// With only the Enter key, a buyer holds a unit and pays for it. In between, the buyer extends the
// hold; at the end, the buyer cancels the order. The page's verdict and figures are those of the
// audit.
func TestPageSellsByHolds(t *testing.T) {
	t.Parallel()
	b, site := openPage(t)
	b.Visit(site, "?lang=en#/shop/seats", desk)
	b.Until(`document.querySelector(".seatform") !== null`)
	pagetest.Eval[bool](b, `(() => {
	  for (const [id, value] of Object.entries({ stage: "h3_claim", units: "1", "hold-seconds": "600" })) {
	    document.getElementById(id).value = value;
	    document.getElementById(id).dispatchEvent(new Event("change"));
	  }
	  return true;
	})()`)
	click(b, ".seatform button[type=submit]")
	const button = ".lane.a0 [data-act=hold]"
	b.Until(fmt.Sprintf(`document.querySelector(%q)?.disabled === false
		&& document.querySelector(".unitrows .nothing") !== null`, button))
	pagetest.Eval[bool](b, fmt.Sprintf(`document.querySelector(%q).focus() ?? true`, button))
	for _, phase := range []string{"held", "order"} {
		b.Do(chromedp.KeyEvent(kb.Enter))
		b.Until(fmt.Sprintf(`document.querySelector(".lane.a0 .mark.%s") !== null`, phase))
		if phase == "held" {
			click(b, ".lane.a0 [data-act=extend]")
			b.Until(text(".lane.a0 .outcome.good") + ` === "The hold was extended."
				&& document.activeElement.dataset.act === "pay" && !document.activeElement.disabled`)
		}
	}
	b.Until(text(".verdict") + `.startsWith("✓ 1 of 1 sold, each once.")`)
	figures := func(want map[string]string) {
		for name, value := range want {
			b.Until(fmt.Sprintf(`%s === %q`, text(fmt.Sprintf(`[data-fact="books.%s"] dd`, name)), value))
		}
	}
	figures(map[string]string{"sold": "1", "oversold": "0", "stranded": "0", "captured": "1", "refunded": "0"})
	b.Until(`document.querySelector(".lane.a0 [data-act=cancel]").disabled === false`)
	click(b, ".lane.a0 [data-act=cancel]")
	b.Until(`document.querySelector(".lane.a0 .mark.cancelled") !== null`)
	figures(map[string]string{"sold": "0", "oversold": "0", "stranded": "0", "captured": "1", "refunded": "1"})
	b.Until(text(".verdict") + ` === "✓ 0 of 1 sold, each once. Refunded payments: 1."`)
	b.Quiet()
}

// The page for the projector shows how to join, and how many units a class oversells without a
// lock.
func TestPageShowsTheClass(t *testing.T) {
	t.Parallel()
	b, site := openPage(t, "-class", "-token", "sesame")
	b.Visit(site, "?lang=en#/shop/class", desk)
	b.Until(`document.querySelector(".qr")?.naturalWidth > 0`)
	pagetest.Eval[bool](b, `(() => {
	  for (const [id, value] of Object.entries({ "class-work": "300", "class-units": "3", "class-secret": "sesame" })) {
	    document.getElementById(id).value = value;
	    document.getElementById(id).dispatchEvent(new Event("input", { bubbles: true }));
	  }
	  return true;
	})()`)
	for oversold := int64(0); oversold == 0; { // until enough buyers were inside at the same time
		click(b, ".teacher button[type=submit]")
		b.Until(text(".left dd") + ` === "3" && document.querySelectorAll(".squares i").length === 3`)
		var buying sync.WaitGroup
		for range 30 {
			buying.Go(func() {
				deduct, body := site+"api/items/hot/deduct", strings.NewReader(`{"quantity":1}`)
				res, err := http.Post(deduct, "application/json", body)
				if err == nil {
					res.Body.Close()
				}
			})
		}
		buying.Wait()
		oversold = get[stock.Audit](t, site, "api/audit/hot").Oversold
	}
	b.Until(`document.querySelectorAll(".squares .over").length > 0
		&& document.querySelector(".scene .verdict.bad") !== null`)
	b.Quiet()
}

// A phone shows the number of units left, one button, and the outcome of the order.
func TestPageOfAPhone(t *testing.T) {
	t.Parallel()
	b, site := openPage(t, "-class", "-token", "sesame")
	b.Visit(site, "?lang=en#/shop/class", desk)
	b.Until(text(".scene .verdict") + ` === "0 of 10 sold."`)
	b.Visit(site, "?phone&lang=en#/shop/phone", pagetest.Look{Width: 400, Height: 720, Scheme: "light"})
	b.Until(text("#left") + ` === "10"`)
	buttons := `[...document.querySelectorAll("a, button, select, summary")]` +
		`.filter((it) => it.checkVisibility()).length`
	if n := pagetest.Eval[int](b, buttons); n != 1 {
		t.Errorf("a phone has %d buttons and links", n)
	}
	click(b, ".buy")
	b.Until(text(".buying .outcome") + `.startsWith("Bought 1")`)
	b.Keep("phone")
	b.Quiet()
}
