//go:build system

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"oversell/internal/bench/report/pagetest"
	"oversell/internal/lab"
	"oversell/internal/site"
)

// maxLab is the largest allowed size, in bytes, of the compressed lab for a browser.
const maxLab = 6_000_000

// writeSite writes a small site, and returns its folder.
func writeSite(t *testing.T) string {
	t.Helper()
	t.Setenv(asProgram, "1") // for the processes that the program starts from its own binary
	dir := filepath.Join(t.TempDir(), "site")
	var out, errs bytes.Buffer
	p := program{tables: tables(), firstOnly: true, stdout: &out, stderr: &errs}
	p.tables[0].Scenarios = slices.DeleteFunc(p.tables[0].Scenarios, func(s lab.Scenario) bool {
		return !slices.Contains([]string{"check-then-delete", "lost-update", "mixed-strategies"}, s.Name)
	})
	if code := p.run(t.Context(), []string{"-site", dir}); code != exitExpected {
		t.Fatalf("exit code %d\n%s%s", code, &out, &errs)
	}
	if !strings.Contains(out.String(), dir) {
		t.Errorf("it says %q", &out)
	}
	return dir
}

// serveBelow serves the folder over plain HTTP, below a path.
func serveBelow(t *testing.T, dir, path string) (address string) {
	t.Helper()
	s := httptest.NewServer(http.StripPrefix(path, http.FileServer(http.Dir(dir))))
	t.Cleanup(s.Close)
	return s.URL + path + "/"
}

// ask evaluates an expression that makes a request in the page, and returns the reply.
func ask[T any](t *testing.T, b *pagetest.Tab, expression string) (out T) {
	t.Helper()
	text, err := chromedp.Run(b.Context,
		chromedp.Evaluate[string](`import("./page/api.js").then(async ({ call }) => `+
			`JSON.stringify(await `+expression+`))`,
			func(p *runtime.EvaluateParams) { p.AwaitPromise = new(true) }))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// The site works when it is served as plain files, without a shop.
func TestSite(t *testing.T) {
	dir := writeSite(t)
	t.Run("the lab is small", func(t *testing.T) { labIsSmall(t, dir) })
	b := pagetest.New(t) // shared, because starting a browser and the lab in it takes seconds
	t.Run("what was recorded is shown", func(t *testing.T) { recordingsAreShown(t, b, dir) })
	t.Run("the scheduler runs in the browser", func(t *testing.T) { schedulerRuns(t, b, dir) })
	t.Run("cells run in the browser", func(t *testing.T) { cellsRun(t, b, dir) })
}

func labIsSmall(t *testing.T, dir string) {
	files, err := filepath.Glob(filepath.Join(dir, "wasm", "*.wasm.gz"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	info, err := os.Stat(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if t.Logf("the lab has %d bytes, compressed", info.Size()); info.Size() > maxLab {
		t.Errorf("at most %d are allowed", maxLab)
	}
}

// Below a path, as on GitHub Pages, the scheduler plays v3's check-then-delete in the browser, and
// reaches the same state as the lab of this process.
func schedulerRuns(t *testing.T, b *pagetest.Tab, dir string) {
	const before, last = "A.A.A.A.p3000.B", "A" // A has read the lock; the lease expires; B locks; A deletes
	want, err := lab.Play(lab.Schedule{Strategy: "v3_uuid", Buyers: 2, Moves: before + "." + last})
	if err != nil || len(want.Findings) != 1 || want.Findings[0].Kind != lab.ForeignDelete {
		t.Fatalf("the schedule leads to %+v, %v", want.Findings, err)
	}
	b.Visit(serveBelow(t, dir, "/oversell"), "?lang=en#/play/v3_uuid/"+before,
		pagetest.Look{Width: 1280, Height: 720, Scheme: "light"})
	del := `[...document.querySelectorAll("button.step:not(:disabled)")]` +
		`.find((b) => b.innerText.includes("DEL lock"))`
	b.Until(del + ` !== undefined && !document.querySelector(".labloading")`)
	pagetest.Eval[bool](b, del+`.click() ?? true`)
	b.Until(fmt.Sprintf(`document.body.innerText.includes(%q)`, want.Findings[0].Text))
	got := ask[lab.State](t, b, fmt.Sprintf(`call("/api/schedule", { method: "POST", `+
		`body: { strategy: "v3_uuid", buyers: 2, moves: %q } })`, want.Moves))
	if text, other := asJSON(t, got), asJSON(t, want); text != other {
		t.Errorf("in the browser it leads to\n%s\nwant\n%s", text, other)
	}
	b.Keep("site-play")
	b.Quiet()
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Every part of the site shows its recording, and can be opened directly by its link. A part that
// needs a shop shows the command that starts one.
func recordingsAreShown(t *testing.T, b *pagetest.Tab, dir string) {
	address := serveBelow(t, dir, "/oversell")
	look := pagetest.Look{Width: 1280, Height: 720, Scheme: "light"}
	for i, part := range []struct{ at, until string }{
		{"#/", `document.querySelectorAll(".card").length >= 5`},
		{"#/break", `document.querySelector('a[href="#/break/check-then-delete/v3_uuid"]') !== null`},
		{"#/break/check-then-delete/v3_uuid?step=4", `document.querySelector(".lanes .row.current") !== null`},
		{"#/break/check-then-delete/v3",
			`document.querySelector("#cell-title")?.innerText.includes("v3_uuid") ?? false`},
		{"#/read/v4", `location.hash === "#/read/v4_lua" && document.body.innerText.includes("unlock.lua")`},
		{"#/read/v4_lua", `document.body.innerText.includes("unlock.lua")`},
		{"#/teach/ttl", `document.querySelector(".lesson h2") !== null`},
		{"#/shop", `document.querySelectorAll(".squares .over").length > 0`},
		{"#/shop/class", `document.body.innerText.includes("go run ./cmd/shop -class")`},
		{"#/shop/seats", `document.querySelector(".player") !== null && document.querySelector(".row.break") !== null`},
		{"#/run", `document.querySelectorAll("table.figures tbody tr").length === 2 && ` +
			`document.querySelector(".livehead h2").innerText > "" && ` +
			`document.body.innerText.includes("go run ./cmd/shop")`},
	} {
		language := []string{"en", "zh"}[i%2]
		b.Visit(address, fmt.Sprintf("?lang=%s&n=%d%s", language, i, part.at), look) // n forces a new load
		b.Until(part.until)
		b.Keep(fmt.Sprintf("site-%d-%s", i, language))
		b.Quiet()
	}

	// Outside of a recording, the keys scroll as usual.
	b.Visit(address, "?lang=en&n=keys#/shop/seats", look)
	b.Until(`document.querySelector(".player") !== null`)
	scrolls := `(on) => on.dispatchEvent(new KeyboardEvent("keydown", { key: "End", bubbles: true, cancelable: true }))`
	b.Until(fmt.Sprintf(`[document.body, document.querySelector(".player .play")].map(%s).join() === "true,false"`,
		scrolls))

	runs := ask[struct{ Runs []struct{ ID string } }](t, b, `call("/api/runs")`).Runs
	if len(runs) != 1 {
		t.Fatalf("%d runs were recorded", len(runs))
	}
	b.Visit(address, "?lang=en&n=run#/run", look)
	b.Until(`document.querySelector("[data-preset=first]")?.disabled === false`)
	pagetest.Eval[bool](b, `document.querySelector("[data-preset=first]").click() ?? true`)
	const shown = `location.hash === %q && document.querySelector("table.figures")?.innerText.includes("v9_cohort")`
	b.Until(fmt.Sprintf(shown, "#/run/"+runs[0].ID))
	b.Quiet()
}

// At the root of a server, a cell that is run in the browser has the recorded outcome; the lock in
// this test uses a library with timers. A cell that needs a database reports that it cannot be run.
func cellsRun(t *testing.T, b *pagetest.Tab, dir string) {
	address := serveBelow(t, dir, "")
	for _, cell := range []struct{ at, says string }{
		{"check-then-delete/rueidislock", "the same"},
		{"mixed-strategies/v4_lua", "cannot run in a browser"},
	} {
		b.Visit(address, "?lang=en#/break/"+cell.at, pagetest.Look{Width: 1280, Height: 720, Scheme: "dark"})
		b.Until(fmt.Sprintf(`location.hash.startsWith("#/break/%s") && `+
			`document.querySelector("#cell-title")?.innerText.includes(%q) && `+
			`document.querySelector(".again button") !== null`,
			cell.at, strings.Split(cell.at, "/")[1]))
		pagetest.Eval[bool](b, `new MutationObserver((changes) => changes.flatMap(({ addedNodes }) => [...addedNodes])
			.forEach((node) => node.matches?.(".labloading") && (window.notice = node.parentElement.localName)))
			.observe(document.body, { childList: true, subtree: true }) ?? true`)
		pagetest.Eval[bool](b, `document.querySelector(".again button").click() ?? true`)
		b.Until(`document.querySelector(".again [role=status]")?.innerText > ""`)
		if got := pagetest.Eval[string](b,
			`document.querySelector(".again [role=status]").innerText`); !strings.Contains(got, cell.says) {
			t.Errorf("%s: it says %q, want %q in it", cell.at, got, cell.says)
		}
	}
	if on := pagetest.Eval[string](b, `window.notice ?? "nowhere"`); on != "dialog" {
		t.Errorf("the notice that the lab is being loaded is on: %s; the cell's dialog covers everything else", on)
	}
	b.Keep("site-again")
	b.Quiet()
}

// Without the source code, -site fails with an error that says what is needed.
func TestSiteNeedsTheSource(t *testing.T) {
	t.Chdir(t.TempDir())
	if _, errs := runs(t, exitFailed, "-site", "site"); !strings.Contains(errs, site.ErrSource.Error()) {
		t.Error(errs)
	}
	if _, err := os.Stat("site"); err == nil {
		t.Error("there is a folder all the same")
	}
}
