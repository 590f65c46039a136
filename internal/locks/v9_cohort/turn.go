package lock

import "context"

// A turn is one owner's time with the lock, from its first Lock to its last
// Unlock. A hold that is handed on in the process has many turns.
type turn struct {
	hold    *hold
	owner   string
	token   int64
	depth   int   // number of calls to Lock and TryLock without a matching Unlock so far
	renewed int   // number of renewals that Redis confirmed
	cause   error // the reason for its end; nil until then
	onEnd   []context.CancelCauseFunc
}

// enter makes owner the holder. The callers of enter and of the functions below must hold mu.
func (c *cohort) enter(m *Mutex, owner string) {
	m.turn = &turn{hold: c.hold, owner: owner, token: c.hold.token(), depth: 1}
	c.holder, c.turns[owner] = m.turn, m.turn
}

// reenter counts another entry of the owner and returns true if the owner has a turn.
// If the lock of that turn is lost, reenter counts nothing and returns the cause.
func (c *cohort) reenter(m *Mutex, owner string) (bool, error) {
	t := c.turns[owner]
	switch {
	case t == nil:
		return false, nil
	case t.hold.over():
		return true, t.cause
	}
	t.depth++
	m.turn = t
	return true, nil
}

// end ends the turn and cancels its contexts. Only the first call has an effect.
func (t *turn) end(cause error) {
	if t.cause != nil {
		return
	}
	t.cause = cause
	for _, cancel := range t.onEnd {
		cancel(cause)
	}
}

// Context returns a copy of parent for the work under the lock. The copy is cancelled
// when this owner releases the lock, or when the lock is lost, with ErrLost as the
// cause. While a machine is suspended, its clock stands still; the first renewal after
// that detects a loss.
func (m *Mutex) Context(parent context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(parent)
	mu.Lock()
	defer mu.Unlock()
	switch t := m.turn; {
	case t == nil:
		cancel(ErrNotHeld)
	case t.hold.over() || t.cause != nil:
		cancel(t.cause)
	default:
		t.onEnd = append(t.onEnd, cancel)
	}
	return ctx
}

// Renewals returns the number of renewals of the lock in this owner's current or last turn.
func (m *Mutex) Renewals() int {
	mu.Lock()
	defer mu.Unlock()
	if m.turn == nil {
		return 0
	}
	return m.turn.renewed
}
