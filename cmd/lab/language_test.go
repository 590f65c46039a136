package main

import (
	"regexp"
	"strings"
	"testing"

	"oversell/internal/lab"
	pagetexts "oversell/internal/page/texts"
)

var han = regexp.MustCompile(`\p{Han}`)

// chinese returns the Chinese texts.
func chinese(t *testing.T) *pagetexts.Language {
	t.Helper()
	language, err := pagetexts.In("zh")
	if err != nil {
		t.Fatal(err)
	}
	return language
}

// All output of a search and of -list is in Chinese, except names and commands.
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
		if !strings.Contains(out, string(goal)) {
			t.Errorf("%s is translated in\n%s", goal, out)
		}
		if told := chinese(t).Say(meaning(goal)); !strings.Contains(told, "：") {
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
