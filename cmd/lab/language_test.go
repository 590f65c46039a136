package main

import (
	"regexp"
	"strings"
	"testing"

	"oversell/internal/lab"
	pagetexts "oversell/internal/page/texts"
)

var han = regexp.MustCompile(`\p{Han}`)

// chinese returns the texts in Chinese.
func chinese(t *testing.T) *pagetexts.Language {
	t.Helper()
	language, err := pagetexts.In("zh")
	if err != nil {
		t.Fatal(err)
	}
	return language
}

// Everything that a search and the list say is translated, but for names and commands.
func TestSearchAndListInChinese(t *testing.T) {
	out, _ := runs(t, exitExpected, "-search", "none,v1", "-lang", "zh")
	command := regexp.MustCompile(`go run .*|http:.*|步：.*|[\d.]+m?s\b`)
	name := regexp.MustCompile(`^(none|v1_setnx|oversell|overlap|foreign-delete|self-wait|stuck)$`)
	for _, word := range regexp.MustCompile(`\b[A-Za-z][\w-]+`).FindAllString(command.ReplaceAllString(out, ""), -1) {
		if !name.MatchString(word) {
			t.Errorf("%q is left in\n%s", word, out)
		}
	}
	for _, goal := range lab.Goals() {
		if told := chinese(t).Told(meaning(goal)); !strings.Contains(told, "：") {
			t.Errorf("%s is told as %q", goal, told)
		}
	}
	list, _ := runs(t, exitExpected, "-list", "-lang", "zh")
	for line := range strings.Lines(list) {
		if !han.MatchString(line) {
			t.Errorf("not translated: %s", line)
		}
	}
}

// Everything that happens in the cells of holds and repairs has a translation. The page's own
// test (TestPageTellsEverythingInChinese) checks those of locks.
func TestSalesAreToldInChinese(t *testing.T) {
	r := try(t, tables(), exitExpected, "-strategy",
		"h1_counter,h2_status,h3_claim,overwrite,lua_atomic,lua_batch,ack_first,no_claim,new_id,lua_stream")
	var said []string
	for _, a := range append(r.Anomalies, r.Behind.Anomalies...) {
		said = append(said, a.Sentence, a.Sequence, a.Source)
	}
	for _, c := range r.Everything() {
		said = append(said, c.Note)
		for _, e := range c.Trace {
			if e.Kind != lab.Command {
				said = append(said, e.Text)
			}
		}
	}
	if len(said) < 500 {
		t.Fatalf("%d texts", len(said))
	}
	reference := regexp.MustCompile(`^\S+$`) // to an issue, without words
	for _, text := range said {
		if text != "" && !reference.MatchString(text) && !han.MatchString(chinese(t).Told(text)) {
			t.Errorf("not translated: %s", text)
		}
	}
}
