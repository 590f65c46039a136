package search

import (
	"slices"
	"time"

	"oversell/internal/lab"
)

// moves lists what the scheduler may do in a state, but for letting time pass. Of moves
// that lead to the same in any order it lists one order:
//
//   - A process that stops or dies while no time passes afterwards does no more than one
//     that takes no step. So time passes next, unless the process waits in Redis: then
//     it matters what it receives first.
//   - A process that goes on takes a step next, or time passes.
//   - A buyer that asked in vain, of what Redis still has, is not let ask again: it is
//     refused again, and is where it was.
func (s *state) moves() []lab.Move {
	var out []lab.Move
	for i := range s.buyers {
		if s.only.kind == noLimit || s.only == (limit{thenStep, i}) {
			out = append(out, s.steps(i)...)
		}
	}
	for i := range s.buyers {
		b := &s.buyers[i]
		if !b.alive() || s.only.kind == thenStep {
			continue
		}
		if b.frozen && s.only.kind == noLimit {
			out = append(out, lab.Move{Action: lab.Thaw, Buyer: i})
		}
		if b.now().done {
			continue
		}
		if !b.frozen && s.left.Freezes > 0 {
			out = append(out, lab.Move{Action: lab.Freeze, Buyer: i})
		}
		if s.left.Kills > 0 {
			out = append(out, lab.Move{Action: lab.Kill, Buyer: i})
		}
	}
	return out
}

// steps lists the steps of one buyer, with and without the loss of the reply. Buyers
// are alike, so they come in their order.
func (s *state) steps(i int) []lab.Move {
	b := &s.buyers[i]
	var held []lab.Request
	switch {
	case b.dead || b.frozen:
	case b.history == nil && (i == 0 || s.buyers[i-1].history != nil):
		held = make([]lab.Request, 1)
	case b.history != nil:
		held = s.held(i)
		if _, ready := b.history.polls(b.idle); ready && s.inVain(i) {
			held = nil
		}
	}
	var out []lab.Move
	for nth, o := range held {
		if never(o) {
			continue
		}
		out = append(out, lab.Move{Action: lab.Step, Buyer: i, Nth: nth + 1})
		if s.left.Losses > 0 {
			out = append(out, lab.Move{Action: lab.Lose, Buyer: i, Nth: nth + 1})
		}
	}
	return out
}

// inVain reports whether the buyer's last command changed nothing, and Redis has the same
// still.
func (s *state) inVain(i int) bool {
	b := &s.buyers[i]
	return b.vain && b.asked.sameBut(s.data)
}

// limited notes what may follow a move.
func (s *state) limited(m lab.Move) {
	waits := slices.ContainsFunc(s.waits, func(w wait) bool { return w.buyer == m.Buyer })
	switch m.Action {
	case lab.Freeze, lab.Kill:
		if _, ok := s.nearest(); ok && !waits {
			s.only = limit{kind: thenPass}
		}
	case lab.Thaw:
		s.only = limit{thenStep, m.Buyer}
	}
}

// nearest is how long it takes until something happens of its own accord: a key expires, a
// program goes on, or a command that waits in Redis has its reply. In between nothing
// changes. What happens in a frozen process, or to a buyer that wakes only to be refused
// again, counts only if nothing else happens.
func (s *state) nearest() (time.Duration, bool) {
	soon, vain := time.Duration(0), time.Duration(0)
	sooner := func(d *time.Duration, left time.Duration) {
		left = (left + time.Millisecond - 1).Truncate(time.Millisecond)
		if *d == 0 || left < *d {
			*d = left
		}
	}
	for _, k := range s.data {
		if k.left >= 0 {
			sooner(&soon, k.left)
		}
	}
	for _, w := range s.waits {
		sooner(&soon, w.left)
	}
	for i := range s.buyers {
		b := &s.buyers[i]
		next, ok := b.next()
		if !ok {
			continue
		}
		if sleeps, _ := b.history.polls(b.idle); b.frozen || sleeps && s.inVain(i) {
			sooner(&vain, next)
		} else {
			sooner(&soon, next)
		}
	}
	if soon == 0 {
		soon = vain
	}
	return min(soon, lab.MaxPass), soon > 0
}
