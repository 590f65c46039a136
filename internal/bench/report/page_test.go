package report_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"oversell/internal/page/texts"
	"oversell/internal/present"
)

// All text on the page is Chinese, except names.
func TestPageInChinese(t *testing.T) {
	unseen := regexp.MustCompile(`(?s)<(script|style).*?</(script|style)>|<meta[^>]*>|<code>.*?</code>`)
	attribute := regexp.MustCompile(`aria-label="([^"]*)"`)
	tag := regexp.MustCompile(`<[^>]*>`)
	word := regexp.MustCompile(`\b[A-Za-z]\w+`)
	more := regexp.MustCompile(`^(oversell|Go|JavaScript|deduct|hold|cache|lock)$`)
	for name, r := range everything() {
		r.Manifest.ID, r.Manifest.Flags = "0a1b2c3d", []string{"-redis=embedded"}
		l := texts.Listen(texts.OfBench)
		var b strings.Builder
		must(t, r.WriteHTML(&b, present.Style{Language: l}))
		for _, said := range l.Untold {
			if names.MatchString(said) || more.MatchString(said) || said == r.Manifest.Redis || said == r.Manifest.DB {
				continue
			}
			t.Errorf("%s: not translated: %s", name, said)
		}
		if !strings.Contains(b.String(), `<html lang="zh-CN">`) || !strings.Contains(b.String(), `"Latency":"延迟"`) {
			t.Errorf("%s: the page does not say that it is in Chinese, or its scripts are not", name)
		}
		if !strings.Contains(b.String(), `"verdict":"`+string(r.Rows[0].Verdict)+`"`) {
			t.Errorf("%s: the figures are not as in JSON", name)
		}
		seen := unseen.ReplaceAllString(b.String(), " ")
		var labels strings.Builder
		for _, m := range attribute.FindAllStringSubmatch(seen, -1) {
			labels.WriteString(m[1] + "\n")
		}
		for _, w := range word.FindAllString(tag.ReplaceAllString(seen, " ")+labels.String(), -1) {
			if !names.MatchString(w) && !more.MatchString(w) {
				t.Errorf("%s: %q is left", name, w)
			}
		}
	}
}

// TestScriptsSayWhatIsTranslated finds string literals in the scripts that are not passed to say.
func TestScriptsSayWhatIsTranslated(t *testing.T) {
	for _, file := range []string{"page.js", "charts.js"} {
		script, err := os.ReadFile(filepath.Join("assets", file))
		must(t, err)
		text := regexp.MustCompile(`\bsay\("[^"]+"`).ReplaceAllString(string(script), "")
		for _, m := range regexp.MustCompile(`"([A-Za-z]+ [A-Za-z][^"]*)"`).FindAllStringSubmatch(text, -1) {
			if m[1] != "small readout" {
				t.Errorf("%s: %q is not said in the language of the page", file, m[1])
			}
		}
	}
}

func TestPageHasTheFaults(t *testing.T) {
	var b strings.Builder
	must(t, chaotic().WriteHTML(&b, present.Style{}))
	for _, want := range []string{"none, seed 77: acknowledged 123", "<td>redis-black-hole</td>", "<td>shop 2</td>",
		"<td>never (!)</td>", "<td>0.25, 0.20 of it stalled</td>"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q", want)
		}
	}
}
