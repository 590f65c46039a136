package lockbench

import (
	"fmt"
	"time"

	"oversell/internal/proc"
)

// board is where a process writes down what becomes of its contenders, in
// memory that it shares with the one that runs the row: so nothing is lost of a
// process that is killed, and nobody has to be told. Both sides may use it at
// once.
type board struct{ *proc.Words }

// The words of a board: first those of the process, then those of each of its
// contenders. Times are in nanoseconds of Unix time; 0: not yet.
const (
	boardServed  = iota // contenders that have let go
	boardOver           // contenders whose outcome is known
	boardPark           // see the park states
	boardStalled        // longest time that the process stood still, in nanoseconds
	boardHeader

	slotFrom  = 0 // it was let in
	slotTo    = 1 // it had written the counter, or failed to
	slotEnd   = 2 // its outcome was known
	slotState = 3 // see the states
	slotSize  = 4
)

// The states of a contender. What is over is greater than stateInside.
const (
	stateWaiting  = iota
	stateInside   // and nobody knows what it has written
	stateWritten  // the counter, and not let go yet
	stateServed   // it has let go
	stateTold     // it was told why it cannot have the lock, or lost it
	stateUnsure   // it was told, and the counter may have been written
	stateUnserved // it was told nothing until the end of its wait
)

// The park states.
const (
	parkNot  = iota
	parkNext // the next to be let in is to wait inside
	parkNow  // it does
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

// park has the next contender of the process that is let in wait there.
func (b *board) park()        { b.Store(boardPark, parkNext) }
func (b *board) unpark()      { b.Store(boardPark, parkNot) }
func (b *board) parked() bool { return b.Load(boardPark) == parkNow }

// linger waits inside, if that is wanted, until it no longer is.
func (b *board) linger() {
	if !b.CompareAndSwap(boardPark, parkNext, parkNow) {
		return
	}
	for b.parked() {
		time.Sleep(glance)
	}
}

// slip is what a board says of one contender. Times are zero for what has not
// come about.
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
