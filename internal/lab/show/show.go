// Package show draws what the failure lab found: the matrix of anomalies and
// strategies and the timeline of one cell for a terminal, and both together as
// one HTML file that needs no network.
//
// A timeline is worked out once, as a story: for each moment what happens, who
// holds the lock as Redis has it, what is left of the lease, and who believes
// to hold it. The terminal and the page draw the same story.
package show

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"oversell/internal/lab"
)

// width is how many columns the terminal's matrix and timeline may take.
const width = 120

// write writes what was drawn; what names it in the error.
func write(w io.Writer, what, drawn string) error {
	if _, err := io.WriteString(w, drawn); err != nil {
		return fmt.Errorf("writing the %s: %w", what, err)
	}
	return nil
}

// ranOn says what the report was made with.
func ranOn(m lab.Manifest) string {
	clock := "real time"
	if m.Virtual {
		clock = "virtual time"
	}
	parts := append([]string{"redis: " + m.Redis, fmt.Sprintf("leases of %s in %s", m.TTL, clock)}, m.Servers...)
	if m.Go != "" {
		parts = append(parts, fmt.Sprintf("%s on %s, %d CPUs", m.Go, m.OS, m.CPUs))
	}
	if m.Version != "" {
		parts = append(parts, "lab "+m.Version)
	}
	if m.Wall > 0 {
		parts = append(parts, "took "+roundWall(m.Wall).String())
	}
	return clean(strings.Join(parts, "; "))
}

// roundWall keeps three digits or so of how long a run took.
func roundWall(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(10 * time.Millisecond)
}

// verdict says what came out of a cell, beside what is on record.
func verdict(c lab.Cell) string {
	switch {
	case c.Expected == "":
		return fmt.Sprintf("%s (nothing is on record)", c.Outcome)
	case c.AsExpected():
		return fmt.Sprintf("%s, as is on record", c.Outcome)
	}
	return fmt.Sprintf("%s, where %s is on record", c.Outcome, c.Expected)
}

// command is how to run the cell again and see its timeline. What ran on a
// real Redis runs again on a private one: the address of a user's own server
// may hold a password, and is theirs to fill in.
func command(m lab.Manifest, anomaly, strategy string) string {
	out := "go run ./cmd/lab -run " + quote(anomaly) + " -strategy " + quote(strategy)
	if strings.HasPrefix(m.Redis, "redis ") {
		out += " -redis local"
	}
	if m.AskedTTL > 0 {
		out += " -ttl " + m.AskedTTL.String()
	}
	return out
}

// quote makes one word of s for a shell. Names are words already, unless a
// report was made by something else.
func quote(s string) string {
	plain := func(r rune) bool {
		return r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)) || strings.ContainsRune("-_./", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// clean takes out what would move a terminal's cursor or change its colours:
// replies and errors come from elsewhere.
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
