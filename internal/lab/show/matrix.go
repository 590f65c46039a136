package show

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"

	"oversell/internal/lab"
	"oversell/internal/present"
)

// looks says how each outcome is shown.
var looks = map[lab.Outcome]struct {
	mark    string // in a terminal; a break is in capitals, so that it stands out even without colour
	class   string // on the page
	onPage  string // the mark on the page
	colours text.Colors
}{
	lab.Holds:   {"ok", "holds", "ok", text.Colors{text.FgGreen}},
	lab.Breaks:  {"BREAK", "breaks", "breaks", text.Colors{text.FgRed, text.Bold}},
	lab.NA:      {".", "na", "·", text.Colors{text.Faint}},
	lab.Unknown: {"?", "unknown", "?", text.Colors{text.FgYellow}},
}

// Matrix writes the report as text in at most 120 columns: the environment, the outcomes of
// anomalies × strategies, and the outcomes that differ from the record.
func Matrix(w io.Writer, r lab.Report, s Style) error {
	var b strings.Builder
	g := newGrid(r, s)
	fmt.Fprintf(&b, "%s\n", wrap(s.ranOn(r.Manifest), "", "  "))
	fmt.Fprintf(&b, "%s\n", g.Counts())
	for _, part := range g.parts() {
		b.WriteString("\n" + part)
	}
	fmt.Fprintf(&b, "\n%s\n", wrap(g.legend(), "", "  "))
	g.writeSummary(&b)
	return write(w, "matrix", b.String())
}

// parts splits the table into parts that fit into the width of the terminal, and draws each part.
func (g grid) parts() (all []string) {
	names := present.Column[lab.Anomaly]{Left: true, Cell: g.name}
	t := present.Table[lab.Anomaly]{Rows: append(slices.Clone(g.anomalies), sums), Under: g.heading}
	drawn := ""
	for _, s := range g.Strategies() {
		if drawn == "" {
			t.Columns = []present.Column[lab.Anomaly]{names}
		}
		t.Columns = append(t.Columns, g.column(s))
		more := t.Text(g.Style.Style)
		if drawn != "" && text.LongestLineLen(more) > width {
			all = append(all, drawn)
			t.Columns = []present.Column[lab.Anomaly]{names, g.column(s)}
			more = t.Text(g.Style.Style)
		}
		drawn = more
	}
	if drawn != "" {
		all = append(all, drawn)
	}
	return all
}

// sums stands for the last row, which contains the totals.
var sums = lab.Anomaly{Loss: "sums"}

func (g grid) name(a lab.Anomaly) string {
	if a == sums {
		return g.Say("broken by / of")
	}
	return clean(g.called(a.Name))
}

func (g grid) heading(a lab.Anomaly) string {
	return paint(text.Colors{text.Bold}, g.lossTitle(a.Loss), g.Colour)
}

func (g grid) column(strategy string) present.Column[lab.Anomaly] {
	return present.Column[lab.Anomaly]{
		Name: short(strategy), Left: true,
		Cell: func(a lab.Anomaly) string {
			if a == sums {
				n := g.Broken(strategy)
				return fmt.Sprintf("%d/%d", n.Breaks, n.Asked)
			}
			return g.mark(g.at(a.Name, strategy))
		},
		Mark: func(a lab.Anomaly) text.Colors {
			if a == sums {
				return text.Colors{text.Faint}
			}
			return outcomeColours(g.at(a.Name, strategy))
		},
	}
}

// endlessMark follows the mark of a cell that holds only because its lock never expires.
const endlessMark = "∞"

// mark returns the text of the cell's outcome. An exclamation mark in it means that the outcome
// differs from the record.
func (g grid) mark(c lab.Cell) string {
	m := g.Say(looks[c.Outcome].mark)
	if OnlyEndless(g.of.Manifest, c) {
		m += endlessMark
	}
	if !c.AsExpected() {
		m += "!"
	}
	return m
}

func outcomeColours(c lab.Cell) text.Colors {
	colours := looks[c.Outcome].colours
	if !c.AsExpected() {
		colours = append(slices.Clip(colours), text.ReverseVideo)
	}
	return colours
}

func (g grid) legend() string {
	out := g.Say("ok: the strategy withstands the anomaly; BREAK: it does not; .: not applicable; ?: undecided; " +
		"!: not as recorded")
	if slices.ContainsFunc(g.of.Cells, func(c lab.Cell) bool { return OnlyEndless(g.of.Manifest, c) }) {
		out += g.Say("; ∞: only because its lock never expires")
	}
	if names := shortened(g.Strategies()); names != "" {
		out += g.Say("; ") + names
	}
	return out
}

// writeSummary writes whether all outcomes match the record, lists the outcomes that do not, and
// says how to see why.
func (g grid) writeSummary(b *strings.Builder) {
	unexpected := g.of.Unexpected()
	style := text.Colors{text.FgGreen}
	if len(unexpected) > 0 {
		style = text.Colors{text.FgRed, text.Bold}
	}
	fmt.Fprintf(b, "\n%s\n", paint(style, g.AsRecorded(), g.Colour))
	for _, c := range unexpected {
		fmt.Fprintf(b, "  %s\n", paint(outcomeColours(c)[:1],
			clean(g.Sayf("%s: %s", g.on(c), g.verdict(g.of.Manifest, c))), g.Colour))
		if c.Note != "" {
			fmt.Fprintf(b, "%s\n", wrap(clean(g.Tell(c.Note, c.Message)), "    ", "    "))
		}
		fmt.Fprintf(b, "    %s\n", clean(g.command(g.of.Manifest, c.Anomaly, c.Strategy)))
	}
	if len(unexpected) == 0 && len(g.of.Cells) > 0 {
		again := g.InLanguage("go run ./cmd/lab -run NAME -strategies NAME")
		fmt.Fprintf(b, "%s\n", g.Sayf("See the run of a cell: %s", again))
	}
}
