//go:build system

package report_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"oversell/internal/backend/backendtest"
	"oversell/internal/bench/report"
	"oversell/internal/bench/report/pagetest"
	"oversell/internal/catalog"
	"oversell/internal/figures"
	"oversell/internal/message"
	"oversell/internal/page/texts"
	"oversell/internal/present"
)

func TestMain(m *testing.M) { os.Exit(backendtest.Main(m, pagetest.Close)) }

// There are more strategies than colours.
var strategies = []string{"none", "local", "watch", "v1_setnx", "v2_ttl", "v3_uuid", "v4_lua", "v5_reentrant",
	"v6_watchdog", "v7_queue"}

// plotted returns a report with the given number of runs of each row, and figures to plot.
func plotted(runs int) report.Report {
	r := report.Report{Manifest: sale().Manifest}
	r.Manifest.ID, r.Manifest.Repeat, r.Manifest.Flags = "0a1b2c3d", runs, []string{fmt.Sprintf("-repeat=%d", runs)}
	for run := 1; run <= runs; run++ {
		for _, c := range []catalog.Condition{catalog.Calm, catalog.Crash} {
			for i, strategy := range strategies {
				r.Rows = append(r.Rows, plottedRow(strategy, c, i, run))
			}
		}
	}
	return r
}

func plottedRow(strategy string, c catalog.Condition, i, run int) report.Row {
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
			r.Differ(instead(figures.Drift))
		}
	}
	return r
}

// pageFile writes the page of a report to a file.
func pageFile(t *testing.T, r report.Report, s present.Style) string {
	t.Helper()
	var b strings.Builder
	must(t, r.WriteHTML(&b, s))
	path := filepath.Join(t.TempDir(), "report.html")
	must(t, os.WriteFile(path, []byte(b.String()), 0o600))
	return path
}

// TestPage reads the page on a phone in the dark theme and on a desktop in the light theme. Then it
// hides a strategy, shows it again, and reads values off the charts.
func TestPage(t *testing.T) {
	b := pagetest.New(t)
	path := pageFile(t, plotted(3), present.Style{})
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

// A plot without figures, or with only zeros, is left out; the other plots are shown.
func TestPageOfLittle(t *testing.T) {
	b := pagetest.New(t)
	r := plotted(1)
	r.Rows = r.Rows[:1]
	r.Rows[0].Percentiles, r.Rows[0].Timeline = &report.Percentiles{P: []float64{0, 100}, Latency: []float64{0, 0}}, nil
	b.Open(pageFile(t, r, present.Style{}), "", pagetest.Look{Width: 400, Height: 900, Scheme: "dark"})
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
	r := plotted(2)
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
	path := pageFile(t, r, present.Style{})
	text, err := os.ReadFile(path)
	must(t, err)
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

// TestChinesePage opens two Chinese pages on a phone: one with every part that a page may have, and
// one of an open load, whose table is the widest.
func TestChinesePage(t *testing.T) {
	b := pagetest.New(t)
	all, holds, open := plotted(1), both(), plotted(1)
	all.Manifest.Items, all.Manifest.Skew, all.Manifest.Seed = 2, "zipf:1.1", 7
	all.Rows[0].Items, all.Rows[1].Chaos = everything()["many"].Rows[0].Items, chaotic().Rows[0].Chaos
	all.Manifest.Also, all.Rows = holds.Manifest.Also, append(all.Rows, holds.Rows[len(sale().Rows):]...)
	open.Manifest = opened().Manifest
	for i := range open.Rows {
		open.Rows[i].Open = opened().Rows[0].Open
	}
	for name, r := range map[string]report.Report{"all": all, "open": open} {
		path := pageFile(t, r, present.Style{Language: texts.Listen(texts.OfBench)})
		b.Open(path, "", pagetest.Look{Width: 400, Height: 900, Scheme: "light"})
		for i, ok := range b.Plots() {
			if !ok {
				t.Errorf("%s: nothing is drawn in plot %d", name, i+1)
			}
		}
		b.Readable(name)
		b.Keep("zh-" + name)
		if got := pagetest.Eval[string](b,
			`document.querySelector("figcaption").textContent`); !regexp.MustCompile(`^\p{Han}`).MatchString(got) {
			t.Errorf("%s: a plot is called %q", name, got)
		}
	}
	b.Quiet()
}
