package report

import (
	"slices"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Head is the head of a column.
type Head struct {
	Title string // may have several lines
	Left  bool   // aligned left
}

// heads translates heads.
func (s Style) heads(all []Head) []Head {
	for i := range all {
		all[i].Title = s.Title(all[i].Title)
	}
	return all
}

// MaxWidth is how wide a drawn table should be at most, in characters.
const MaxWidth = 120

// Fit returns the columns of a table without as many of them as it takes until fits reports
// true, and those that it left out: first those that the first of spared allows, the last ones
// first, then those of the next.
func Fit[Column any](all []Column, fits func([]Column) bool, spared ...func(Column) bool) (shown, without []Column) {
	shown = slices.Clone(all)
	for _, may := range spared {
		for i := len(shown) - 1; i >= 0 && !fits(shown); i-- {
			if c := shown[i]; may(c) {
				shown, without = slices.Delete(shown, i, i+1), append(without, c)
			}
		}
	}
	return shown, without
}

// Draw draws a table in the style of all the bench's tables, without a final newline.
func Draw(heads []Head, lines [][]string) string { return draw(heads, lines, wideGap) }

// Gaps between the columns of a table.
const (
	wideGap   = "  "
	narrowGap = " "
)

func draw(heads []Head, lines [][]string, gap string) string {
	t := table.NewWriter()
	style := table.StyleLight
	style.Options = table.Options{SeparateHeader: true}
	style.Format.Header = text.FormatDefault
	style.Box.PaddingLeft, style.Box.PaddingRight = "", gap
	t.SetStyle(style)
	t.SuppressTrailingSpaces()
	var header table.Row
	var configs []table.ColumnConfig
	for i, h := range heads {
		header = append(header, h.Title)
		align := text.AlignRight
		if h.Left {
			align = text.AlignLeft
		}
		configs = append(configs, table.ColumnConfig{Number: i + 1, Align: align, AlignHeader: align, VAlignHeader: text.VAlignBottom})
	}
	t.AppendHeader(header)
	t.SetColumnConfigs(configs)
	for _, line := range lines {
		row := make(table.Row, len(line))
		for i, cell := range line {
			row[i] = cell
		}
		t.AppendRow(row)
	}
	return t.Render()
}
