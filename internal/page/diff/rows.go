package diff

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sergi/go-diff/diffmatchpatch"
)

// Kind says how the two sides of a row compare.
type Kind string

// The kinds.
const (
	Same    Kind = "same"
	Changed Kind = "changed" // the old line became the new one
	Added   Kind = "added"   // there is no old side
	Removed Kind = "removed" // there is no new side
)

// A Row shows a line of the stage before beside a line of the stage.
type Row struct {
	Kind Kind  `json:"kind"`
	Old  *Line `json:"old,omitempty"`
	New  *Line `json:"new,omitempty"`
}

// A Line is one side of a row.
type Line struct {
	Number int     `json:"number"` // in its file, from 1
	Text   string  `json:"text"`
	Pieces []Piece `json:"pieces,omitempty"` // the text in parts, if a part has a token or is changed
}

// code tells whether the line has code: it is neither empty nor only a comment.
func (l *Line) code() bool {
	if l == nil {
		return false
	}
	text := strings.TrimSpace(l.Text)
	return text != "" && !strings.HasPrefix(text, "//") && !strings.HasPrefix(text, "--")
}

// A Piece is a part of a line.
type Piece struct {
	Text    string `json:"text"`
	Changed bool   `json:"changed,omitempty"` // the other side lacks it
	Token   Token  `json:"token,omitempty"`
}

// rows sets two texts side by side, by a shortest edit of their lines. Lines that differ
// and are alike share a row.
func rows(before, after string) []Row {
	a, b := numbered(before), numbered(after)
	var all []Row
	for _, s := range compare(texts(a), texts(b)) {
		if s.same > 0 {
			for i := range s.same {
				all = append(all, Row{Kind: Same, Old: &a[i], New: &b[i]})
			}
			a, b = a[s.same:], b[s.same:]
			continue
		}
		all = append(all, alike(a[:s.removed], b[:s.added])...)
		a, b = a[s.removed:], b[s.added:]
	}
	return all
}

func numbered(text string) []Line {
	var lines []Line
	for line := range strings.Lines(text) {
		lines = append(lines, Line{Number: len(lines) + 1, Text: strings.TrimSuffix(line, "\n")})
	}
	return lines
}

func texts(lines []Line) []string {
	var all []string
	for _, l := range lines {
		all = append(all, l.Text)
	}
	return all
}

// A span is a run of entries that two lists share, or of entries removed from the first
// and added in the second.
type span struct{ same, removed, added int }

// compare returns the spans of two lists of lines or words, in order.
func compare(a, b []string) []span {
	differ := diffmatchpatch.New()
	differ.DiffTimeout = 0 // a shortest edit, however long it takes
	x, y, _ := differ.DiffLinesToRunes(joined(a), joined(b))
	var all []span
	for _, d := range differ.DiffMainRunes(x, y, false) {
		n := utf8.RuneCountInString(d.Text)
		if d.Type == diffmatchpatch.DiffEqual {
			all = append(all, span{same: n})
			continue
		}
		if len(all) == 0 || all[len(all)-1].same > 0 {
			all = append(all, span{})
		}
		last := &all[len(all)-1]
		if d.Type == diffmatchpatch.DiffDelete {
			last.removed += n
		} else {
			last.added += n
		}
	}
	return all
}

// joined writes each entry as a line, which is what the library compares.
func joined(list []string) string {
	var text strings.Builder
	for _, s := range list {
		text.WriteString(s + "\n")
	}
	return text.String()
}

// minAlike is the least similarity of two lines that share a row.
const minAlike = 0.5

// alike pairs lines of two blocks that differ, keeping their order, so that the sum of
// the pairs' similarities is largest.
func alike(a, b []Line) []Row {
	best := make([][]float64, len(a)+1) // of a[i:], b[j:]
	for i := range best {
		best[i] = make([]float64, len(b)+1)
	}
	paired := func(i, j int) float64 {
		if s := similarity(a[i].Text, b[j].Text); s >= minAlike {
			return s + best[i+1][j+1]
		}
		return -1
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			best[i][j] = max(best[i+1][j], best[i][j+1], paired(i, j))
		}
	}
	var all []Row
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case j == len(b), i < len(a) && best[i][j] == best[i+1][j]:
			all = append(all, Row{Kind: Removed, Old: &a[i]})
			i++
		case i == len(a), best[i][j] == best[i][j+1]:
			all = append(all, Row{Kind: Added, New: &b[j]})
			j++
		default:
			all = append(all, changed(a[i], b[j]))
			i, j = i+1, j+1
		}
	}
	return all
}

var (
	part = regexp.MustCompile(`[\pL\pN_]+|\s+|.`)
	word = regexp.MustCompile(`[\pL\pN_]+`)
)

// similarity is the share of the two lines' letters that are in words of both.
func similarity(a, b string) float64 {
	words := word.FindAllString(a, -1)
	both, all := 0, len(strings.Join(words, ""))
	for _, w := range word.FindAllString(b, -1) {
		all += len(w)
		if i := slices.Index(words, w); i >= 0 {
			both += 2 * len(w)
			words = slices.Delete(words, i, i+1)
		}
	}
	return float64(both) / float64(max(all, 1))
}

// changed returns the row of an old line that became a new one.
func changed(before, after Line) Row {
	a, b := part.FindAllString(before.Text, -1), part.FindAllString(after.Text, -1)
	for _, s := range compare(a, b) {
		before.add(a[:s.same+s.removed], s.same == 0)
		after.add(b[:s.same+s.added], s.same == 0)
		a, b = a[s.same+s.removed:], b[s.same+s.added:]
	}
	return Row{Kind: Changed, Old: &before, New: &after}
}

func (l *Line) add(parts []string, changed bool) {
	if len(parts) > 0 {
		l.Pieces = append(l.Pieces, Piece{Text: strings.Join(parts, ""), Changed: changed})
	}
}
