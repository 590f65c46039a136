package page_test

import (
	"fmt"
	"net/http"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"oversell/internal/bench"
	"oversell/internal/catalog"
	"oversell/internal/figures"
	"oversell/internal/holds"
	"oversell/internal/holds/payfault"
	"oversell/internal/lab/anomalies"
	"oversell/internal/page"
	"oversell/internal/page/runs"
	"oversell/internal/page/texts"
	"oversell/internal/payment"
)

// languages are the languages of the page. The shop's texts are in the first one; the others have
// translations of the shop's sentences. The shop's TestPageTellsEverythingInChinese checks that
// every sentence of the shop has one.
var languages = []string{"en", "zh"}

// byName are the prefixes of texts whose English comes from the shop, so that only the other
// languages have them in a file.
var byName = []string{"anomaly.", "strategy."}

func isByName(key string) bool {
	named := func(prefix string) bool { return strings.HasPrefix(key, prefix) }
	return key != "strategy.adds" && key != "strategy.breaks" && slices.ContainsFunc(byName, named)
}

// readAsset returns a file that the page serves, by its name below page.
func readAsset(t *testing.T, name string) string {
	t.Helper()
	files, err := page.Files()
	must(t, err)
	text, ok := files[path.Join("page", name)]
	if !ok {
		t.Fatalf("there is no %s", name)
	}
	return string(text)
}

func readTexts(t *testing.T, language string) map[string]string {
	t.Helper()
	all, err := texts.Read(language)
	must(t, err)
	return all
}

// These patterns find the texts that the page names: in its markup, or in a module, in full or by a
// prefix.
var (
	inMarkup  = regexp.MustCompile(`data-(?:text|label)="([^"]+)"`)
	inModule  = regexp.MustCompile(`["'` + "`" + `]([a-z]+(?:\.[a-z0-9_]+)+)["'` + "`" + `]`)
	beginning = regexp.MustCompile("`([a-z]+(?:\\.[a-z]+)*\\.)\\$\\{")
	inElement = regexp.MustCompile(`\bel\(("[^"]*"|` + "`[^`]*`)") // a tag and its classes, which are no names of texts
	braces    = regexp.MustCompile(`\{\w+\}`)
)

// uses returns the texts that the page names in full, and the prefixes by which it names others.
func uses(t *testing.T) (keys, beginnings []string) {
	t.Helper()
	for _, m := range inMarkup.FindAllStringSubmatch(readAsset(t, "../index.html"), -1) {
		keys = append(keys, m[1])
	}
	modules, err := filepath.Glob("assets/*.js")
	if err != nil || len(modules) == 0 {
		t.Fatal(modules, err)
	}
	for _, module := range modules {
		text := inElement.ReplaceAllString(readAsset(t, filepath.Base(module)), "")
		for _, m := range inModule.FindAllStringSubmatch(text, -1) {
			keys = append(keys, m[1])
		}
		for _, m := range beginning.FindAllStringSubmatch(text, -1) {
			beginnings = append(beginnings, m[1])
		}
	}
	return keys, beginnings
}

// Every language has the same texts, with the same placeholders, and these are exactly the texts
// that the page names.
func TestTextsAreComplete(t *testing.T) {
	english := readTexts(t, languages[0])
	for _, language := range languages[1:] {
		texts := readTexts(t, language)
		for key, text := range english {
			there, ok := texts[key]
			if !ok || there == "" {
				t.Errorf("%s has no text %s", language, key)
			}
			if want, got := inBraces(text), inBraces(there); !slices.Equal(want, got) {
				t.Errorf("%s: %s has the values %v, want %v", language, key, got, want)
			}
		}
		for key := range texts {
			if _, ok := english[key]; !ok && !isByName(key) {
				t.Errorf("%s has %s, and %s has not", language, key, languages[0])
			}
		}
	}
	keys, beginnings := uses(t)
	for _, key := range keys {
		if _, ok := english[key]; !ok && isText(english, key) {
			t.Errorf("the page names the text %s, which is not there", key)
		}
	}
	for _, b := range beginnings {
		if !isByName(b) && !hasKey(english, b) {
			t.Errorf("the page names texts that begin with %s, and there are none", b)
		}
	}
	for key := range english {
		named := func(beginning string) bool { return strings.HasPrefix(key, beginning) }
		if !slices.Contains(keys, key) && !slices.ContainsFunc(beginnings, named) {
			t.Errorf("the text %s is named nowhere", key)
		}
	}
}

// isText reports whether a word with dots can be the name of a text, judging by its first part.
// Other words with dots are names of files.
func isText(texts map[string]string, word string) bool {
	first, _, _ := strings.Cut(word, ".")
	return hasKey(texts, first+".")
}

// hasKey reports whether a key begins with the prefix.
func hasKey(texts map[string]string, prefix string) bool {
	for key := range texts {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}

func inBraces(text string) []string {
	found := braces.FindAllString(text, -1)
	slices.Sort(found)
	return slices.Compact(found)
}

// Every language but English has the texts of the lab and the catalog.
func TestNamesAreTranslated(t *testing.T) {
	for _, language := range languages[1:] {
		texts := readTexts(t, language)
		want := make(map[string]bool)
		for _, s := range anomalies.All() {
			want["anomaly."+s.Name+".title"] = true
			want["anomaly."+s.Name+".sentence"] = true
			want["anomaly."+s.Name+".sequence"] = true
		}
		for _, s := range slices.Concat(anomalies.Holds().Scenarios, anomalies.Behind().Scenarios) {
			want["anomaly."+s.Name+".title"] = true // only reports have its other texts, and these have forms
		}
		for _, s := range catalog.Strategies() {
			want["strategy."+s.Name+".adds"] = true
			want["strategy."+s.Name+".breaks"] = true
		}
		for _, s := range catalog.HoldStages() {
			want["strategy."+s.Name+".adds"] = true
			want["strategy."+s.Name+".breaks"] = true
		}
		for key := range want {
			if texts[key] == "" {
				t.Errorf("%s has no %s", language, key)
			}
		}
		for key := range texts {
			if isByName(key) && !want[key] {
				t.Errorf("%s has %s, which is nobody's", language, key)
			}
		}
	}
	for _, language := range languages {
		texts := readTexts(t, language)
		for _, s := range anomalies.All() {
			if texts["anomaly."+s.Name+".title"] == "" {
				t.Errorf("%s has no title of %s", language, s.Name)
			}
		}
		for _, key := range namesOfValues() {
			if texts[key] == "" {
				t.Errorf("%s has no %s", language, key)
			}
		}
	}
}

// namesOfValues returns the names of texts that are made from values in the code.
func namesOfValues() (keys []string) {
	keys = append(keys, each(catalog.Conditions(), "condition.", "condition.%s.about")...)
	keys = append(keys, each([]runs.Phase{runs.Setup, runs.Load, runs.Audit, runs.Judged}, "live.phase.")...)
	invariants := []runs.Invariant{runs.StockHolds, runs.OneHolder, runs.Served}
	keys = append(keys, each(invariants, "live.invariant.", "stage.invariant.")...)
	faults := []bench.FaultKind{bench.Killed, bench.Stopped, bench.CutOff, bench.Slow, bench.Late}
	keys = append(keys, each(faults, "stage.fault.", "stage.fault.%s.for")...)
	states := []runs.State{runs.Running, runs.Stopping, runs.Done, runs.Stopped, runs.Failed}
	keys = append(keys, each(states, "run.state.")...)
	keys = append(keys, each(payfault.Kinds(), "lane.fault.", "lane.fault.%s.about")...)
	payments := []payment.Status{
		payment.Authorised, payment.Declined, payment.Captured, payment.Cancelled, payment.Refunded,
	}
	keys = append(keys, each(payments, "payment.")...)
	keys = append(keys, each([]holds.Status{holds.Held, holds.Paid, holds.Expired, holds.Released}, "seats.unit.")...)
	wrong := []figures.Verdict{
		figures.Oversold, figures.Drift, figures.Undersold, figures.Stuck, figures.Unknown, figures.NotComparable,
	}
	return append(append(keys, each(wrong, "verdict.", "stage.verdict.")...), "verdict."+string(figures.OK))
}

// each puts each value into each form. A form without %s gets the value at its end.
func each[T ~string](values []T, forms ...string) (keys []string) {
	for _, v := range values {
		for _, form := range forms {
			if !strings.Contains(form, "%s") {
				form += "%s"
			}
			keys = append(keys, fmt.Sprintf(form, v))
		}
	}
	return keys
}

// maxFirstPaint is the largest allowed size, in bytes, of the files loaded before the first paint.
const maxFirstPaint = 100_000

var stylesheets = regexp.MustCompile(`<link rel="stylesheet" href="page/([^"]+)">`)

var imports = regexp.MustCompile(`(?m)^import [^;]* from "\./([^"]+)";`)

// The page loads little before the first paint, and loads a part's module only with the part.
func TestFirstPaintIsSmall(t *testing.T) {
	p := newPage(t, page.Config{})
	for _, language := range languages {
		files := []string{"../index.html", "theme.js", "icon.svg", "texts/" + language + ".json", "app.js"}
		for _, m := range stylesheets.FindAllStringSubmatch(readAsset(t, "../index.html"), -1) {
			files = append(files, m[1])
		}
		for i := 0; i < len(files); i++ {
			if path.Ext(files[i]) != ".js" {
				continue
			}
			for _, m := range imports.FindAllStringSubmatch(readAsset(t, files[i]), -1) {
				if !slices.Contains(files, m[1]) {
					files = append(files, m[1])
				}
			}
		}
		size := 0
		for _, name := range files {
			where := strings.TrimSuffix(path.Join("/page", name), "index.html")
			w := get(p, where, "Accept-Encoding", "gzip")
			if w.Code != http.StatusOK {
				t.Errorf("%s: %d", where, w.Code)
			}
			size += w.Body.Len()
		}
		if size > maxFirstPaint {
			t.Errorf("%s: the first paint loads %d bytes; want at most %d: %v", language, size, maxFirstPaint, files)
		}
		for _, part := range []string{
			"run.js", "break.js", "play.js", "read.js", "shop.js", "counter.js", "seats.js", "plot.js",
		} {
			if slices.Contains(files, part) {
				t.Errorf("%s is loaded at once, and not when its part is opened", part)
			}
		}
	}
}
