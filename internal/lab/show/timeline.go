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
func Timeline(w io.Writer, r lab.Report, c lab.Cell, colour bool) error {
	var b strings.Builder
	writeHeading(&b, r, c, colour)
	s := tell(c)
	if len(s.rows) == 0 {
		b.WriteString("Nothing was run, so there is no timeline.\n")
	} else {
		newSheet(s, colour).write(&b)
	}
	fmt.Fprintf(&b, "\nSee it again: %s\n", clean(command(r.Manifest, c.Anomaly, c.Strategy)))
	return write(w, "timeline", b.String())
}

// Schedule writes what a schedule has led to: the verdict, and moment by moment what each
// buyer did.
func Schedule(w io.Writer, s lab.State, colour bool) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", paint(text.Colors{text.Bold}, clean(s.Strategy+": "+s.Moves), colour))
	fmt.Fprintf(&b, "%s\n\n", wrap(clean(s.Verdict.Sentence), "", ""))
	if len(s.Trace) == 0 {
		b.WriteString("Nothing has happened.\n")
	} else {
		newSheet(tell(lab.Cell{Trace: s.Trace}), colour).write(&b)
	}
	return write(w, "schedule", b.String())
}

// writeHeading writes the cell's question and outcome.
func writeHeading(b *strings.Builder, r lab.Report, c lab.Cell, colour bool) {
	a := newGrid(r).anomaly(c.Anomaly)
	fmt.Fprintf(b, "%s\n", paint(text.Colors{text.Bold}, clean(c.Anomaly+" on "+c.Strategy), colour))
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
		fmt.Fprintf(b, "%-10s%s\n", name, paint(style, strings.TrimPrefix(first, rest), colour))
		if more {
			b.WriteString(others + "\n")
		}
	}
	field("sequence", a.Sequence, nil)
	field("for real", a.Source, nil)
	field("verdict", verdict(c), outcomeColours(c))
	field("because", c.Note, nil)
	field("ran on", ranOn(r.Manifest), text.Colors{text.Faint})
	b.WriteString("\n")
}
