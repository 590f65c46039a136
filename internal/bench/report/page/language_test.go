//go:build system

package page_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"oversell/internal/bench/report"
	"oversell/internal/bench/report/page"
	"oversell/internal/bench/report/page/pagetest"
	"oversell/internal/catalog"
	"oversell/internal/figures"
	"oversell/internal/page/texts"
	"oversell/internal/present"
)

// kinds returns one report of each kind, by name.
func kinds() map[string]report.Report {
	open, reads, many := measured(1), measured(1), measured(1)
	open.Manifest.Rate, open.Manifest.Duration, open.Manifest.InFlight = 500, "10s", 1000
	open.Manifest.Seed, open.Manifest.Targets = 7, []string{"http://127.0.0.1:1"}
	reads.Manifest.Workload = "cache"
	many.Manifest.Items, many.Manifest.Skew, many.Manifest.InFlight = 2, "zipf:1.1", 2000
	for i := range open.Rows {
		open.Rows[i].Open = &report.Open{Planned: 5000, Sent: 5000, AchievedRate: 500}
		reads.Rows[i].Workload, reads.Rows[i].DBLoads = catalog.Cache, int64(i+1)
		many.Rows[i].Items = report.NewItems([]report.Item{{Number: 1, Verdict: figures.Oversold, Stock: 1, Sold: 2,
			Oversold: 1}, {Number: 2, Verdict: figures.OK}})
	}
	return map[string]report.Report{"repeated": measured(3), "open": open, "reads": reads, "many": many,
		"chaos": chaotic(), "holds": withHolds()}
}

// names matches the English words that the visible text of a Chinese page may contain.
var names = regexp.MustCompile(`^(none|local|watch|v\d_\w+|h3_claim|calm|crash|chaos|redis|Redis|miniredis|` +
	`SQLite|go1|Go|linux|amd64|line|2ms|p\d+|` +
	`uniform|zipf|JSON|JavaScript|hold|deduct|cache|run|bench|compare|0a1b2c3d|oversell|v0|20T12|00Z|` +
	`embedded|repeat|black|hole|shop|kill|http|in|flight)$`)

// All text on the page is Chinese, except names.
func TestPageInChinese(t *testing.T) {
	unseen := regexp.MustCompile(`(?s)<(script|style).*?</(script|style)>|<meta[^>]*>|<code>.*?</code>`)
	attribute := regexp.MustCompile(`aria-label="([^"]*)"`)
	tag := regexp.MustCompile(`<[^>]*>`)
	word := regexp.MustCompile(`\b[A-Za-z]\w+`)
	for name, r := range kinds() {
		l := texts.Listen(texts.OfBench)
		var b strings.Builder
		if err := page.HTML(&b, r, present.Style{Language: l}); err != nil {
			t.Fatal(err)
		}
		for _, said := range l.Untold {
			if names.MatchString(said) || said == r.Manifest.Redis || said == r.Manifest.DB {
				continue
			}
			t.Errorf("%s: not translated: %s", name, said)
		}
		if !strings.Contains(b.String(), `<html lang="zh-CN">`) || !strings.Contains(b.String(), `"Latency":"延迟"`) {
			t.Errorf("%s: the page does not say that it is in Chinese, or its scripts are not", name)
		}
		if !strings.Contains(b.String(), `"verdict":"oversold"`) {
			t.Errorf("%s: the figures are not as in JSON", name)
		}
		seen := unseen.ReplaceAllString(b.String(), " ")
		var labels strings.Builder
		for _, m := range attribute.FindAllStringSubmatch(seen, -1) {
			labels.WriteString(m[1] + "\n")
		}
		for _, w := range word.FindAllString(tag.ReplaceAllString(seen, " ")+labels.String(), -1) {
			if !names.MatchString(w) {
				t.Errorf("%s: %q is left", name, w)
			}
		}
	}
}

// TestScriptsSayWhatIsTranslated finds string literals in the scripts that are not passed to say.
func TestScriptsSayWhatIsTranslated(t *testing.T) {
	for _, file := range []string{"page.js", "charts.js"} {
		script, err := os.ReadFile(filepath.Join("assets", file))
		if err != nil {
			t.Fatal(err)
		}
		text := regexp.MustCompile(`\bsay\("[^"]+"`).ReplaceAllString(string(script), "")
		for _, m := range regexp.MustCompile(`"([A-Za-z]+ [A-Za-z][^"]*)"`).FindAllStringSubmatch(text, -1) {
			if m[1] != "small readout" {
				t.Errorf("%s: %q is not said in the language of the page", file, m[1])
			}
		}
	}
}

// TestChinesePage opens two Chinese pages on a phone: one with every part that a page may have, and
// one of an open load, whose table is the widest.
func TestChinesePage(t *testing.T) {
	b := pagetest.New(t)
	all := withHolds()
	all.Manifest.Items, all.Manifest.Skew, all.Manifest.Seed = 2, "zipf:1.1", 7
	all.Rows[0].Items, all.Rows[1].Chaos = kinds()["many"].Rows[0].Items, chaotic().Rows[0].Chaos
	for name, r := range map[string]report.Report{"all": all, "open": kinds()["open"]} {
		var out strings.Builder
		if err := page.HTML(&out, r, present.Style{Language: texts.Listen(texts.OfBench)}); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "report.html")
		if err := os.WriteFile(path, []byte(out.String()), 0o600); err != nil {
			t.Fatal(err)
		}
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
