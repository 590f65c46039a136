package texts_test

import (
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"oversell/internal/page/texts"
)

func chinese(t *testing.T) *texts.Language {
	t.Helper()
	l, err := texts.In("zh")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// ofReports maps a file of texts that only some reports use to the function that loads the language
// of these reports.
var ofReports = map[string]func(string) (*texts.Language, error){"zh.lab": texts.In, "zh.bench": texts.OfBench}

// said returns the translations of the sentences of these reports, by English format.
func said(t *testing.T, reports string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, name := range []string{"zh.told", reports} {
		some, err := texts.Read(name)
		if err != nil {
			t.Fatal(err)
		}
		for english, text := range some {
			if all[english] == text {
				t.Errorf("%q has the same translation in two files", english)
			}
		}
		maps.Copy(all, some)
	}
	return all
}

// A text without a translation stays in English.
func TestATextWithoutTranslationStaysEnglish(t *testing.T) {
	const english = "nobody knows this sentence"
	if got := chinese(t).Say(english); got != english {
		t.Errorf("%q is told as %q", english, got)
	}
	var none *texts.Language
	if got := none.Say("sold out"); got != "sold out" || none.Named("nav.run", "Run") != "Run" || none.Tag() != "en" {
		t.Errorf("English is told as %q", got)
	}
}

// A translation has each argument of its format once: in the same order, or with their numbers.
func TestTranslationsHaveTheArguments(t *testing.T) {
	verb := regexp.MustCompile(`%[.\d]*(?:\[(\d)\])?([a-z])`)
	formats := 0
	for reports := range ofReports {
		for english, text := range said(t, reports) {
			want, got := verb.FindAllStringSubmatch(english, -1), verb.FindAllStringSubmatch(text, -1)
			slices.SortStableFunc(got, func(a, b []string) int { return strings.Compare(a[1], b[1]) })
			kind := func(a, b []string) bool { return a[2] == b[2] }
			same := text == english && english != "stuck" // a goal of the lab, and a verdict of the bench
			if text == "" || same || !slices.EqualFunc(want, got, kind) {
				t.Errorf("%q is told as %q", english, text)
			}
			for i, m := range got {
				if m[1] != "" && m[1] != strconv.Itoa(i+1) {
					t.Errorf("%q is told as %q: argument %d is missing", english, text, i+1)
				}
			}
			formats += min(len(want), 1)
		}
	}
	if formats < 100 {
		t.Errorf("%d formats", formats)
	}
}

func TestOnlyKnownLanguages(t *testing.T) {
	if l, err := texts.In("en"); l != nil || err != nil {
		t.Errorf("English: %v, %v", l, err)
	}
	if _, err := texts.In("fr"); err == nil || !strings.Contains(err.Error(), "allowed: en, zh") {
		t.Errorf("fr: %v", err)
	}
}

// The page does not load the texts that only reports use.
func TestThePageLoadsItsTexts(t *testing.T) {
	want := []string{"en.json", "zh.json", "zh.told.json"}
	if got, err := fs.Glob(texts.OfPage(), "*"); err != nil || !slices.Equal(got, want) {
		t.Errorf("the page loads %v, %v; want %v", got, err, want)
	}
}
