package show

import (
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"
)

func paint(style text.Colors, s string, colour bool) string {
	if !colour || len(style) == 0 || strings.TrimSpace(s) == "" {
		return s
	}
	return style.Sprint(s)
}

func pad(s string, n int) string {
	return text.Pad(text.Snip(clean(s), n, "…"), n, ' ')
}

// fold breaks s at spaces into lines of at most n columns; words that are too
// long are broken as well.
func fold(s string, n int) []string {
	if s == "" {
		return nil
	}
	if hasWide(s) {
		return foldWide(s, n)
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

// isWide reports whether a letter takes two columns, as Chinese ones do. There may be a line
// break on both sides of it.
func isWide(r rune) bool { return text.RuneWidth(r) > 1 }

func hasWide(s string) bool { return strings.ContainsFunc(s, isWide) }

// Marks that do not begin a line, and those that do not end one.
const (
	closing = "，。、；：？！）》”’"
	opening = "（《“‘"
)

func foldWide(s string, n int) []string {
	var lines []string
	line := ""
	end := func() {
		lines, line = append(lines, strings.TrimRight(line, " ")), ""
	}
	for _, piece := range pieces(s) {
		if line != "" && text.StringWidth(line)+text.StringWidth(strings.TrimRight(piece, " ")) > n {
			end()
			piece = strings.TrimLeft(piece, " ")
		}
		for text.StringWidth(strings.TrimRight(piece, " ")) > n { // a long word
			line = text.Trim(piece, n)
			piece = strings.TrimPrefix(piece, line)
			end()
		}
		line += piece
	}
	if line != "" {
		end()
	}
	return lines
}

// pieces cuts a text where a line may end.
func pieces(s string) []string {
	var all []string
	piece, last := "", ' '
	for _, r := range s {
		mayBreak := last == ' ' && r != ' ' || (isWide(r) || isWide(last)) && r != ' '
		if piece != "" && mayBreak && !strings.ContainsRune(closing, r) && !strings.ContainsRune(opening, last) {
			all, piece = append(all, piece), ""
		}
		piece += string(r)
		last = r
	}
	return append(all, piece)
}
