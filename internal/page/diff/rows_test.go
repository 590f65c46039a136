package diff

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// side reassembles one side of the rows. Lines count from 1, in order.
func side(rows []Row, of func(Row) *Line) string {
	var text strings.Builder
	number := 0
	for _, r := range rows {
		l := of(r)
		if l == nil {
			continue
		}
		if number++; l.Number != number {
			return fmt.Sprintf("line %d comes after line %d", l.Number, number-1)
		}
		if len(l.Pieces) > 0 && pieces(l.Pieces, false) != l.Text {
			return fmt.Sprintf("line %d is %q, and its pieces are %q", number, l.Text, pieces(l.Pieces, false))
		}
		text.WriteString(l.Text + "\n")
	}
	return text.String()
}

// pieces joins pieces, with brackets around the changed ones if marked is set.
func pieces(list []Piece, marked bool) string {
	var text strings.Builder
	for _, p := range list {
		if p.Changed && marked {
			p.Text = "[" + p.Text + "]"
		}
		text.WriteString(p.Text)
	}
	return text.String()
}

// shown writes rows as text: the kind, the two lines, and in brackets the words of a changed
// line that the other side lacks.
func shown(rows []Row) string {
	var text strings.Builder
	for _, r := range rows {
		one := func(l *Line) string {
			switch {
			case l == nil:
				return ""
			case len(l.Pieces) > 0:
				return pieces(l.Pieces, true)
			}
			return l.Text
		}
		fmt.Fprintf(&text, "%s: %s | %s\n", r.Kind, one(r.Old), one(r.New))
	}
	return text.String()
}

func TestRows(t *testing.T) {
	for _, tt := range []struct{ name, before, after, want string }{
		{"nothing changes", "a\nb\n", "a\nb\n", "same: a | a\nsame: b | b\n"},
		{"a new file", "", "a\nb\n", "added:  | a\nadded:  | b\n"},
		{"a file that is gone", "a\n\n", "", "removed: a | \nremoved:  | \n"},
		{"a line between", "a\nc\n", "a\nb\nc\n", "same: a | a\nadded:  | b\nsame: c | c\n"},
		{"other words", "set(ctx, key, 0)\n", "set(ctx, key, ttl)\n", "changed: set(ctx, key, [0]) | set(ctx, key, [ttl])\n"},
		{"words more", "f(key)\n", "f(key, token)\n", "changed: f(key) | f(key[, token])\n"},
		{"nothing in common", "one two\n", "drei vier\n", "removed: one two | \nadded:  | drei vier\n"},
		{"the line that is alike, not the first",
			"x := get(key)\nn, err := del(ctx, key)\n",
			"n, err := run(ctx, key)\n",
			"removed: x := get(key) | \nchanged: n, err := [del](ctx, key) | n, err := [run](ctx, key)\n"},
		{"letters of other languages", "// größer als\n", "// kleiner als …\n", "removed: // größer als | \nadded:  | // kleiner als …\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := shown(rows(tt.before, tt.after)); got != tt.want {
				t.Errorf("got\n%swant\n%s", got, tt.want)
			}
		})
	}
}

// For any texts, the sides are the texts, equal lines are Same, and there are as many of
// them as possible.
func TestRowsOfAnyTexts(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	text := func() []string {
		var lines []string
		for range random.IntN(400) {
			lines = append(lines, fmt.Sprintf("word%d (other%d)", random.IntN(9), random.IntN(9)))
		}
		return lines
	}
	for range 20 {
		a, b := text(), text()
		got := rows(joined(a), joined(b))
		if side(got, func(r Row) *Line { return r.Old }) != joined(a) || side(got, func(r Row) *Line { return r.New }) != joined(b) {
			t.Fatal("the sides are not the texts")
		}
		same := 0
		for _, r := range got {
			equal := r.Old != nil && r.New != nil && r.Old.Text == r.New.Text
			if equal != (r.Kind == Same) {
				t.Fatalf("%v is called %s", shown([]Row{r}), r.Kind)
			}
			if r.Kind == Same {
				same++
			}
		}
		if most := common(a, b); same != most {
			t.Errorf("%d lines are the same; there can be %d", same, most)
		}
	}
}

// common is the length of a longest common subsequence.
func common(a, b []string) int {
	best := make([]int, len(b)+1)
	for _, x := range a {
		next := slices.Clone(best)
		for j, y := range b {
			if x == y {
				next[j+1] = best[j] + 1
			} else {
				next[j+1] = max(next[j], best[j+1])
			}
		}
		best = next
	}
	return best[len(b)]
}
