package show

import (
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"

	"oversell/internal/lab"
)

// Language translates what the lab says in English. Names, commands and their replies, keys
// and the errors of programs stay as they are.
type Language interface {
	// Name returns the tag of the language, such as zh-CN.
	Name() string
	// Told returns the translation of a sentence, or the sentence if it has none.
	Told(english string) string
	// Named returns the text with a key, or else the English.
	Named(key, english string) string
}

// Style is how a report is shown.
type Style struct {
	Colour   bool
	Language Language // nil: English
}

// Terminals draw lines, arrows and marks one column wide, also where the user's locale is
// Chinese; without this, go-pretty counts two there.
func init() { text.OverrideRuneWidthEastAsianWidth(false) }

// Say translates a text.
func (s Style) Say(english string) string {
	if s.Language == nil {
		return english
	}
	return s.Language.Told(english)
}

// Brief is what an anomaly is about, after its title if it has one.
func (s Style) Brief(a lab.Anomaly) string {
	sentence := s.about(a).Sentence
	if title := s.title(a.Name); title != "" {
		return s.sayf("%s: %s", title, sentence)
	}
	return sentence
}

// sayf translates a format, and formats.
func (s Style) sayf(format string, values ...any) string {
	return fmt.Sprintf(s.Say(format), values...)
}

func (s Style) named(key, english string) string {
	if s.Language == nil {
		return english
	}
	return s.Language.Named(key, english)
}

// tag is the language of the page, as in its lang attribute.
func (s Style) tag() string {
	if s.Language == nil {
		return "en"
	}
	return s.Language.Name()
}

// title is what an anomaly is called beside its name, or "".
func (s Style) title(anomaly string) string { return s.named("anomaly."+anomaly+".title", "") }

// called is the name of an anomaly, after its title if it has one.
func (s Style) called(anomaly string) string {
	return strings.TrimLeft(s.title(anomaly)+" "+anomaly, " ")
}

// on names a cell.
func (s Style) on(c lab.Cell) string { return s.sayf("%s on %s", s.called(c.Anomaly), c.Strategy) }

// about translates the description of an anomaly.
func (s Style) about(a lab.Anomaly) lab.Anomaly {
	a.Sentence = s.named("anomaly."+a.Name+".sentence", s.Say(a.Sentence))
	a.Sequence = s.named("anomaly."+a.Name+".sequence", s.Say(a.Sequence))
	a.Source = s.Say(a.Source)
	return a
}

// row translates what a row of a timeline says. Commands and their replies are not translated,
// but it is said in words if there was no reply.
func (s Style) row(kind lab.Kind, text, reply string) (toldText, toldReply string) {
	if kind != lab.Command {
		text = s.Say(text)
	}
	if strings.HasPrefix(reply, "(") {
		reply = s.Say(reply)
	}
	return text, reply
}
