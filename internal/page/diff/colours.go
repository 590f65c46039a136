package diff

import (
	"go/scanner"
	"go/token"
	"math"
	"regexp"
	"slices"
	"strings"
)

// Token is the kind of a piece of code that is shown in a colour of its own.
type Token string

// The tokens. All other code has no colour.
const (
	Keyword Token = "keyword"
	String  Token = "string"
	Number  Token = "number"
	Comment Token = "comment"
)

// A stretch is a token between two offsets of a text.
type stretch struct {
	from, to int
	token    Token
}

// colour sets the tokens of the lines on both sides of the rows.
func colour(rows []Row, language, before, after string) {
	a, b := byLine(before, tokens(language, before)), byLine(after, tokens(language, after))
	for _, r := range rows {
		if r.Old != nil {
			r.Old.colour(a[r.Old.Number-1])
		}
		if r.New != nil {
			r.New.colour(b[r.New.Number-1])
		}
	}
}

// colour cuts the pieces of the line where its tokens begin and end.
func (l *Line) colour(in []stretch) {
	if len(in) == 0 {
		return
	}
	whole := l.Pieces
	if len(whole) == 0 {
		whole = []Piece{{Text: l.Text}}
	}
	var cut []Piece
	at := 0
	for _, p := range whole {
		for rest := p.Text; rest != ""; {
			n, kind := next(in, at)
			n = min(n, len(rest))
			cut = append(cut, Piece{Text: rest[:n], Changed: p.Changed, Token: kind})
			rest, at = rest[n:], at+n
		}
	}
	l.Pieces = cut
}

// next returns the token at an offset, if any, and how far it is from there to where the
// token ends or the next one begins.
func next(in []stretch, at int) (n int, kind Token) {
	for _, s := range in {
		switch {
		case s.to <= at:
		case s.from > at:
			return s.from - at, ""
		default:
			return s.to - at, s.token
		}
	}
	return math.MaxInt, ""
}

// byLine returns the tokens of each line, with offsets in the line. A token of several
// lines is in each of them.
func byLine(text string, all []stretch) [][]stretch {
	var lines [][]stretch
	begin := 0
	for line := range strings.Lines(text) {
		end := begin + len(strings.TrimSuffix(line, "\n"))
		for len(all) > 0 && all[0].to <= begin {
			all = all[1:]
		}
		var in []stretch
		for _, s := range all {
			if s.from >= end {
				break
			}
			in = append(in, stretch{max(s.from, begin) - begin, min(s.to, end) - begin, s.token})
		}
		lines = append(lines, in)
		begin += len(line)
	}
	return lines
}

// tokens returns the tokens of a text, in order.
func tokens(language, text string) []stretch {
	if language == "go" {
		return goTokens(text)
	}
	return luaTokens(text)
}

func goTokens(text string) []stretch {
	var all []stretch
	set := token.NewFileSet()
	file := set.AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(file, []byte(text), nil, scanner.ScanComments) // what is no Go has no colour
	for {
		pos, tok, literal := s.Scan()
		if tok == token.EOF {
			return all
		}
		var kind Token
		switch {
		case tok.IsKeyword():
			kind = Keyword
		case tok == token.STRING, tok == token.CHAR:
			kind = String
		case tok == token.INT, tok == token.FLOAT, tok == token.IMAG:
			kind = Number
		case tok == token.COMMENT:
			kind = Comment
		default:
			continue
		}
		from := file.Offset(pos)
		all = append(all, stretch{from, from + len(literal), kind})
	}
}

// luaToken finds a comment, a string, a number or a word, each in a group of its own. Long
// brackets with equals signs are not known: no script has them.
var luaToken = regexp.MustCompile(`(--(?:\[\[(?s:.*?)\]\]|[^\n]*))` +
	`|('(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|\[\[(?s:.*?)\]\])` +
	`|(0[xX][0-9a-fA-F]+|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)` +
	`|([A-Za-z_]\w*)`)

var luaKeywords = []string{"and", "break", "do", "else", "elseif", "end", "false", "for", "function", "if", "in", "local",
	"nil", "not", "or", "repeat", "return", "then", "true", "until", "while"}

func luaTokens(text string) []stretch {
	var all []stretch
	for _, found := range luaToken.FindAllStringSubmatchIndex(text, -1) {
		from, to := found[0], found[1]
		for i, kind := range []Token{Comment, String, Number, Keyword} {
			if found[2+2*i] < 0 || kind == Keyword && !slices.Contains(luaKeywords, text[from:to]) {
				continue
			}
			all = append(all, stretch{from, to, kind})
		}
	}
	return all
}
