package show

import (
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"
)

// The columns of a timeline, and the space between them.
const (
	momentWidth = 8
	holderWidth = 12
	leaseWidth  = 8
	actorWidth  = 10
	minLane     = 24 // if they would be narrower, there are no lanes
	between     = "  "
)

// hues are the colours of the actors; red is reserved for what goes wrong.
var hues = []text.Color{text.FgCyan, text.FgMagenta, text.FgYellow, text.FgBlue, text.FgGreen}

// sheet draws a story for a terminal: with a column for each actor, or, if
// there are too many actors, with one column in which each line names its
// actor.
type sheet struct {
	story
	Style
	lane int // width of an actor's lane; 0 means no lanes
}

func newSheet(s story, style Style) sheet {
	sh := sheet{story: s.in(style), Style: style}
	if n := len(s.actors); n > 0 {
		lane := (sh.right() - (n-1)*len(between)) / n
		if lane >= minLane {
			sh.lane = lane
		}
	}
	return sh
}

func (s sheet) right() int {
	left := momentWidth
	if s.lock {
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
	for _, r := range s.rows {
		left := s.standing(r)
		for _, line := range s.beside(r) {
			writeLine(left, line)
			left = blank
		}
	}
	b.WriteString("\n" + wrap(s.legend(), "", "  ") + "\n")
}

func (s sheet) heads() (left, right string) {
	left = alignRight(s.clock.unit, momentWidth)
	if s.lock {
		left += between + pad(s.Say("held by"), holderWidth) + alignRight(s.Say("ttl left"), leaseWidth)
	}
	if s.lane == 0 {
		return left, pad(s.Say("believe"), holderWidth) + between + pad(s.Say("who"), actorWidth) + between +
			s.Say("does what")
	}
	lanes := make([]string, len(s.actors))
	for i, a := range s.actors {
		lanes[i] = s.ofActor(i, pad(noBands+a, s.lane))
	}
	return left, strings.Join(lanes, between)
}

// standing formats the moment, the holder of the lock according to Redis, and
// the rest of the lease.
func (s sheet) standing(r row) string {
	out := alignRight(s.clock.format(r.at), momentWidth)
	if !s.lock {
		return out
	}
	left := ""
	switch {
	case r.ttl != nil:
		left = s.clock.format(*r.ttl)
	case r.held():
		left = s.Say(noEnd)
	}
	holder := r.holder
	if holder == free {
		holder = s.Say(free)
	}
	return out + between + s.ofActor(r.holding, pad(holder, holderWidth)) + alignRight(left, leaseWidth)
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
	case s.lock:
		out = s.Sayf("%s beside a lane: it holds the lock, as Redis has it; %s: it believes that it does; ", bandHolds,
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
