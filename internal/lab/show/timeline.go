package show

import (
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"

	"oversell/internal/lab"
	"oversell/internal/message"
)

// Timeline writes what happened in one cell of r: the anomaly, the outcome, and, for each moment,
// what each actor did, which actor holds the lock according to Redis, and which actors believe that
// they hold it. It ends with the command that reproduces the cell.
func Timeline(w io.Writer, r lab.Report, c lab.Cell, style Style) error {
	var b strings.Builder
	style.writeHeading(&b, r, c)
	s := tell(c, style)
	if len(s.Rows) == 0 {
		b.WriteString(style.Say("Nothing was run, so there is no timeline.") + "\n")
	} else {
		newSheet(s, style).write(&b)
	}
	fmt.Fprintf(&b, "\n%s\n", style.Sayf("See it again: %s", clean(style.command(r.Manifest, c.Anomaly, c.Strategy))))
	return write(w, "timeline", b.String())
}

// Schedule writes the result of a schedule: the verdict, and what each buyer did at each moment.
func Schedule(w io.Writer, s lab.State, style Style) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", paint(text.Colors{text.Bold}, clean(s.Strategy+": "+s.Moves), style.Colour))
	fmt.Fprintf(&b, "%s\n\n", wrap(clean(style.Tell(s.Verdict.Sentence, s.Verdict.Message)), "", ""))
	if len(s.Trace) == 0 {
		b.WriteString(style.Say("Nothing has happened.") + "\n")
	} else {
		newSheet(tell(lab.Cell{Trace: s.Trace}, style), style).write(&b)
	}
	return write(w, "schedule", b.String())
}

func (s Style) writeHeading(b *strings.Builder, r lab.Report, c lab.Cell) {
	a := lab.Anomaly{Name: c.Anomaly}
	if i := slices.IndexFunc(r.Anomalies, func(a lab.Anomaly) bool { return a.Name == c.Anomaly }); i >= 0 {
		a = r.Anomalies[i]
	}
	a = s.about(a)
	fmt.Fprintf(b, "%s\n", paint(text.Colors{text.Bold}, clean(s.on(c)), s.Colour))
	if a.Sentence != "" {
		fmt.Fprintf(b, "%s\n", wrap(clean(a.Sentence), "", ""))
	}
	b.WriteString("\n")
	field := func(name, value string, style text.Colors) {
		if value == "" {
			return
		}
		rest := strings.Repeat(" ", 10)
		first, others, more := strings.Cut(wrap(clean(value), rest, rest), "\n")
		fmt.Fprintf(b, "%s%s\n", pad(s.Say(name), len(rest)), paint(style, strings.TrimPrefix(first, rest), s.Colour))
		if more {
			b.WriteString(others + "\n")
		}
	}
	field("sequence", a.Sequence, nil)
	field("for real", a.Source, nil)
	field("verdict", s.verdict(r.Manifest, c), outcomeColours(c))
	field("because", s.Tell(c.Note, c.Message), nil)
	field("ran on", s.ranOn(r.Manifest), text.Colors{text.Faint})
	b.WriteString("\n")
}

// The columns of a timeline, and the space between them.
const (
	momentWidth = 8
	holderWidth = 12
	leaseWidth  = 8
	actorWidth  = 10
	minLane     = 24 // if lanes would be narrower, no lanes are drawn
	between     = "  "
)

// hues contains the colours of the actors. Red is reserved for what goes wrong.
var hues = []text.Color{text.FgCyan, text.FgMagenta, text.FgYellow, text.FgBlue, text.FgGreen}

// sheet draws a story for a terminal, with one column for each actor. If there are too many actors,
// it draws a single column in which each line names its actor.
type sheet struct {
	story
	Style
	lane int // width of an actor's lane; 0 means no lanes
}

func newSheet(s story, style Style) sheet {
	sh := sheet{story: s, Style: style}
	if n := len(s.Actors); n > 0 {
		lane := (sh.right() - (n-1)*len(between)) / n
		if lane >= minLane {
			sh.lane = lane
		}
	}
	return sh
}

func (s sheet) right() int {
	left := momentWidth
	if s.Lock {
		left += len(between) + holderWidth + leaseWidth
	}
	return width - left - len(between)
}

func (s sheet) write(b *strings.Builder) {
	writeLine := func(left, right string) {
		b.WriteString(strings.TrimRight(left+between+right, " ") + "\n")
	}
	left, right := s.heads()
	writeLine(paint(text.Colors{text.Bold}, left, s.Colour), right)
	b.WriteString(paint(text.Colors{text.Faint}, strings.Repeat("─", width), s.Colour) + "\n")
	blank := strings.Repeat(" ", width-s.right()-len(between))
	for _, r := range s.Rows {
		left := s.standing(r)
		for _, line := range s.beside(r) {
			writeLine(left, line)
			left = blank
		}
	}
	b.WriteString("\n" + wrap(s.legend(), "", "  ") + "\n")
}

func (s sheet) heads() (left, right string) {
	left = alignRight(s.Unit, momentWidth)
	if s.Lock {
		left += between + pad(s.Say("held by"), holderWidth) + alignRight(s.Say("ttl left"), leaseWidth)
	}
	if s.lane == 0 {
		return left, pad(s.Say("believe"), holderWidth) + between + pad(s.Say("who"), actorWidth) + between +
			s.Say("does what")
	}
	lanes := make([]string, len(s.Actors))
	for i, a := range s.Actors {
		lanes[i] = s.ofActor(i, pad(noBands+a, s.lane))
	}
	return left, strings.Join(lanes, between)
}

// standing formats the time of the row, the holder of the lock according to Redis, and the time
// left on the lease.
func (s sheet) standing(r row) string {
	out := alignRight(r.Time, momentWidth)
	if !s.Lock {
		return out
	}
	holder := r.Holder
	if holder == free {
		holder = s.Say(free)
	}
	return out + between + s.ofActor(r.Holding, pad(holder, holderWidth)) + alignRight(r.Left, leaseWidth)
}

func (s sheet) ofActor(actor int, what string) string {
	if actor == everyone {
		return what
	}
	return paint(text.Colors{hues[actor%len(hues)]}, what, s.Colour)
}

func (s sheet) legend() string {
	out := ""
	switch {
	case s.lane == 0:
	case s.Lock:
		out = s.Sayf("%s beside a lane: it holds the lock according to Redis; "+
			"%s: it believes that it does; ", bandHolds,
			bandBelieves)
	default: // the lock is not in Redis
		out = s.Sayf("%s beside a lane: it believes that it holds the lock; ", bandBelieves)
	}
	return out +
		s.Say("▼ holds, ▲ gives back, △ is told of the loss, ‡ done to it from outside, … no reply yet, ↳ the reply")
}

func alignRight(s string, n int) string {
	return strings.Repeat(" ", max(0, n-text.StringWidth(s))) + s
}

// The two bands at the left of an actor's lane, and spaces of the same width.
const (
	bandHolds    = "┃" // the actor holds the lock according to Redis
	bandBelieves = "║" // the actor believes that it holds the lock
	noBands      = "   "
)

// beside returns the lines to the right of the columns that standing formats.
func (s sheet) beside(r row) []string {
	switch {
	case r.Kind == lab.Break:
		return s.banner(r)
	case s.lane == 0:
		return s.listed(r)
	case r.Actor == everyone:
		return s.lines(r, s.right())
	}
	var out []string
	for _, line := range s.lines(r, s.lane-len(noBands)) {
		out = append(out, s.lanes(r, paint(r.colours(), pad(line, s.lane-len(noBands)), s.Colour)))
	}
	return out
}

func (s sheet) banner(r row) []string {
	mark := s.Say("━━ BREAKS ━━ ")
	noMark := strings.Repeat(" ", text.StringWidth(mark))
	lines := fold(clean(r.Text), s.right()-len(noMark))
	for i := range lines {
		if i > 0 {
			lines[i] = noMark + lines[i]
			continue
		}
		lines[i] = mark + lines[i] + " "
		lines[i] += strings.Repeat("━", max(0, s.right()-text.StringWidth(lines[i])))
	}
	for i := range lines {
		lines[i] = paint(text.Colors{text.FgRed, text.Bold}, lines[i], s.Colour)
	}
	return lines
}

// lanes draws all lanes with their bands, and content in the lane of the row's
// actor.
func (s sheet) lanes(r row, content string) string {
	out := make([]string, len(s.Actors))
	for i := range s.Actors {
		out[i] = s.bands(r, i) + strings.Repeat(" ", s.lane-len(noBands))
		if i == r.Actor {
			out[i] = s.bands(r, i) + content
		}
	}
	return strings.Join(out, between)
}

// bands draws the two bands of an actor. The second is red if the actor believes that it holds the
// lock although, according to Redis, it does not.
func (s sheet) bands(r row, actor int) string {
	holds, believes := " ", " "
	if r.Holding == actor {
		holds = s.ofActor(actor, bandHolds)
	}
	if slices.Contains(r.Believe, actor) {
		believes = s.ofActor(actor, bandBelieves)
		if s.Lock && !s.isWith(r.Holding, actor) {
			believes = paint(text.Colors{text.FgRed, text.Bold}, bandBelieves, s.Colour)
		}
	}
	return holds + believes + " "
}

// listed draws a row without lanes: which actors believe that they hold the lock, which actor acts,
// and what it does.
func (s sheet) listed(r row) []string {
	var believe []string
	for _, a := range r.Believe {
		believe = append(believe, s.Actors[a])
	}
	actor := ""
	if r.Actor != everyone {
		actor = s.Actors[r.Actor]
	}
	lead := pad(strings.Join(believe, " "), holderWidth) + between + s.ofActor(r.Actor, pad(actor, actorWidth)) +
		between
	blank := strings.Repeat(" ", holderWidth+actorWidth+2*len(between))
	var out []string
	for _, line := range s.lines(r, s.right()-len(blank)) {
		out = append(out, lead+paint(r.colours(), line, s.Colour))
		lead = blank
	}
	return out
}

// maxLines is the maximum number of lines in one row. Longer text is cut.
const maxLines = 4

var signs = map[lab.Kind]string{
	lab.Hold: "▼ ", lab.Release: "▲ ", lab.Lost: "△ ", lab.Fault: "‡ ", lab.Note: "· ", expiry: "· ",
}

// lines formats what happens in the row, in lines of at most n columns. If the text is too long,
// the command is cut before the reply.
func (s sheet) lines(r row, n int) []string {
	reply := s.outcome(r)
	what := signs[r.Kind]
	if r.Answers {
		what = "↳ "
	}
	what += abridge(clean(r.Text))
	room := n * (maxLines - 1) // the last line is kept in reserve, because lines break at spaces
	reply = text.Snip(reply, max(n, room/2), "…")
	lines := fold(text.Snip(what, room-text.StringWidth(reply), "…")+reply, n)
	if len(lines) > maxLines {
		lines = lines[:maxLines]
		lines[maxLines-1] = text.Snip(lines[maxLines-1]+"…", n, "…")
	}
	return lines
}

func (s sheet) outcome(r row) string {
	if r.Waits {
		return " …"
	}
	out := ""
	if r.Reply != "" {
		out = " → " + abridge(clean(r.Reply))
	}
	if r.Again != "" {
		out += ", " + r.Again
	}
	return out
}

// again says how many times the same thing happened and when it last happened. It says nothing if it
// happened once.
func (r row) again(c clock) message.Message {
	if r.times < 2 {
		return message.Message{}
	}
	if c.format(r.last) == c.format(r.At) {
		return message.Text(fmt.Sprintf("×%d", r.times))
	}
	return message.Newf("×%d until %s", r.times, c.format(r.last))
}

// The long names that are shortened: the hash of a script, a UUID token, and the name of a script,
// which is its first comment.
var (
	longHex    = regexp.MustCompile(`\b([0-9a-f]{8})([0-9a-f]{32}|-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\b`)
	longScript = regexp.MustCompile(`«([^»]{22})[^»]{4,}»`)
)

// abridge shortens long names, to leave room for the parts in which commands differ.
func abridge(s string) string {
	return longScript.ReplaceAllString(longHex.ReplaceAllString(s, "$1…"), "«$1…»")
}

func (r row) colours() text.Colors {
	switch r.Kind {
	case lab.Fault, lab.Lost:
		return text.Colors{text.FgYellow}
	case lab.Hold, lab.Release:
		return text.Colors{text.Bold}
	case lab.Note, expiry:
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

// newClock chooses the unit according to the last moment. It uses decimals only if they are needed:
// in virtual time, moments are whole milliseconds.
func newClock(rows []row) clock {
	c := clock{unit: "ms", factor: 1}
	for _, r := range rows {
		if r.At >= longRun {
			return clock{unit: "s", factor: 1000, decimals: 3}
		}
		if math.Abs(r.At-math.Round(r.At)) > 0.02 {
			c.decimals = 1
		}
	}
	return c
}

func (c clock) format(ms float64) string {
	return strconv.FormatFloat(ms/c.factor, 'f', c.decimals, 64)
}
