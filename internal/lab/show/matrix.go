package show

import (
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"

	"oversell/internal/lab"
)

// Columns of the matrix.
const (
	markWidth = 5  // the longest mark of an outcome that matches the record, BREAK
	nameWidth = 26 // minimum width of an anomaly's name, if names are longer
)

// marks are the texts of the outcomes. Breaks are in capitals, so that they
// stand out without colour too.
var marks = map[lab.Outcome]string{lab.Holds: "ok", lab.Breaks: "BREAK", lab.NA: ".", lab.Unknown: "?"}

// Matrix writes the report as text: the environment, anomalies × strategies,
// and the outcomes that differ from the record, in at most 120 columns. With
// colour, it colours the outcomes.
func Matrix(w io.Writer, r lab.Report, colour bool) error {
	var b strings.Builder
	g := newGrid(r)
	fmt.Fprintf(&b, "%s\n", wrap(ranOn(r.Manifest), "", "  "))
	fmt.Fprintf(&b, "%s\n", counts(r))
	for _, bl := range blocks(g) {
		b.WriteString("\n")
		bl.write(&b, g, colour)
	}
	fmt.Fprintf(&b, "\n%s\n", wrap(legend(g), "", "  "))
	writeSummary(&b, r, colour)
	return write(w, "matrix", b.String())
}

// block is a part of the matrix that fits the width of the terminal.
type block struct {
	strategies []string
	names      int // width of the column with the anomalies' names
}

// blocks splits the columns if they do not fit side by side. Names are cut if
// that keeps the columns together.
func blocks(g grid) []block {
	longest := 0
	for _, a := range g.anomalies {
		longest = max(longest, text.StringWidth(clean(a.Name)))
	}
	var out []block
	room := 0 // for the names, beside the columns of the last block
	for _, s := range g.strategies {
		n := len("  ") + g.width(s)
		if room -= n; room < min(longest, nameWidth) {
			out = append(out, block{})
			room = width - n
		}
		last := &out[len(out)-1]
		last.strategies = append(last.strategies, s)
		room += len("  ") - len(gap(last.strategies, len(last.strategies)-1))
		last.names = min(longest, room)
	}
	return out
}

// width is the width of a strategy's column: the same for all, unless one has a
// longer text, such as a mark that differs from the record.
func (g grid) width(strategy string) int {
	n := max(markWidth, text.StringWidth(short(strategy)))
	for _, a := range g.anomalies {
		if c, ran := g.at(a.Name, strategy); ran {
			n = max(n, text.StringWidth(mark(c)))
		}
	}
	return n
}

// gap is the space between a column and the previous one.
func gap(strategies []string, i int) string {
	if i == 0 || newGroup(strategies, i) {
		return "  "
	}
	return " "
}

func (bl block) write(b *strings.Builder, g grid, colour bool) {
	line := func(name string, style text.Colors, cell func(strategy string) (string, text.Colors)) {
		b.WriteString(paint(style, pad(name, bl.names), colour))
		for i, s := range bl.strategies {
			content, style := cell(s)
			b.WriteString(gap(bl.strategies, i))
			b.WriteString(paint(style, content, colour))
			if i < len(bl.strategies)-1 {
				b.WriteString(strings.Repeat(" ", g.width(s)-text.StringWidth(content)))
			}
		}
		b.WriteString("\n")
	}
	line("", nil, func(s string) (string, text.Colors) { return short(s), text.Colors{text.Bold} })
	for _, a := range g.anomalies {
		line(a.Name, nil, func(s string) (string, text.Colors) {
			c, ran := g.at(a.Name, s)
			if !ran {
				return "", nil
			}
			return mark(c), outcomeColours(c)
		})
	}
	line("broken by / of", text.Colors{text.Faint}, func(s string) (string, text.Colors) {
		breaks, asked := g.broken(s)
		return fmt.Sprintf("%d/%d", breaks, asked), text.Colors{text.Faint}
	})
}

// mark returns the text of the cell's outcome. An exclamation mark means that
// it differs from the record.
func mark(c lab.Cell) string {
	m, known := marks[c.Outcome]
	if !known {
		m = "?"
	}
	if !c.AsExpected() {
		m += "!"
	}
	return m
}

func outcomeColours(c lab.Cell) text.Colors {
	colours := map[lab.Outcome]text.Colors{
		lab.Holds:  {text.FgGreen},
		lab.Breaks: {text.FgRed, text.Bold},
		lab.NA:     {text.Faint},
	}[c.Outcome]
	if colours == nil {
		colours = text.Colors{text.FgYellow}
	}
	if !c.AsExpected() {
		colours = append(colours, text.ReverseVideo)
	}
	return colours
}

func legend(g grid) string {
	out := "ok: the strategy keeps what it is asked for; BREAK: it does not; .: the question does not apply; " +
		"?: the run does not decide; !: not as recorded"
	if names := shortened(g.strategies); names != "" {
		out += "; " + names
	}
	return out
}

// writeSummary says whether all outcomes match the record, which do not, and
// how to see why.
func writeSummary(b *strings.Builder, r lab.Report, colour bool) {
	unexpected := r.Unexpected()
	style := text.Colors{text.FgGreen}
	if len(unexpected) > 0 {
		style = text.Colors{text.FgRed, text.Bold}
	}
	fmt.Fprintf(b, "\n%s\n", paint(style, asRecorded(r), colour))
	for _, c := range unexpected {
		fmt.Fprintf(b, "  %s\n", paint(outcomeColours(c)[:1], clean(fmt.Sprintf("%s on %s: %s", c.Anomaly, c.Strategy, verdict(c))), colour))
		if c.Note != "" {
			fmt.Fprintf(b, "%s\n", wrap(clean(c.Note), "    ", "    "))
		}
		fmt.Fprintf(b, "    %s\n", clean(command(r.Manifest, c.Anomaly, c.Strategy)))
	}
	if len(unexpected) == 0 && len(r.Cells) > 0 {
		fmt.Fprintf(b, "See how a cell came about: go run ./cmd/lab -run NAME -strategy NAME\n")
	}
}
