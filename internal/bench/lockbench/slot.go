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

// word returns the number of a word of the i-th contender.
func word(i, what int) int { return headerWords + slotSize*i + what }

func (all slots) note(i, what int) { all.Store(word(i, what), time.Now().UnixNano()) }

// entered records that the i-th contender is inside.
func (all slots) entered(i int) {
	all.note(i, slotFrom)
	all.Store(word(i, slotState), stateInside)
}

// left records the end of the time inside, and whether the counter was written.
func (all slots) left(i int, written bool) {
	all.note(i, slotTo)
	if written {
		all.Store(word(i, slotState), stateWritten)
	}
}

// ended records the outcome.
func (all slots) ended(i int, state int64) {
	all.note(i, slotEnd)
	all.Store(word(i, slotState), state)
	if state == stateServed {
		all.Add(servedWord, 1)
	}
	all.Add(overWord, 1)
}

// slip is a copy of a contender's words.
type slip struct{ from, to, end, state int64 }

// slips copies the words of n contenders.
func (all slots) slips(n int) []slip {
	list := make([]slip, n)
	for i := range list {
		list[i] = slip{all.Load(word(i, slotFrom)), all.Load(word(i, slotTo)), all.Load(word(i, slotEnd)),
			all.Load(word(i, slotState))}
	}
	return list
}
