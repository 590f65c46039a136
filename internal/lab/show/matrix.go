package show

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"

	"oversell/internal/lab"
)

const nameWidth = 26 // minimum width of an anomaly's name, if names are longer

// marks are the texts of the outcomes. Breaks are in capitals, so that they
// stand out without colour too.
var marks = map[lab.Outcome]string{lab.Holds: "ok", lab.Breaks: "BREAK", lab.NA: ".", lab.Unknown: "?"}

// Matrix writes the report as text: the environment, anomalies × strategies,
// and the outcomes that differ from the record, in at most 120 columns.
func Matrix(w io.Writer, r lab.Report, s Style) error {
	var b strings.Builder
	g := matrix{newGrid(r), s, r}
	fmt.Fprintf(&b, "%s\n", wrap(s.ranOn(r.Manifest), "", "  "))
	fmt.Fprintf(&b, "%s\n", s.counts(r))
	for _, bl := range blocks(g) {
		b.WriteString("\n")
		bl.write(&b, g)
	}
	fmt.Fprintf(&b, "\n%s\n", wrap(g.legend(), "", "  "))
	s.writeSummary(&b, r)
	return write(w, "matrix", b.String())
}

// matrix is a grid in a language.
type matrix struct {
	grid
	Style
	of lab.Report
}

// block is a part of the matrix that fits the width of the terminal.
type block struct {
	strategies []string
	names      int // width of the column with the anomalies' names
}

// blocks splits the columns if they do not fit side by side. Names are cut if
// that keeps the columns together.
func blocks(g matrix) []block {
	longest := 0
	for _, a := range g.anomalies {
		longest = max(longest, text.StringWidth(clean(g.called(a.Name))))
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
func (g matrix) width(strategy string) int {
	n := max(text.StringWidth(g.Say(marks[lab.Breaks])), text.StringWidth(short(strategy)))
	if g.narrow() {
		_, asked := g.broken(strategy)
		n = max(n, len(strconv.Itoa(asked)))
	}
	for _, a := range g.anomalies {
		if c, ran := g.at(a.Name, strategy); ran {
			n = max(n, text.StringWidth(g.mark(c)))
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

func (bl block) write(b *strings.Builder, g matrix) {
	line := func(name string, style text.Colors, cell func(strategy string) (string, text.Colors)) {
		b.WriteString(paint(style, pad(name, bl.names), g.Colour))
		for i, s := range bl.strategies {
			content, style := cell(s)
			b.WriteString(gap(bl.strategies, i))
			b.WriteString(paint(style, content, g.Colour))
			if i < len(bl.strategies)-1 {
				b.WriteString(strings.Repeat(" ", g.width(s)-text.StringWidth(content)))
			}
		}
		b.WriteString("\n")
	}
	line("", nil, func(s string) (string, text.Colors) { return short(s), text.Colors{text.Bold} })
	for i, a := range g.anomalies {
		if title := g.heading(i, g.Style); title != "" {
			b.WriteString(paint(text.Colors{text.Bold}, title, g.Colour) + "\n")
		}
		name, below := g.fit(a.Name, bl.names)
		line(name, nil, func(s string) (string, text.Colors) {
			c, ran := g.at(a.Name, s)
			if !ran {
				return "", nil
			}
			return g.mark(c), outcomeColours(c)
		})
		b.WriteString(below)
	}
	counts := func(name string, format func(breaks, asked int) string) {
		line(g.Say(name), text.Colors{text.Faint}, func(s string) (string, text.Colors) {
			return format(g.broken(s)), text.Colors{text.Faint}
		})
	}
	if g.narrow() {
		counts("broken by", func(breaks, _ int) string { return strconv.Itoa(breaks) })
		counts("asked of", func(_, asked int) string { return strconv.Itoa(asked) })
		return
	}
	counts("broken by / of", func(breaks, asked int) string { return fmt.Sprintf("%d/%d", breaks, asked) })
}

// fit returns what a row says of an anomaly in n columns. If its title and its name do not fit
// side by side, the name has the line below.
func (g matrix) fit(anomaly string, n int) (name, below string) {
	title := g.title(anomaly)
	if title == "" || text.StringWidth(clean(g.called(anomaly))) <= n {
		return g.called(anomaly), ""
	}
	return title, "  " + clean(anomaly) + "\n"
}

// narrow reports whether the marks leave no room for two counts side by side. A language that
// has narrow marks has titles beside the names of anomalies.
func (g matrix) narrow() bool {
	return text.StringWidth(g.Say(marks[lab.Breaks])) < len("00/00")
}

// endlessMark follows the mark of a cell that holds only because its lock never expires.
const endlessMark = "∞"

// mark returns the text of the cell's outcome. An exclamation mark means that
// it differs from the record.
func (g matrix) mark(c lab.Cell) string {
	m, known := marks[c.Outcome]
	if !known {
		m = "?"
	}
	m = g.Say(m)
	if OnlyEndless(g.of.Manifest, c) {
		m += endlessMark
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

// owes reports whether a cell holds only because its lock never expires.
func (g matrix) owes() bool {
	return slices.ContainsFunc(g.of.Cells, func(c lab.Cell) bool { return OnlyEndless(g.of.Manifest, c) })
}

func (g matrix) legend() string {
	out := g.Say("ok: the strategy keeps what it is asked for; BREAK: it does not; .: the question does not apply; " +
		"?: the run does not decide; !: not as recorded")
	if g.owes() {
		out += g.Say("; ∞: only because its lock never expires")
	}
	if names := shortened(g.strategies); names != "" {
		out += g.Say("; ") + names
	}
	return out
}

// writeSummary says whether all outcomes match the record, which do not, and
// how to see why.
func (s Style) writeSummary(b *strings.Builder, r lab.Report) {
	unexpected := r.Unexpected()
	style := text.Colors{text.FgGreen}
	if len(unexpected) > 0 {
		style = text.Colors{text.FgRed, text.Bold}
	}
	fmt.Fprintf(b, "\n%s\n", paint(style, s.asRecorded(r), s.Colour))
	for _, c := range unexpected {
		fmt.Fprintf(b, "  %s\n", paint(outcomeColours(c)[:1], clean(s.Sayf("%s: %s", s.on(c), s.verdict(r.Manifest, c))), s.Colour))
		if c.Note != "" {
			fmt.Fprintf(b, "%s\n", wrap(clean(s.Say(c.Note)), "    ", "    "))
		}
		fmt.Fprintf(b, "    %s\n", clean(command(r.Manifest, c.Anomaly, c.Strategy)))
	}
	if len(unexpected) == 0 && len(r.Cells) > 0 {
		fmt.Fprintf(b, "%s\n", s.Sayf("See how a cell came about: %s", "go run ./cmd/lab -run NAME -strategy NAME"))
	}
}
