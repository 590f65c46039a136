package lockbench

import (
	"time"

	"oversell/internal/fleet"
)

// slots holds the outcomes of a process's contenders in memory that the process shares with the
// runner, so nothing is lost when the process is killed, and nothing has to be sent. Both sides may
// use the memory concurrently.
type slots struct{ *fleet.Words }

// The words of a process: first those about all its contenders, then those of each contender. Times
// are in nanoseconds of Unix time; 0: not yet.
const (
	servedWord = iota // contenders that have unlocked
	overWord          // contenders whose outcome is known
	headerWords

	slotFrom  = 0 // it entered
	slotTo    = 1 // it wrote the counter, or failed to
	slotEnd   = 2 // its outcome was known
	slotState = 3 // one of the states below
	slotSize  = 4
)

// The states of a contender.
const (
	stateWaiting  = iota
	stateInside   // it is not known whether it has written the counter
	stateWritten  // it has written the counter, but not unlocked yet
	stateServed   // it has unlocked
	stateTold     // it was refused, or lost the lock
	stateUnsure   // it got an error, and may have written the counter
	stateUnserved // it did not get the lock before the end of its wait
)

func slotWords(n int) int { return headerWords + slotSize*n }

func (all slots) served() int64 { return all.Load(servedWord) }
func (all slots) over() int64   { return all.Load(overWord) }

// slot is the slot of one contender.
type slot struct {
	slots
	at int
}

func (all slots) slot(i int) slot { return slot{all, headerWords + slotSize*i} }

func (s slot) note(what int, at time.Time) { s.Store(s.at+what, at.UnixNano()) }
func (s slot) state(now int64)             { s.Store(s.at+slotState, now) }

func (s slot) entered() {
	s.note(slotFrom, time.Now())
	s.state(stateInside)
}

// left records the end of the time inside, and whether the counter was written.
func (s slot) left(written bool) {
	s.note(slotTo, time.Now())
	if written {
		s.state(stateWritten)
	}
}

// ended records the outcome.
func (s slot) ended(state int64) {
	s.note(slotEnd, time.Now())
	s.state(state)
	if state == stateServed {
		s.Add(servedWord, 1)
	}
	s.Add(overWord, 1)
}

// slip is a copy of a slot's values.
type slip struct{ from, to, end, state int64 }

func (all slots) slip(i int) slip {
	at := all.slot(i).at
	return slip{all.Load(at + slotFrom), all.Load(at + slotTo), all.Load(at + slotEnd), all.Load(at + slotState)}
}
