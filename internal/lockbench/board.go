package lockbench

import (
	"fmt"
	"time"

	"oversell/internal/proc"
)

// board has the outcomes of a process's contenders, in memory that it shares with the
// runner: nothing is lost when the process is killed, and nothing has to be sent. Both
// sides may use it at once.
type board struct{ *proc.Words }

// The words of a board: first those of the process, then those of each of its
// contenders. Times are in nanoseconds of Unix time; 0: not yet.
const (
	boardServed  = iota // contenders that have unlocked
	boardOver           // contenders whose outcome is known
	boardPark           // see the park states
	boardStalled        // longest stall of the process, in nanoseconds
	boardHeader

	slotFrom  = 0 // it entered
	slotTo    = 1 // it wrote the counter, or failed to
	slotEnd   = 2 // its outcome was known
	slotState = 3 // see the states
	slotSize  = 4
)

// The states of a contender.
const (
	stateWaiting  = iota
	stateInside   // it is not known whether it has written
	stateWritten  // the counter, and not unlocked yet
	stateServed   // it has unlocked
	stateTold     // it was refused, or lost the lock
	stateUnsure   // it got an error, and may have written the counter
	stateUnserved // it got nothing before the end of its wait
)

// The park states.
const (
	parkNot  = iota
	parkNext // the next to enter should wait inside
	parkNow  // it waits
)

func boardWords(n int) int { return boardHeader + slotSize*n }

// newBoard makes the file of a board for n contenders.
func newBoard(path string, n int) (*board, error) {
	words, err := proc.CreateWords(path, boardWords(n))
	if err != nil {
		return nil, fmt.Errorf("making a board: %w", err)
	}
	return &board{words}, nil
}

// openBoard opens the board that newBoard made, in another process.
func openBoard(path string, n int) (*board, error) {
	words, err := proc.OpenWords(path, boardWords(n))
	if err != nil {
		return nil, fmt.Errorf("opening the board: %w", err)
	}
	return &board{words}, nil
}

func (b *board) served() int64 { return b.Load(boardServed) }
func (b *board) over() int64   { return b.Load(boardOver) }

// slot is the part of a board that is one contender's.
type slot struct {
	*board
	at int
}

func (b *board) slot(i int) slot { return slot{b, boardHeader + slotSize*i} }

func (s slot) note(what int, at time.Time) { s.Store(s.at+what, at.UnixNano()) }
func (s slot) state(now int64)             { s.Store(s.at+slotState, now) }

func (s slot) entered() {
	s.note(slotFrom, time.Now())
	s.state(stateInside)
}

// left notes the end of the time inside, and whether the counter was written.
func (s slot) left(written bool) {
	s.note(slotTo, time.Now())
	if written {
		s.state(stateWritten)
	}
}

// ended notes the outcome.
func (s slot) ended(state int64) {
	s.note(slotEnd, time.Now())
	s.state(state)
	if state == stateServed {
		s.Add(boardServed, 1)
	}
	s.Add(boardOver, 1)
}

// park makes the next contender that enters wait inside.
func (b *board) park()        { b.Store(boardPark, parkNext) }
func (b *board) unpark()      { b.Store(boardPark, parkNot) }
func (b *board) parked() bool { return b.Load(boardPark) == parkNow }

// linger waits inside while park asks for it.
func (b *board) linger() {
	if !b.CompareAndSwap(boardPark, parkNext, parkNow) {
		return
	}
	for b.parked() {
		time.Sleep(glance)
	}
}

// slip is a contender's entry on the board. Times are zero for what has not happened.
type slip struct {
	from, to, end time.Time
	state         int64
}

func (b *board) slip(i int) slip {
	s := b.slot(i)
	return slip{s.time(slotFrom), s.time(slotTo), s.time(slotEnd), s.Load(s.at + slotState)}
}

func (s slot) time(what int) time.Time {
	if n := s.Load(s.at + what); n != 0 {
		return time.Unix(0, n)
	}
	return time.Time{}
}
