//go:build system

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/chromedp"

	"oversell/internal/bench/report"
	"oversell/internal/bench/report/page/pagetest"
)

// The page of a real bench draws every plot, asks for nothing, and gives its
// figures away in a form that can be compared.
func TestPageOfARepeatedBench(t *testing.T) {
	t.Parallel()
	b := pagetest.New(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "report.html")
	got := try(t, small("-strategies", "none,v6_watchdog", "-conditions", "calm,slow", "-repeat", "2", "-html", file)...)
	if got.code != exitExpected || got.stderr != "" {
		t.Fatalf("exit code %d, stderr %q", got.code, got.stderr)
	}
	b.Open(file, "", pagetest.Look{Width: 1280, Height: 900, Scheme: "light"})
	drawn := b.Plots()
	if len(drawn) != 2*4 {
		t.Errorf("%d plots, want 4 of each of 2 conditions", len(drawn))
	}
	for i, ok := range drawn {
		if !ok {
			t.Errorf("nothing is drawn in plot %d", i+1)
		}
	}
	b.Keep("bench")

	pagetest.Call(b, browser.SetDownloadBehavior, browser.SetDownloadBehaviorParams{
		Behavior: browser.SetDownloadBehaviorBehaviorAllow, DownloadPath: dir,
		BrowserContextID: chromedp.FromContext(b.Context).BrowserContextID,
	})
	pagetest.Eval[any](b, `document.getElementById("download").click()`)
	loaded := await(t, filepath.Join(dir, "oversell-*.json"))
	report, err := read(loaded)
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Rows) != 2*2*2 || report.Rows[0].Timeline == nil || report.Rows[0].Percentiles.Wait == nil || report.Manifest.ID == "" {
		t.Errorf("the figures are %+v", report)
	}
	if got := tryCompare(loaded); got.code != exitExpected {
		t.Errorf("they cannot be compared: %s", got.stderr)
	}
	b.Quiet()
}

// await waits until a file is there that matches, and returns its path.
func await(t *testing.T, pattern string) string {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			return found[0]
		}
	}
	t.Fatalf("no %s", pattern)
	return ""
}

// The page is written as the JSON is, and neither where the other cannot be.
func TestPageThatCannotBeWrittenIsSaidAtOnce(t *testing.T) {
	dir := t.TempDir()
	got := try(t, "-json", filepath.Join(dir, "a.json"), "-html", filepath.Join(dir, "no", "such", "folder"))
	if got.code != exitFailed || got.stdout != "" || !strings.HasPrefix(got.stderr, "bench: -html: ") || strings.Count(got.stderr, "\n") != 1 {
		t.Errorf("exit code %d, %q, %q", got.code, got.stdout, got.stderr)
	}
}

func TestPageWithoutABrowser(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.html")
	got := try(t, small("-strategies", "v6_watchdog", "-conditions", "calm", "-json", "-", "-html", file)...)
	if got.code != exitExpected {
		t.Fatalf("exit code %d, stderr %q", got.code, got.stderr)
	}
	if _, err := report.Read(strings.NewReader(got.stdout)); err != nil {
		t.Errorf("standard output is not the JSON alone: %v", err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"300 concurrent buyers, 100 units", "v6_watchdog", "uPlot", `"rows":[`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is not in the page", want)
		}
	}
}
