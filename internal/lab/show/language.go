package show

import (
	"strings"

	"oversell/internal/lab"
	"oversell/internal/present"
)

// Style is how a report is shown.
type Style struct{ present.Style }

// Brief is what an anomaly is about, after its title if it has one.
func (s Style) Brief(a lab.Anomaly) string {
	sentence := s.about(a).Sentence
	if title := s.title(a.Name); title != "" {
		return s.Sayf("%s: %s", title, sentence)
	}
	return sentence
}

// title is what an anomaly is called beside its name, or "".
func (s Style) title(anomaly string) string { return s.Named("anomaly."+anomaly+".title", "") }

func (s Style) called(anomaly string) string {
	return strings.TrimLeft(s.title(anomaly)+" "+anomaly, " ")
}

func (s Style) on(c lab.Cell) string { return s.Sayf("%s on %s", s.called(c.Anomaly), c.Strategy) }

func (s Style) about(a lab.Anomaly) lab.Anomaly {
	a.Sentence = s.Named("anomaly."+a.Name+".sentence", s.Say(a.Sentence))
	a.Sequence = s.Named("anomaly."+a.Name+".sequence", s.Say(a.Sequence))
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
