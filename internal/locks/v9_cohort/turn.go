package lock

import "context"

// A turn is one owner's time with the lock, from its first Lock to its last
// Unlock. A hold that is handed on in the process has many turns.
type turn struct {
	hold    *hold
	owner   string
	token   int64
	depth   int   // calls of Lock and TryLock not yet matched by Unlock
	renewed int   // how often Redis renewed it
	cause   error // why it ended, nil until then
	onEnd   []context.CancelCauseFunc
}

// enter makes owner the holder. mu must be locked, here and below.
func (c *cohort) enter(m *Mutex, owner string) {
	m.turn = &turn{hold: c.hold, owner: owner, token: c.hold.token(), depth: 1}
	c.holder, c.turns[owner] = m.turn, m.turn
}

// reenter counts another entry of the holder, but not into a lock that is lost.
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

// end cancels the owner's contexts; the first cause counts.
func (t *turn) end(cause error) {
	if t.cause != nil {
		return
	}
	t.cause = cause
	for _, cancel := range t.onEnd {
		cancel(cause)
	}
}

// Context returns a copy of parent for the work under the lock. It is cancelled when
// the lock is lost, with ErrLost as its cause, or released by this owner. The clock of
// a suspended machine does not advance: the next renewal after that detects the loss.
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

// Renewals returns how often the lock was renewed in this owner's current or last
// turn.
func (m *Mutex) Renewals() int {
	mu.Lock()
	defer mu.Unlock()
	if m.turn == nil {
		return 0
	}
	return m.turn.renewed
}
