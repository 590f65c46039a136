package show

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"

	"oversell/internal/lab"
)

// maxLines is how many lines one row may take. Longer text is cut.
const maxLines = 4

var signs = map[lab.Kind]string{
	lab.Hold: "▼ ", lab.Release: "▲ ", lab.Lost: "△ ", lab.Fault: "‡ ", lab.Note: "· ", expiry: "· ",
}

// noEnd is shown as the rest of the lease when the lock has no lease.
const noEnd = "no end"

func (r row) held() bool { return r.holder != "" && r.holder != free }

// lines formats what happens in the row, in lines of at most n columns. A long
// command is cut before its reply is cut.
func (s sheet) lines(r row, n int) []string {
	reply := s.outcome(r)
	what := signs[r.kind]
	if r.answers {
		what = "↳ "
	}
	what += abridge(clean(r.text))
	room := n * (maxLines - 1) // the last line is for what is left over because lines break at spaces
	reply = text.Snip(reply, max(n, room/2), "…")
	lines := fold(text.Snip(what, room-text.StringWidth(reply), "…")+reply, n)
	if len(lines) > maxLines {
		lines = lines[:maxLines]
		lines[maxLines-1] = text.Snip(lines[maxLines-1]+"…", n, "…")
	}
	return lines
}

func (s sheet) outcome(r row) string {
	if r.waits {
		return " …"
	}
	out := ""
	if r.reply != "" {
		out = " → " + abridge(clean(r.reply))
	}
	if again := r.again(s.clock); again != "" {
		out += ", " + s.Say(again)
	}
	return out
}

// again says how often the same thing happened, and until when; "" if only
// once.
func (r row) again(c clock) string {
	if r.times < 2 {
		return ""
	}
	if c.format(r.last) == c.format(r.at) {
		return fmt.Sprintf("×%d", r.times)
	}
	return fmt.Sprintf("×%d until %s", r.times, c.format(r.last))
}

// Text that is not worth reading in full: the hash of a script, a UUID token,
// and the name of a script, which is its first comment.
var (
	longHex    = regexp.MustCompile(`\b([0-9a-f]{8})([0-9a-f]{32}|-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\b`)
	longScript = regexp.MustCompile(`«([^»]{22})[^»]{4,}»`)
)

// abridge shortens long names, to leave room for what distinguishes commands.
func abridge(s string) string {
	return longScript.ReplaceAllString(longHex.ReplaceAllString(s, "$1…"), "«$1…»")
}

// culprit returns the actor that a break is about, unless the text begins with
// its name.
func (s story) culprit(r row) string {
	if r.actor == everyone || strings.HasPrefix(r.text, s.actors[r.actor]+" ") {
		return ""
	}
	return s.actors[r.actor] + ": "
}

func (s story) in(style Style) story {
	s.rows = slices.Clone(s.rows)
	for i, r := range s.rows {
		if r.kind == lab.Break {
			r.text = s.culprit(r) + r.text
		}
		r.text, r.reply = style.row(r.kind, r.text, r.reply)
		s.rows[i] = r
	}
	return s
}

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

// A timeline of at least longRun milliseconds is shown in seconds.
const longRun = 10_000

// clock formats the moments of one timeline, all in one unit.
type clock struct {
	unit     string
	factor   float64
	decimals int
}

// newClock chooses the unit by the last moment, and uses decimals only where
// needed: in virtual time, moments are whole milliseconds.
func newClock(moments []float64) clock {
	c := clock{unit: "ms", factor: 1}
	for _, m := range moments {
		if m >= longRun {
			return clock{unit: "s", factor: 1000, decimals: 3}
		}
		if math.Abs(m-math.Round(m)) > 0.02 {
			c.decimals = 1
		}
	}
	return c
}

func (c clock) format(ms float64) string {
	return strconv.FormatFloat(ms/c.factor, 'f', c.decimals, 64)
}
