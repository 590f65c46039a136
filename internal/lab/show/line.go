package show

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"

	"oversell/internal/lab"
)

// maxLines is how many lines one row may take. What is longer is cut.
const maxLines = 4

// signs begin the rows that are no commands.
var signs = map[lab.Kind]string{
	lab.Hold: "▼ ", lab.Release: "▲ ", lab.Lost: "△ ", lab.Fault: "‡ ", lab.Note: "· ", expiry: "· ",
}

// noEnd is what is left of a lease that there is not.
const noEnd = "no end"

// held reports whether somebody holds the lock, as Redis has it.
func (r row) held() bool { return r.holder != "" && r.holder != free }

// lines is what happens in the row, in lines of at most n columns. A long
// command is cut before its reply is.
func (r row) lines(n int, c clock) []string {
	reply := r.outcome(c)
	what := signs[r.kind]
	if r.answers {
		what = "↳ "
	}
	what += abridge(clean(r.text))
	room := n * (maxLines - 1) // the last line is for what lines that end at a space leave over
	reply = text.Snip(reply, max(n, room/2), "…")
	lines := fold(text.Snip(what, room-text.StringWidth(reply), "…")+reply, n)
	if len(lines) > maxLines {
		lines = lines[:maxLines]
		lines[maxLines-1] = text.Snip(lines[maxLines-1]+"…", n, "…")
	}
	return lines
}

// outcome is what became of a command, as it is written after it.
func (r row) outcome(c clock) string {
	if r.waits {
		return " …"
	}
	out := ""
	if r.reply != "" {
		out = " → " + abridge(clean(r.reply))
	}
	if again := r.again(c); again != "" {
		out += ", " + again
	}
	return out
}

// again says how often the same happened, and until when; "" for once.
func (r row) again(c clock) string {
	if r.times < 2 {
		return ""
	}
	if c.format(r.last) == c.format(r.at) {
		return fmt.Sprintf("×%d", r.times)
	}
	return fmt.Sprintf("×%d until %s", r.times, c.format(r.last))
}

// What nobody reads to its end: the hash of a script, a token that is a UUID,
// and what a script is called by its first comment.
var (
	longHex    = regexp.MustCompile(`\b([0-9a-f]{8})([0-9a-f]{32}|-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\b`)
	longScript = regexp.MustCompile(`«([^»]{22})[^»]{4,}»`)
)

// abridge cuts long names, to leave room for what tells commands apart.
func abridge(s string) string {
	return longScript.ReplaceAllString(longHex.ReplaceAllString(s, "$1…"), "«$1…»")
}

// culprit is the actor that a break is told of, where the text does not begin
// with its name.
func (s story) culprit(r row) string {
	if r.actor == everyone || strings.HasPrefix(r.text, s.actors[r.actor]+" ") {
		return ""
	}
	return s.actors[r.actor] + ": "
}

// colours are those of a row's text.
func (r row) colours() text.Colors {
	switch r.kind {
	case lab.Fault, lab.Lost:
		return text.Colors{text.FgYellow}
	case lab.Hold, lab.Release:
		return text.Colors{text.Bold}
	case lab.Note, expiry, omission:
		return text.Colors{text.Faint}
	}
	return nil
}
