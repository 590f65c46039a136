package show

import (
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"

	"oversell/internal/lab"
)

// The two bands at the left of an actor's lane, and spaces of the same width.
const (
	bandHolds    = "┃" // the actor holds the lock according to Redis
	bandBelieves = "║" // the actor believes that it holds the lock
	noBands      = "   "
)

// beside returns the lines to the right of the standing.
func (s sheet) beside(r row) []string {
	switch {
	case r.kind == lab.Break:
		return s.banner(r)
	case s.lane == 0:
		return s.listed(r)
	case r.actor == everyone:
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
	lines := fold(clean(r.text), s.right()-len(noMark))
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
	out := make([]string, len(s.actors))
	for i := range s.actors {
		out[i] = s.bands(r, i) + strings.Repeat(" ", s.lane-len(noBands))
		if i == r.actor {
			out[i] = s.bands(r, i) + content
		}
	}
	return strings.Join(out, between)
}

// bands draws the two bands of an actor. They are red if the actor believes to
// hold a lock that, according to Redis, is free or another's.
func (s sheet) bands(r row, actor int) string {
	holds, believes := " ", " "
	if r.holding == actor {
		holds = s.ofActor(actor, bandHolds)
	}
	if slices.Contains(r.believe, actor) {
		believes = s.ofActor(actor, bandBelieves)
		if s.lock && !s.isWith(r.holding, actor) {
			believes = paint(text.Colors{text.FgRed, text.Bold}, bandBelieves, s.Colour)
		}
	}
	return holds + believes + " "
}

// listed draws a row without lanes: which actors believe that they hold the
// lock, which one acts, and what it does.
func (s sheet) listed(r row) []string {
	var believe []string
	for _, a := range r.believe {
		believe = append(believe, s.actors[a])
	}
	actor := ""
	if r.actor != everyone {
		actor = s.actors[r.actor]
	}
	lead := pad(strings.Join(believe, " "), holderWidth) + between + s.ofActor(r.actor, pad(actor, actorWidth)) +
		between
	blank := strings.Repeat(" ", holderWidth+actorWidth+2*len(between))
	var out []string
	for _, line := range s.lines(r, s.right()-len(blank)) {
		out = append(out, lead+paint(r.colours(), line, s.Colour))
		lead = blank
	}
	return out
}
