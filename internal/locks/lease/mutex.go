package lease

import (
	"context"
	"errors"
	"fmt"

	"oversell/internal/guard"
)

// A Place is a contender's place in a lock's queue on the server.
type Place interface {
	// Acquire puts the place into the queue, and waits until the place is first or ctx ends. If wait is
	// false and the place is not first, Acquire returns false. The caller must then remove the place,
	// if it was put.
	Acquire(ctx context.Context, wait bool) (bool, error)
	// Put reports whether the place is known to have been in the queue.
	Put() bool
	// Exists asks the server whether the place is still in the queue.
	Exists(ctx context.Context) (bool, error)
	// Remove takes the place out of the queue. While the server is unavailable, it retries at least until
	// the session ends. It returns ErrNotHeld if the place was already gone.
	Remove() error
	// Token returns the server's number of the change that created the place. It increases from holder to
	// holder.
	Token() int64
}

// A Mutex is one holder's handle on the lock: every holder makes its own.
// It must not be used by several goroutines at once.
type Mutex struct {
	source *Source
	key    string
	hold   *hold
}

// New returns a handle on the lock named key. It does not acquire the lock.
func New(source *Source, key string) *Mutex { return &Mutex{source: source, key: key} }

// Lock waits for the lock, in order of arrival. If ctx ends first, it returns the cause. It also
// returns an error if the place in the queue was lost: the server was unavailable for too long or
// ended the session, or somebody deleted the place. After an error there is nothing to release.
func (m *Mutex) Lock(ctx context.Context) error {
	t, err := m.source.local.Lock(ctx, m.key)
	if err != nil {
		return err
	}
	_, err = m.enter(ctx, t, true)
	return err
}

// TryLock acquires the lock if it is free and nobody in this process waits for it. Otherwise it
// returns false. After an error the lock is not held: if it was acquired, it is released.
func (m *Mutex) TryLock(ctx context.Context) (bool, error) {
	t := m.source.local.TryLock(m.key)
	if t == nil {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, AnswerTimeout)
	defer cancel()
	return m.enter(ctx, t, false)
}

// enter acquires the lock on the server for the caller whose turn it is in this process. A request
// may block until the client is closed, so enter stops waiting for it when ctx or the session ends.
// The caller's turn in this process ends after the cleanup, or with the session.
func (m *Mutex) enter(ctx context.Context, t *guard.KeyHold, wait bool) (bool, error) {
	type outcome struct {
		hold *hold
		err  error
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	attempted := make(chan outcome, 1)
	if !m.source.Go(func() {
		h, err := m.source.attempt(ctx, cancel, t, wait)
		attempted <- outcome{h, err}
	}) {
		t.Unlock()
		return false, m.source.errorf("%w", ErrClosed)
	}
	select {
	case o := <-attempted:
		m.hold = o.hold
		if o.err != nil && ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		return o.hold != nil, o.err
	case <-ctx.Done():
		go func() {
			if h := (<-attempted).hold; h != nil {
				_ = h.giveBack(context.Background()) // remove retries until the session ends
			}
		}()
		return false, context.Cause(ctx)
	}
}

// attempt tries to acquire the lock until ctx ends, and calls giveUp when the session is lost. It
// returns neither a hold nor an error if the lock is held and wait is false. If it returns no hold,
// it has ended the turn, and leaves nothing behind.
//
// The server may have ended the session, and this process notices that only at its next request. A
// caller that has no place in the queue yet has lost nothing, and continues with a new session.
func (s *Source) attempt(
	ctx context.Context, giveUp context.CancelCauseFunc, t *guard.KeyHold, wait bool,
) (*hold, error) {
	for {
		n, err := s.use(ctx)
		if err != nil {
			t.Unlock()
			return nil, err
		}
		h, again, err := n.attempt(ctx, giveUp, t, wait)
		if h != nil {
			return h, nil
		}
		n.leave()
		if !again {
			t.Unlock()
			return nil, err
		}
	}
}

// attempt tries to acquire the lock in this session. If again is true, the session has ended, but
// the caller has lost nothing and can try in a new session.
func (n *Session) attempt(
	ctx context.Context, giveUp context.CancelCauseFunc, t *guard.KeyHold, wait bool,
) (_ *hold, again bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(n.Ctx, func() {
		cancel(n.lost())
		if !n.replaced() {
			giveUp(n.lost())
		}
	})()
	place := n.Place(t.Key())
	acquired, err := place.Acquire(ctx, wait)
	switch {
	case err == nil && !acquired:
		if place.Put() {
			_ = n.remove(place)
		}
		return nil, false, nil
	case err == nil && !n.Over():
		return newHold(n, t, place), false, nil
	}
	_ = n.remove(place)
	if errors.Is(err, ErrReplaced) {
		n.End(fmt.Errorf("%w: %w", n.source.kind.Lost, ErrReplaced))
		return nil, true, nil
	}
	if n.Over() {
		return nil, n.replaced() && !place.Put(), n.lost()
	}
	return nil, false, err
}

// replaced reports whether the session has ended because the server no longer knows it.
func (n *Session) replaced() bool { return errors.Is(context.Cause(n.Ctx), ErrReplaced) }

// Unlock releases the lock, even if ctx is already cancelled: a caller that gives up must not keep
// the others waiting. If the server does not answer in time, Unlock returns an error, and the lock
// is released as soon as the server answers, or when the session ends.
func (m *Mutex) Unlock(ctx context.Context) error {
	h := m.hold
	if h == nil {
		return m.source.notHeld()
	}
	m.hold = nil
	return h.giveBack(ctx)
}

// Context returns a copy of parent for the work under the lock. The copy is cancelled when the lock
// is released, or when the session is lost, with Kind.Lost as the cause. It is also cancelled with
// Kind.Lost when somebody else has deleted the place, but up to a third of the ttl later: the next
// holder may have the lock by then.
//
// When a session is lost, the copy is cancelled before the server lets the next holder in: this process counts
// the ttl from before it sent the last answered request, and the server from when it received that request. In
// addition, this process does not use the last tenth of the ttl. All this assumes that this process is not
// paused, and that its clock is at most a tenth slower than the server's.
func (m *Mutex) Context(parent context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(parent)
	h := m.hold
	switch {
	case h == nil:
		cancel(m.source.notHeld())
	case h.session.Over():
		cancel(context.Cause(h.ctx))
	default:
		context.AfterFunc(h.ctx, func() { cancel(context.Cause(h.ctx)) })
	}
	return ctx
}

// Token returns the fencing token of the hold, or 0 if there is none.
func (m *Mutex) Token() int64 {
	if m.hold == nil {
		return 0
	}
	return m.hold.place.Token()
}

// A hold is a lock that is held.
type hold struct {
	session *Session
	turn    *guard.KeyHold
	place   Place
	ctx     context.Context // ends with the hold
	end     context.CancelCauseFunc
}

func newHold(n *Session, t *guard.KeyHold, p Place) *hold {
	h := &hold{session: n, turn: t, place: p}
	h.ctx, h.end = context.WithCancelCause(n.Ctx)
	_ = n.source.Go(h.attend) // if the source is closed, the hold is over
	return h
}

// attend checks three times per ttl whether the place still exists. If somebody deletes the place,
// the server lets the next holder in although the session continues.
func (h *hold) attend() {
	limit := h.session.TTL / 3
	for guard.Sleep(h.ctx, limit) == nil {
		ctx, cancel := context.WithTimeout(h.ctx, limit)
		there, err := h.place.Exists(ctx)
		cancel()
		if err == nil && !there { // errors are left to the session's renewal
			h.end(fmt.Errorf("%w: somebody deleted the place in the queue", h.session.source.kind.Lost))
			return
		}
	}
}

// giveBack cancels the context of the hold, removes the hold from the server, and then ends the
// caller's turn in this process.
func (h *hold) giveBack(ctx context.Context) error {
	h.end(context.Canceled)
	removed := make(chan error, 1)
	go func() {
		err := h.session.remove(h.place)
		h.session.leave()
		h.turn.Unlock()
		removed <- err
	}()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), AnswerTimeout)
	defer cancel()
	select {
	case err := <-removed:
		return err
	case <-ctx.Done():
		return h.session.source.errorf("unlock: %w", ctx.Err())
	}
}

// remove takes the place out of the queue. If the session ends first, the lock is no longer held,
// and remove leaves the rest to a goroutine: it may last until the server is back.
func (n *Session) remove(p Place) error {
	removed := make(chan error, 1)
	if n.source.Go(func() { removed <- p.Remove() }) {
		select {
		case err := <-removed:
			if !n.Over() && !errors.Is(err, ErrNotHeld) {
				return err
			}
		case <-n.Ctx.Done():
		}
	}
	return n.source.notHeld()
}
