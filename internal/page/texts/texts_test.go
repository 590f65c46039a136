package texts_test

import (
	"maps"
	"regexp"
	"slices"
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

// said returns the forms of sentences that these reports translate, with their translations, by
// English form.
func said(t *testing.T, reports string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, name := range []string{"zh.told", reports} {
		some, err := texts.Read(name)
		if err != nil {
			t.Fatal(err)
		}
		for english := range some {
			if _, twice := all[english]; twice {
				t.Errorf("%q is translated in two files", english)
			}
		}
		maps.Copy(all, some)
	}
	return all
}

// samples are values for the braces of a form, by name: numbers for values of several kinds, text
// and more for sentences. A name without a sample gets a quoted value.
var samples = []map[string]string{
	{"0": "A", "1": "B", "2": "C", "3": "D", "text": "sold out", "more": "nobody bought"},
	{"0": "3", "1": "4", "2": "5", "3": "6", "text": "the buyer has left", "more": "is dead"},
	{"0": "30ms", "1": "4s", "2": "1m0s", "3": "5", "text": "it has no lock", "more": "sold out"},
	{"0": "A and B", "1": "C, D and E", "2": "F", "3": "G", "text": "the reply", "more": "a renewal"},
}

var braces = regexp.MustCompile(`\{\w+\}`)

// filled puts values into a form. They are translated if translate is not nil.
func filled(form string, values map[string]string, translate func(string) string) string {
	return braces.ReplaceAllStringFunc(form, func(name string) string {
		name = strings.Trim(name, "{}")
		value, ok := values[name]
		if !ok {
			return "x" + name + "-7.4" // a quoted value
		}
		if translate == nil {
			return value
		}
		return translate(value)
	})
}

// A sentence is translated by its own form, even if another form also matches it.
func TestEachFormIsToldByItself(t *testing.T) {
	for reports, in := range ofReports {
		l, err := in("zh")
		if err != nil {
			t.Fatal(err)
		}
		for i, values := range samples {
			for english, text := range said(t, reports) {
				asked, want := filled(english, values, nil), filled(text, values, l.Told)
				if got := l.Told(asked); got != want {
					t.Errorf("%s, samples %d: %q is told as %q, want %q", reports, i, asked, got, want)
				}
			}
		}
	}
}

// If a placeholder occurs twice in a form, both places must have the same value.
func TestAValueIsOne(t *testing.T) {
	l := chinese(t)
	same, other := "2 sold, and the stock is down by 2", "2 sold, and the stock is down by 3"
	if got := l.Told(same); got != "卖出 2 件，库存少了 2" {
		t.Errorf("%q is told as %q", same, got)
	}
	if got := l.Told(other); got != other {
		t.Errorf("%q is told as %q, and has no form", other, got)
	}
}

// A sentence that could be translated only in part stays in English.
func TestASentenceWithoutFormStaysEnglish(t *testing.T) {
	const english = "sold out; and nobody knows this sentence"
	if got := chinese(t).Told(english); got != english {
		t.Errorf("%q is told as %q", english, got)
	}
	var none *texts.Language
	if got := none.Told("sold out"); got != "sold out" || none.Named("nav.run", "Run") != "Run" || none.Name() != "en" {
		t.Errorf("English is told as %q", got)
	}
}

// A format and its translation have the same verbs.
func TestFormatsKeepTheirVerbs(t *testing.T) {
	verb := regexp.MustCompile(`%[.\d]*(?:\[\d\])?[a-z]`)
	kinds := func(format string) []string {
		var all []string
		for _, v := range verb.FindAllString(format, -1) {
			all = append(all, v[len(v)-1:])
		}
		slices.Sort(all)
		return all
	}
	formats := 0
	for reports := range ofReports {
		for english, text := range said(t, reports) {
			want, got := kinds(english), kinds(text)
			if !slices.Equal(want, got) {
				t.Errorf("%q has the verbs %v, and %q has %v", english, want, text, got)
			}
			formats += len(want)
		}
	}
	if formats < 10 {
		t.Errorf("%d verbs in all formats", formats)
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
	all, err := texts.OfPage()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"en.json", "zh.json", "zh.told.json"}
	if got := slices.Sorted(maps.Keys(all)); !slices.Equal(got, want) {
		t.Errorf("the page loads %v, want %v", got, want)
	}
}
