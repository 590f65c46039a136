// Package present shows results to a person: in their language, as a table in a terminal or in
// Markdown, and as a page of one file.
package present

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"

	"oversell/internal/catalog"
	"oversell/internal/figures"
	"oversell/internal/message"
	"oversell/internal/page/texts"
)

// Style says how to show results. Its Language translates English texts. Names, flags, commands and
// their replies, the errors of programs and JSON are not translated.
type Style struct {
	Colour          bool
	*texts.Language // nil: English
}

// Terminals draw lines, arrows and dots one column wide, even if the user's locale is Chinese.
// Without this call, go-pretty counts two columns for them in that locale.
func init() { text.OverrideRuneWidthEastAsianWidth(false) }

// Tell translates a sentence by its Message, or by its English text if the Message has no arguments.
func (s Style) Tell(english string, said message.Message) string {
	if said.IsZero() {
		return s.Say(english)
	}
	return said.Translate(s.Say)
}

// Sayf translates a format, and formats the values with it.
func (s Style) Sayf(format string, values ...any) string {
	return fmt.Sprintf(s.Say(format), values...)
}

// Condition returns the name of a condition. A translation is followed by the English name, which
// flags accept.
func (s Style) Condition(c catalog.Condition) string {
	return strings.TrimLeft(s.Named("condition."+string(c), "")+" "+string(c), " ")
}

// Verdict returns the name of a verdict.
func (s Style) Verdict(v figures.Verdict) string {
	return s.Named("verdict."+string(v), s.Say(string(v)))
}

// Count is like Plural, but in the language of s.
func (s Style) Count(n int, what string) string { return Plural(n, what).Translate(s.Say) }

// Plural returns a number of things: "1 shop", "2 shops", "3 processes", "4 strategies".
func Plural(n int, what string) message.Message {
	if n == 1 {
		return message.Newf("%d "+what, n)
	}
	if strings.HasSuffix(what, "s") {
		what += "e"
	}
	if stem, ok := strings.CutSuffix(what, "y"); ok {
		what = stem + "ie"
	}
	return message.Newf("%d "+what+"s", n)
}

// Title translates the title of a column. A Chinese title contains spaces only to show where a
// heading can be broken: Title removes them.
func (s Style) Title(english string) string {
	return chineseSpace.ReplaceAllString(s.Say(english), "$1$2")
}

var chineseSpace = regexp.MustCompile(`(\p{Han}) ([\p{Han}（/])`)
