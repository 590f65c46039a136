//go:build system

package page_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"oversell/internal/backend/backendtest"
	"oversell/internal/bench/report"
	"oversell/internal/bench/report/page"
	"oversell/internal/bench/report/page/pagetest"
	"oversell/internal/catalog"
	"oversell/internal/figures"
	"oversell/internal/message"
	"oversell/internal/present"
)

// TestMain lets the tests share one browser.
func TestMain(m *testing.M) {
	done := pagetest.Keep()
	os.Exit(backendtest.Main(m, func() error {
		done()
		return nil
	}))
}

// There are more strategies than colours.
var strategies = []string{"none", "local", "watch", "v1_setnx", "v2_ttl", "v3_uuid", "v4_lua", "v5_reentrant",
	"v6_watchdog", "v7_queue"}

// measured returns a hand-made report with the given number of runs of each row.
func measured(runs int) report.Report {
	r := report.Report{Manifest: report.Manifest{
		Format: 1, ID: "0a1b2c3d", Started: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC),
		Redis: "miniredis 2.40.0 (embedded)", DB: "SQLite 3.41.2 (embedded)", Go: "go1.26.8", OS: "linux/amd64",
		CPUs: 2, Version: "v0.1.0",
		Requests: 5000, Stock: 1000, Workload: "deduct", Instances: 2, TTL: "1s", Work: "400µs", Wait: "13s",
		Retry: "line:2ms",
		Keys:  "none", SecondLook: true, Repeat: runs,
		Flags: []string{"-redis=embedded", fmt.Sprintf("-repeat=%d", runs)},
	}}
	for run := 1; run <= runs; run++ {
		for _, c := range []catalog.Condition{catalog.Calm, catalog.Crash} {
			for i, strategy := range strategies {
				r.Rows = append(r.Rows, row(strategy, c, i, run))
			}
		}
	}
	return r
}

func row(strategy string, c catalog.Condition, i, run int) report.Row {
	speed := float64(i+1) * (1 + float64(run)/20)
	r := report.Row{
		Asked: report.Asked{Key: report.Key{Strategy: strategy, Condition: c, Workload: catalog.Deduct}, Repeat: run,
			Requests: 5000, Stock: 1000},
		Load: report.Load{
			SoldOut: 4000, Served: 1000, MaxHolders: 1,
			P50: 100 * speed, P95: 200 * speed, P99: 250 * speed, Max: 300 * speed, Wall: 300 * speed,
			Throughput: 5000 / speed, RedisCommands: new(2.0),
			Percentiles: &report.Percentiles{P: []float64{0, 25, 50, 75, 90, 95, 99, 100}},
			Timeline:    &report.Timeline{Bin: 10},
		},
		Audit: report.Audit{Sold: 1000}, Verdict: figures.OK, Expected: true,
	}
	for n := range r.Percentiles.P {
		r.Percentiles.Latency = append(r.Percentiles.Latency, float64(n)*40*speed)
		r.Percentiles.Wait = append(r.Percentiles.Wait, float64(n)*30*speed)
	}
	for n := range 20 * (i + 1) {
		r.Timeline.Served = append(r.Timeline.Served, int64(10+n%7*run))
	}
	switch strategy {
	case "none":
		r.Sold, r.Served, r.SoldOut, r.MaxHolders = 5000, 5000, 0, 2300
		r.Oversold, r.OversoldPossible, r.LostUpdates, r.Verdict = 4000-int64(run)*100, 4000, 4900, figures.Oversold
	case "v1_setnx":
		if c == catalog.Crash {
			r.Undersold, r.Verdict = 700+int64(run), figures.Stuck
		}
	case "v4_lua":
		if run == 2 {
			r.Verdict, r.Expected = figures.Drift, false
			r.Differ(message.Newf("verdict %s instead of %s", message.Text("drift"), message.Text("ok")))
		}
	}
	return r
}

// file writes the page to a file.
func file(t *testing.T, r report.Report) string {
	t.Helper()
	var b strings.Builder
	if err := page.HTML(&b, r, present.Style{}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestPage reads the page on a phone in the dark theme and on a desktop in the light theme. Then it
// hides a strategy, shows it again, and reads values off the charts.
func TestPage(t *testing.T) {
	b := pagetest.New(t)
	path := file(t, measured(3))
	for _, look := range []pagetest.Look{
		{Width: 400, Height: 900, Scheme: "dark"}, {Width: 1280, Height: 900, Scheme: "light"},
	} {
		b.Open(path, "", look)
		drawn := b.Plots()
		if len(drawn) != 2*4 {
			t.Errorf("%s: %d plots, want 4 of each of 2 conditions", look.Scheme, len(drawn))
		}
		for i, ok := range drawn {
			if !ok {
				t.Errorf("%s: nothing is drawn in plot %d", look.Scheme, i+1)
			}
		}
		b.Readable(look.Scheme)
		b.Keep(look.Scheme)
	}
	hideAndShow(t, b)
	b.Quiet()
}

// chaotic returns a report with a row under chaos.
func chaotic() report.Report {
	r := measured(1)
	r.Rows = r.Rows[:1]
	again := 0.31
	r.Manifest.Seed, r.Rows[0].Condition = 7, catalog.Chaos
	r.Rows[0].Chaos = &report.Chaos{Seed: 7, Acknowledged: 900, Faults: []report.Fault{
		{Kind: "redis-black-hole", Victim: "all shops", At: 1.25, For: 2.5, Lasted: 2.51, Again: &again, Limit: 2,
			From: "end"},
		{Kind: "shop-kill", Victim: "shop 2", Message: message.Newf("shop %d", 2), At: 5, For: 1, Lasted: 1.1,
			SoldIn: 20, Limit: 5, From: "fault"},
	}}
	return r
}

// withHolds returns a report with two workloads.
func withHolds() report.Report {
	r := measured(1)
	held := r.Manifest
	held.Workload, held.Requests, held.Stock, held.TTL = "hold", 400, 200, "1s"
	r.Manifest.Also = []report.Manifest{held}
	r.Rows = append(r.Rows, report.Row{
		Asked: report.Asked{Key: report.Key{Strategy: "h3_claim", Condition: catalog.Calm, Workload: catalog.Hold},
			Requests: 400, Stock: 200},
		Audit:   report.Audit{Sold: 200},
		Verdict: figures.OK, Expected: true, Held: &report.Held{Holds: 250, Captures: 220, Refunds: 20},
	})
	return r
}

func TestPageHasTheFaults(t *testing.T) {
	var b strings.Builder
	if err := page.HTML(&b, chaotic(), present.Style{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"none, seed 7: acknowledged 900", "<td>redis-black-hole</td>", "<td>shop 2</td>",
		"<td>never (!)</td>", "<td>0.31</td>"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q", want)
		}
	}
}

// A plot without figures, or with only zeros, is left out; the other plots are shown.
func TestPageOfLittle(t *testing.T) {
	b := pagetest.New(t)
	r := measured(1)
	r.Rows = r.Rows[:1]
	r.Rows[0].Percentiles, r.Rows[0].Timeline = &report.Percentiles{P: []float64{0, 100}, Latency: []float64{0, 0}}, nil
	b.Open(file(t, r), "", pagetest.Look{Width: 400, Height: 900, Scheme: "dark"})
	if drawn := b.Plots(); len(drawn) != 1 {
		t.Errorf("%d plots, want the units", len(drawn))
	}
	b.Quiet()
}

// hideAndShow hides a strategy, shows it again, and reads values off the charts.
func hideAndShow(t *testing.T, b *pagetest.Tab) {
	t.Helper()
	picture := func() string {
		return pagetest.Eval[string](b,
			`[...document.querySelectorAll("figure canvas")].map((c) => c.toDataURL()).join()`)
	}
	all := picture()
	for _, want := range []string{"false", "true"} {
		pagetest.Eval[any](b, `document.querySelector(".strategies button").click()`)
		b.Plots()
		if got := pagetest.Eval[string](b,
			`document.querySelector(".strategies button").getAttribute("aria-pressed")`); got != want {
			t.Errorf("aria-pressed is %s, want %s", got, want)
		}
		if (picture() == all) != (want == "true") {
			t.Errorf("aria-pressed is %s, and the picture is the same: %v", want, want == "false")
		}
	}
	// Arrow keys move from value to value in a chart.
	pagetest.Eval[any](b, `document.querySelectorAll(".chart")[1].focus()`)
	for range 3 {
		pagetest.Eval[any](b,
			`document.activeElement.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowRight", cancelable: true}))`)
	}
	b.Until(`document.querySelectorAll(".readout")[1].textContent.startsWith("p50: none 88 (84..92) · local 176")`)
}

// hostile is a text that a shop or a flag might contain.
const hostile = `</script><script>window.pwned = 1</script><img src=x onerror="window.pwned = 1"><!--'"` +
	"`${window.pwned = 1}`"

func TestPageEscapes(t *testing.T) {
	r := measured(2)
	m := &r.Manifest
	m.Redis, m.DB, m.Go, m.OS, m.Version, m.Retry, m.ID, m.Flags = hostile, hostile, hostile, hostile, hostile, hostile,
		hostile, []string{hostile}
	for i := range r.Rows {
		row := &r.Rows[i]
		row.Strategy += hostile
		row.Condition += hostile
		row.Expected = false
		row.Differ(message.Text(hostile))
		row.Reasons = map[string]int64{hostile: 1}
	}
	path := file(t, r)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "<script>window") || strings.Contains(string(text), "<img") {
		t.Error("a text of the report is markup in the page")
	}
	b := pagetest.New(t)
	b.Open(path, "", pagetest.Look{Width: 1280, Height: 900, Scheme: "light"})
	b.Plots()
	if pagetest.Eval[bool](b, `"pwned" in window`) {
		t.Error("a text of the report was run")
	}
	if n := pagetest.Eval[int](b,
		`document.querySelectorAll("img, script:not([type='application/json']):not([type=module])").length`); n != 0 {
		t.Errorf("%d elements that the page has not", n)
	}
	b.Quiet()
}
