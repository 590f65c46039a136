// Package show draws the results of the failure lab. For a terminal, it draws the matrix of
// anomalies and strategies, or the timeline of one cell. It also draws both together as one HTML
// file that needs no network.
//
// A timeline is computed once, as a story. For each moment, a story says what happens, which actor
// holds the lock according to Redis, how much of the lease is left, and which actors believe that
// they hold the lock. The terminal and the page draw the same story.
package show

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"github.com/jedib0t/go-pretty/v6/text"

	"oversell/internal/lab"
	"oversell/internal/present"
)

// width is the maximum number of columns of the matrix and timelines in a
// terminal.
const width = 120

func write(w io.Writer, what, drawn string) error {
	if _, err := io.WriteString(w, drawn); err != nil {
		return fmt.Errorf("writing the %s: %w", what, err)
	}
	return nil
}

func (s Style) ranOn(m lab.Manifest) string {
	leases := "leases of %s in real time"
	if m.Virtual {
		leases = "leases of %s in virtual time"
	}
	parts := []string{s.Sayf("redis: %s", m.Redis), s.Sayf(leases, m.TTL)}
	for _, server := range m.Servers {
		if name, ttl, ok := strings.Cut(server, lab.InRealTime); ok {
			server = s.Sayf("%s"+lab.InRealTime+"%s", name, ttl)
		}
		parts = append(parts, server)
	}
	if m.Database != "" {
		parts = append(parts, s.Sayf("database: %s", m.Database))
	}
	if m.Go != "" {
		parts = append(parts, s.Sayf("%s on %s, %d CPUs", m.Go, m.OS, m.CPUs))
	}
	if m.Version != "" {
		parts = append(parts, s.Sayf("lab %s", m.Version))
	}
	if m.Wall > 0 {
		parts = append(parts, s.Sayf("took %s", roundWall(m.Wall)))
	}
	return clean(strings.Join(parts, s.Say("; ")))
}

// roundWall rounds the duration of a run to about three digits.
func roundWall(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(10 * time.Millisecond)
}

// verdict describes the outcome of a cell, and compares it with the record.
func (s Style) verdict(m lab.Manifest, c lab.Cell) string {
	outcome := s.Say(string(c.Outcome))
	if OnlyEndless(m, c) {
		outcome = s.Say("holds only because its lock never expires")
	}
	switch {
	case c.Expected == lab.NoRecord:
		return s.Sayf("%s (nothing is on record)", outcome)
	case c.AsExpected():
		return s.Sayf("%s, as recorded", outcome)
	}
	return s.Sayf("%s, where %s is on record", outcome, s.Say(string(c.Expected)))
}

// command returns the command that runs the cell again and shows its timeline in the language of s.
// For a cell that ran on a real Redis, the command starts a private Redis, because the address of
// the user's server may contain a password.
func (s Style) command(m lab.Manifest, anomaly, strategy string) string {
	out := "go run ./cmd/lab -run " + anomaly + " -strategies " + strategy
	if strings.HasPrefix(m.Redis, "redis ") {
		out += " -redis local"
	}
	if m.Database != "" && !strings.HasPrefix(m.Database, "SQLite ") {
		out += " -db local"
	}
	if m.AskedTTL > 0 {
		out += " -ttl " + m.AskedTTL.String()
	}
	return s.InLanguage(out)
}

// InLanguage adds the flag that selects the language of s to a command of the lab. English is the
// default and needs no flag.
func (s Style) InLanguage(command string) string {
	language, _, _ := strings.Cut(s.Tag(), "-")
	if language == "en" {
		return command
	}
	return command + " -lang " + language
}

// clean replaces control characters, which could move a terminal's cursor or change its colours.
// Replies and errors are untrusted.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t', r == '\r':
			return ' '
		case unicode.IsPrint(r):
			return r
		}
		return '\uFFFD'
	}, s)
}

// Style selects the language and the colours in which a report is shown.
type Style struct{ present.Style }

// Brief returns the title of an anomaly, if it has one, followed by its sentence.
func (s Style) Brief(a lab.Anomaly) string {
	sentence := s.about(a).Sentence
	if title := s.title(a.Name); title != "" {
		return s.Sayf("%s: %s", title, sentence)
	}
	return sentence
}

// title returns the title of an anomaly in the style's language, or "".
func (s Style) title(anomaly string) string { return s.Named("anomaly."+anomaly+".title", "") }

func (s Style) called(anomaly string) string {
	return strings.TrimLeft(s.title(anomaly)+" "+anomaly, " ")
}

func (s Style) on(c lab.Cell) string { return s.Sayf("%s on %s", s.called(c.Anomaly), c.Strategy) }

func (s Style) about(a lab.Anomaly) lab.Anomaly {
	a.Sentence = s.Named("anomaly."+a.Name+".sentence", s.Say(a.Sentence))
	a.Sequence = s.Named("anomaly."+a.Name+".sequence", s.Say(a.Sequence))
	a.Source = s.Say(a.Source)
	return a
}

func paint(style text.Colors, s string, colour bool) string {
	if !colour || len(style) == 0 || strings.TrimSpace(s) == "" {
		return s
	}
	return style.Sprint(s)
}

func pad(s string, n int) string {
	return text.Pad(text.Snip(clean(s), n, "…"), n, ' ')
}

// wrap breaks s into lines that fit the terminal, with one indent for the first
// line and another for the rest.
func wrap(s, first, rest string) string {
	lines := fold(s, width-max(text.StringWidth(first), text.StringWidth(rest)))
	return first + strings.Join(lines, "\n"+rest)
}

// isWide reports whether a character is two columns wide, as Chinese characters are. A line may be
// broken before and after a wide character.
func isWide(r rune) bool { return text.RuneWidth(r) > 1 }

// Punctuation that must not begin a line, and punctuation that must not end a line.
const (
	closing = "，。、；：？！）》”’"
	opening = "（《“‘"
)

// fold breaks a text into lines of at most n columns. Lines are broken at spaces, next to wide
// characters, and inside words that are too long.
func fold(s string, n int) []string {
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

// pieces cuts a text at every point where a line may end.
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
