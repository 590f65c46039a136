package report

import (
	"fmt"
	"regexp"

	"github.com/jedib0t/go-pretty/v6/text"

	"oversell/internal/catalog"
	"oversell/internal/figures"
)

// Language translates what a report says in English to a person. Names, flags, errors and
// JSON stay as they are.
type Language interface {
	// Name returns the tag of the language, such as zh-CN.
	Name() string
	// Told returns the translation of a sentence, or the sentence if it has none.
	Told(english string) string
	// Named returns the text with a key, or else the English.
	Named(key, english string) string
}

// Style is how a report is shown to a person.
type Style struct {
	Colour   bool
	Language Language // nil: English
}

// Terminals draw lines and dots one column wide, also where the user's locale is Chinese;
// without this, go-pretty counts two there.
func init() { text.OverrideRuneWidthEastAsianWidth(false) }

// Say translates a text.
func (s Style) Say(english string) string {
	if s.Language == nil {
		return english
	}
	return s.Language.Told(english)
}

// Sayf translates a format, and formats.
func (s Style) Sayf(format string, values ...any) string {
	return fmt.Sprintf(s.Say(format), values...)
}

// Tag is the language, as in the lang attribute of a page.
func (s Style) Tag() string {
	if s.Language == nil {
		return "en"
	}
	return s.Language.Name()
}

// Condition names a condition. Beside a translation stands its name, which flags take.
func (s Style) Condition(c catalog.Condition) string {
	if name := s.named("condition."+string(c), ""); name != "" {
		return name + " " + string(c)
	}
	return string(c)
}

func (s Style) named(key, english string) string {
	if s.Language == nil {
		return english
	}
	return s.Language.Named(key, english)
}

// Verdict names a verdict.
func (s Style) Verdict(v figures.Verdict) string {
	return s.named("verdict."+string(v), s.Say(string(v)))
}

// Title translates the title of a column. In Chinese a space is only where a head can be broken.
func (s Style) Title(english string) string {
	if s.Language == nil {
		return english
	}
	return chineseSpace.ReplaceAllString(s.Say(english), "$1$2")
}

var chineseSpace = regexp.MustCompile(`(\p{Han}) ([\p{Han}（/])`)

// row names a row.
func (s Style) row(k Key) string { return s.Sayf("%s under %s", k.Strategy, s.Condition(k.Condition)) }

// count counts things, as Plural does.
func (s Style) count(n int, what string) string { return s.Say(Plural(n, what)) }
