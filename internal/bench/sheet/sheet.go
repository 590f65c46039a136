// Package sheet gives the tables of the bench their look.
package sheet

import (
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Column is the head of a column.
type Column struct {
	Title string
	Left  bool // aligned left
}

// New returns a table without lines.
func New(columns []Column) table.Writer {
	t := table.NewWriter()
	style := table.StyleLight
	style.Options = table.Options{SeparateHeader: true}
	style.Format.Header = text.FormatDefault
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	t.SetStyle(style)
	t.SuppressTrailingSpaces()
	var header table.Row
	var configs []table.ColumnConfig
	for i, c := range columns {
		header = append(header, c.Title)
		align := text.AlignRight
		if c.Left {
			align = text.AlignLeft
		}
		configs = append(configs, table.ColumnConfig{Number: i + 1, Align: align, AlignHeader: align})
	}
	t.AppendHeader(header)
	t.SetColumnConfigs(configs)
	return t
}
