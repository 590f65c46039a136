package show

import (
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"

	"oversell/internal/lab"
)

// Timeline writes what happened in one cell of r: the question, the outcome,
// and moment by moment what each actor did, who holds the lock according to
// Redis, and who believes that they hold it. It ends with the command that
// reproduces the cell.
func Timeline(w io.Writer, r lab.Report, c lab.Cell, style Style) error {
	var b strings.Builder
	style.writeHeading(&b, r, c)
	s := tell(c)
	if len(s.rows) == 0 {
		b.WriteString(style.Say("Nothing was run, so there is no timeline.") + "\n")
	} else {
		newSheet(s, style).write(&b)
	}
	fmt.Fprintf(&b, "\n%s\n", style.Sayf("See it again: %s", clean(command(r.Manifest, c.Anomaly, c.Strategy))))
	return write(w, "timeline", b.String())
}

// Schedule writes what a schedule has led to: the verdict, and moment by moment what each
// buyer did.
func Schedule(w io.Writer, s lab.State, style Style) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", paint(text.Colors{text.Bold}, clean(s.Strategy+": "+s.Moves), style.Colour))
	fmt.Fprintf(&b, "%s\n\n", wrap(clean(style.Say(s.Verdict.Sentence)), "", ""))
	if len(s.Trace) == 0 {
		b.WriteString(style.Say("Nothing has happened.") + "\n")
	} else {
		newSheet(tell(lab.Cell{Trace: s.Trace}), style).write(&b)
	}
	return write(w, "schedule", b.String())
}

func (s Style) writeHeading(b *strings.Builder, r lab.Report, c lab.Cell) {
	a := s.about(newGrid(r).anomaly(c.Anomaly))
	fmt.Fprintf(b, "%s\n", paint(text.Colors{text.Bold}, clean(s.on(c)), s.Colour))
	if a.Sentence != "" {
		fmt.Fprintf(b, "%s\n", wrap(clean(a.Sentence), "", ""))
	}
	b.WriteString("\n")
	field := func(name, value string, style text.Colors) {
		if value == "" {
			return
		}
		rest := strings.Repeat(" ", 10)
		first, others, more := strings.Cut(wrap(clean(value), rest, rest), "\n")
		fmt.Fprintf(b, "%s%s\n", pad(s.Say(name), len(rest)), paint(style, strings.TrimPrefix(first, rest), s.Colour))
		if more {
			b.WriteString(others + "\n")
		}
	}
	field("sequence", a.Sequence, nil)
	field("for real", a.Source, nil)
	field("verdict", s.verdict(r.Manifest, c), outcomeColours(c))
	field("because", s.Say(c.Note), nil)
	field("ran on", s.ranOn(r.Manifest), text.Colors{text.Faint})
	b.WriteString("\n")
}
