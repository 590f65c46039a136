package diff

import (
	"fmt"
	"strings"
	"testing"
)

// coloured writes each piece with a token as <token:text>, and each changed one in brackets.
func coloured(l *Line) string {
	var text strings.Builder
	for _, p := range l.Pieces {
		part := p.Text
		if p.Token != "" {
			part = fmt.Sprintf("<%s:%s>", p.Token, part)
		}
		if p.Changed {
			part = "[" + part + "]"
		}
		text.WriteString(part)
	}
	return text.String()
}

func TestCodeHasTokens(t *testing.T) {
	for _, tt := range []struct{ language, text, want string }{
		{"go", "return x, 0x1F // why", "<keyword:return> x, <number:0x1F> <comment:// why>"},
		{"go", `f("a // b", 'c', 1.5)`, `f(<string:"a // b">, <string:'c'>, <number:1.5>)`},
		{"go", "a := `x\ny` + z\n", "a := <string:`x>\n<string:y`> + z"},
		{"go", "/* one\n\n  two */ var größe int\n", "<comment:/* one>\n\n<comment:  two */> <keyword:var> größe int"},
		{"go", `s := "not closed`, `s := <string:"not closed>`},
		{"lua", "if redis.call('GET', KEYS[1]) ~= 'it\\'s -- x' then", "<keyword:if> redis.call(<string:'GET'>, KEYS[<number:1>]) ~= <string:'it\\'s -- x'> <keyword:then>"},
		{"lua", "local v1 = 2.5e3 -- end", "<keyword:local> v1 = <number:2.5e3> <comment:-- end>"},
		{"lua", "--[[ one\ntwo ]] x = [[y\nz]]", "<comment:--[[ one>\n<comment:two ]]> x = <string:[[y>\n<string:z]]>"},
	} {
		rows := rows("", tt.text)
		colour(rows, tt.language, "", tt.text)
		var lines []string
		for _, r := range rows {
			lines = append(lines, coloured(r.New))
		}
		if got := strings.Join(lines, "\n"); got != tt.want {
			t.Errorf("%q: got\n%s\nwant\n%s", tt.text, got, tt.want)
		}
	}
}

// A token of which a part changed is two pieces of one colour.
func TestChangedPiecesHaveTokens(t *testing.T) {
	before, after := "return set(ctx, \"a b\", 0)\n", "return set(ctx, \"a c\", ttl)\n"
	rows := rows(before, after)
	colour(rows, "go", before, after)
	if got, want := coloured(rows[0].Old), `<keyword:return> set(ctx, <string:"a >[<string:b>]<string:">, [<number:0>])`; got != want {
		t.Errorf("the old side is %s, want %s", got, want)
	}
	if got, want := coloured(rows[0].New), `<keyword:return> set(ctx, <string:"a >[<string:c>]<string:">, [ttl])`; got != want {
		t.Errorf("the new side is %s, want %s", got, want)
	}
}

// Every comment line of every stage is a comment throughout, and nothing else is.
func TestStagesHaveTheirColours(t *testing.T) {
	for _, s := range all(t) {
		for _, f := range s.Files {
			seen := make(map[Token]bool)
			for _, r := range f.Rows {
				for _, l := range []*Line{r.Old, r.New} {
					if l == nil {
						continue
					}
					comment := true
					for _, p := range l.Pieces {
						seen[p.Token] = true
						comment = comment && (p.Token == Comment || strings.TrimSpace(p.Text) == "")
					}
					if strings.TrimSpace(l.Text) != "" && (comment && len(l.Pieces) > 0) == l.code() {
						t.Errorf("%s/%s:%d: %q has %+v", s.Name, f.Name, l.Number, l.Text, l.Pieces)
					}
				}
			}
			if !seen[Keyword] || !seen[Comment] {
				t.Errorf("%s/%s has only the colours %v", s.Name, f.Name, seen)
			}
		}
	}
}
