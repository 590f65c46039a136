package present

import (
	"fmt"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Table is a table of rows of any type.
type Table[Row any] struct {
	Columns []Column[Row]
	Rows    []Row

	// Under returns the heading of a row, which is shown once above all rows that have it; nil: no
	// headings.
	Under func(Row) string
}

// Column is a column of a table. A column that is blank in all rows is left out.
type Column[Row any] struct {
	Name  string
	Left  bool // aligned left
	Cell  func(Row) string
	Mark  func(Row) text.Colors // or nil
	Rare  string                // explains a column that is left out if it has only zeros; "": zeros are shown
	Spare int                   // place in the order in which columns of a wide text are dropped; 0: never
}

// Add adds a column that is aligned left.
func (t *Table[Row]) Add(name string, cell func(Row) string) {
	t.Columns = append(t.Columns, Column[Row]{Name: name, Left: true, Cell: cell})
}

// Number adds a column that is aligned right.
func (t *Table[Row]) Number(name string, cell func(Row) string) {
	t.Columns = append(t.Columns, Column[Row]{Name: name, Cell: cell})
}

// The order in which columns are dropped from a text that is too wide. Columns with only zeros go
// first. Before ThirdSpare columns go, the gaps between columns are narrowed.
const (
	IfZero      = -1 // only if all its figures are zero
	FirstSpare  = 1
	SecondSpare = 2
	ThirdSpare  = 3
)

// maxWidth is the width that the text of a table should not exceed, in characters.
const maxWidth = 120

// Zero replaces a zero in a table, so that the other figures stand out.
const Zero = "."

// Filled returns the columns that are not blank.
func (t Table[Row]) Filled() []Column[Row] {
	return slices.DeleteFunc(slices.Clone(t.Columns), func(c Column[Row]) bool {
		return c.Rare != "" && t.zero(c) || !slices.ContainsFunc(t.Rows, func(r Row) bool { return c.Cell(r) != "" })
	})
}

// zero reports whether all figures of a column are zero.
func (t Table[Row]) zero(c Column[Row]) bool {
	return !slices.ContainsFunc(t.Rows, func(r Row) bool { return c.Cell(r) != "" && c.Cell(r) != Zero })
}

// Text draws the table for a terminal. If the table is too wide, Text drops some columns and names
// them.
func (t Table[Row]) Text(s Style) string {
	t.Columns = t.Filled()
	if len(t.Columns) == 0 {
		return ""
	}
	shown, left, fits := t.fit(s, "  ", SecondSpare)
	if !fits {
		shown, left, _ = t.fit(s, " ", ThirdSpare)
	}
	if len(left) > 0 {
		shown += s.Sayf("left out to fit the width: %s (-json has them)", strings.Join(left, s.Say(", "))) + "\n"
	}
	return shown
}

// fit draws the table, and drops columns until it is narrow enough. It drops them in their order,
// up to the order last, and from the right among columns with the same order. It returns the titles
// of the dropped columns.
func (t Table[Row]) fit(s Style, gap string, last int) (drawn string, left []string, fits bool) {
	t.Columns = slices.Clone(t.Columns)
	drawn = t.draw(s, gap)
	wide := func() bool { return text.LongestLineLen(drawn) > maxWidth }
	for order := 0; order <= last; order++ {
		for i := len(t.Columns) - 1; i >= 0 && wide(); i-- {
			if c := t.Columns[i]; c.Spare == order && order > 0 || c.Spare != 0 && order == 0 && t.zero(c) {
				t.Columns, left = slices.Delete(t.Columns, i, i+1), append(left, s.Title(c.Name))
				drawn = t.draw(s, gap)
			}
		}
	}
	return t.under(drawn) + "\n", left, !wide()
}

// breaks puts line breaks into a column heading. draw leaves the heading of the first column on one
// line.
var breaks = strings.NewReplacer(" ", "\n", "/", "\n/")

// draw draws the table without headings.
func (t Table[Row]) draw(s Style, gap string) string {
	w := table.NewWriter()
	style := table.StyleLight
	style.Options = table.Options{SeparateHeader: true}
	style.Format.Header = text.FormatDefault
	style.Box.PaddingLeft, style.Box.PaddingRight = "", gap
	w.SetStyle(style)
	w.SuppressTrailingSpaces()
	var heads table.Row
	var configs []table.ColumnConfig
	for i, c := range t.Columns {
		align := text.AlignRight
		if c.Left {
			align = text.AlignLeft
		}
		head := s.Say(c.Name)
		if i > 0 {
			head = breaks.Replace(head)
		}
		heads = append(heads, head)
		configs = append(configs, table.ColumnConfig{
			Number: i + 1, Align: align, AlignHeader: align, VAlignHeader: text.VAlignBottom,
		})
	}
	w.AppendHeader(heads)
	w.SetColumnConfigs(configs)
	for _, r := range t.Rows {
		var cells table.Row
		for i, c := range t.Columns {
			cells = append(cells, t.cell(c, r, i == 0, s))
		}
		w.AppendRow(cells)
	}
	return w.Render()
}

// cell returns the text of a cell. The first cell of a row is indented if the table has headings.
func (t Table[Row]) cell(c Column[Row], r Row, first bool, s Style) string {
	drawn := c.Cell(r)
	if first && t.Under != nil {
		drawn = "  " + drawn
	}
	if s.Colour && c.Mark != nil && drawn != "" {
		drawn = c.Mark(r).Sprint(drawn)
	}
	return drawn
}

// under puts the headings between the lines of the rows. A heading may be wider than the table.
func (t Table[Row]) under(drawn string) string {
	if t.Under == nil {
		return drawn
	}
	lines := strings.Split(drawn, "\n")
	first := len(lines) - len(t.Rows)
	all, last := lines[:first:first], ""
	for i, line := range lines[first:] {
		if heading := t.Under(t.Rows[i]); heading != last {
			all, last = append(all, heading), heading
		}
		all = append(all, line)
	}
	return strings.Join(all, "\n")
}

// Markdown writes the table in Markdown, with all columns.
func (t Table[Row]) Markdown() string {
	var b strings.Builder
	line := func(cell func(Column[Row]) string) {
		for _, c := range t.Columns {
			b.WriteString("|" + cell(c))
		}
		b.WriteString("|\n")
	}
	line(func(c Column[Row]) string { return fmt.Sprintf(" %s ", c.Name) })
	line(func(c Column[Row]) string {
		if c.Left {
			return "---"
		}
		return "--:"
	})
	for _, r := range t.Rows {
		line(func(c Column[Row]) string { return fmt.Sprintf(" %s ", c.Cell(r)) })
	}
	return b.String()
}
