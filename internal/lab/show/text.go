package show

import (
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"
)

// paint colours s if colour is true.
func paint(style text.Colors, s string, colour bool) string {
	if !colour || len(style) == 0 || strings.TrimSpace(s) == "" {
		return s
	}
	return style.Sprint(s)
}

// pad makes s exactly n columns wide.
func pad(s string, n int) string {
	return text.Pad(text.Snip(clean(s), n, "…"), n, ' ')
}

// fold breaks s at spaces into lines of at most n columns; words that are too
// long are broken as well.
func fold(s string, n int) []string {
	if s == "" {
		return nil
	}
	lines := strings.Split(text.WrapSoft(s, n), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return lines
}

// wrap breaks s into lines that fit the terminal, with one indent for the first
// line and another for the rest.
func wrap(s, first, rest string) string {
	lines := fold(s, width-max(text.StringWidth(first), text.StringWidth(rest)))
	return first + strings.Join(lines, "\n"+rest)
}
