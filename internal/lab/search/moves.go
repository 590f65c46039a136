package search

import (
	"slices"
	"time"

	"oversell/internal/lab"
)

// moves returns the possible moves in a state, except for letting time pass. If several moves lead
// to the same state in any order, moves allows only one order:
//
//   - Freezing or killing a process has no effect until time passes, because the process might as
//     well take no step. So time passes next, unless the process waits in Redis, where it matters
//     what the process receives before.
//   - A process that thaws takes a step next, or time passes.
//   - A buyer whose last command changed nothing does not send it again while the data is still
//     the same, because it would be refused again.
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

// steps returns the steps of one buyer, with and without the loss of the reply. Buyers are
// interchangeable, so they start in their order.
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

// inVain reports whether the buyer's last command changed nothing and the data in Redis is still
// the same.
func (s *state) inVain(i int) bool {
	b := &s.buyers[i]
	return b.vain && b.asked.sameBut(s.data)
}

// limited records which moves may follow the move m, which has led to this state.
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

// nearest returns the time until the next event that needs no move: a key expires, a program
// continues, or a command that waits in Redis gets its reply. Until then nothing changes. Events in
// a frozen process, or of a buyer that wakes only to be refused again, count only if there are no
// other events.
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
