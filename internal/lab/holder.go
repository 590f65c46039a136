package lab

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"oversell/internal/locks"
)

// Holder is one line of work in a process, with its handle on the lock. What
// it does is put on record.
type Holder struct {
	p     *Process
	owner string
	lock  locks.Lock
	ctx   context.Context // with the owner

	mu      sync.Mutex
	depth   int           // holds that it believes to have
	told    chan struct{} // closed when it is told that the lock is lost
	unwatch func() bool
}

// Holder makes a handle on the lock. It does not take it.
func (p *Process) Holder() *Holder { return p.HolderAs(p.name + "/1") }

// HolderAs makes a handle for a given owner, by which reentrant locks tell who
// is who.
func (p *Process) HolderAs(owner string) *Holder {
	w := p.w
	h := &Holder{p: p, owner: owner, lock: w.column.handle(p, w.lockKey), told: make(chan struct{})}
	h.ctx = w.column.withOwner(w.ctx, owner)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holders = append(p.holders, h)
	return h
}

// contextual is a lock that tells its holder of a loss.
type contextual interface {
	Context(context.Context) context.Context
}

// Ask asks for the lock once.
func (h *Holder) Ask() (bool, error) { return h.AskIn(h.ctx) }

// AskIn asks for the lock once, in a context made from h.ctx.
func (h *Holder) AskIn(ctx context.Context) (bool, error) {
	called := h.p.w.history.call()
	ok, err := h.lock.TryLock(ctx)
	switch {
	case err != nil:
		h.p.w.Note(h.p.name, "is told: %s", brief(err))
	case !ok:
		h.p.w.Note(h.p.name, "is told that the lock is held")
	default:
		return h.acquired(called), nil
	}
	return false, err
}

// Try asks for the lock once, where nothing can go wrong with Redis.
func (h *Holder) Try() bool {
	ok, err := h.Ask()
	need(err == nil, "%s could not ask for the lock: %v", h.p.name, err)
	return ok
}

// askFor asks for the lock once, and waits no longer than limit for an answer.
func (h *Holder) askFor(limit time.Duration) {
	ctx, cancel := context.WithTimeout(h.ctx, limit)
	defer cancel()
	_, _ = h.AskIn(ctx)
}

// comesIn asks for a lock whose lease has run out. A service looks after such only
// from time to time, and is asked for a while.
func (h *Holder) comesIn() bool {
	if h.p.member == nil {
		return h.Try()
	}
	return h.Obtain(h.p.w.TTL)
}

// MustLock takes the lock, which is free.
func (h *Holder) MustLock() {
	need(h.Try(), "%s did not get a lock that is free", h.p.name)
}

// Obtain asks again and again, for as long as it takes or until the patience
// is at its end. An error is taken for "not yet". It asks less often than a
// guard would, so that the trace can be read.
func (h *Holder) Obtain(patience time.Duration) bool {
	w := h.p.w
	for start := time.Now(); time.Since(start) < patience; w.Sleep(w.TTL / 12) {
		called := w.history.call()
		if ok, err := h.lock.TryLock(h.ctx); ok && err == nil {
			return h.acquired(called)
		}
	}
	w.Note(h.p.name, "gives up after %s", about(patience))
	return false
}

// acquired puts a success on record. It returns false where the lock was
// granted and the handle says in the same breath that it is lost.
func (h *Holder) acquired(called int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.p.w
	var work context.Context
	if l, ok := h.lock.(contextual); ok && h.depth == 0 {
		if work = l.Context(w.ctx); work.Err() != nil {
			w.trace.add(h.p.name, Lost, "is told at once that the lock is lost: "+brief(context.Cause(work)))
			return false
		}
	}
	others := w.history.acquired(h.p.name, called)
	h.depth++
	text := "has the lock"
	if h.depth > 1 {
		text = fmt.Sprintf("has the lock %d times", h.depth)
	}
	w.trace.add(h.p.name, Hold, text)
	if len(others) > 0 {
		w.trace.overlap(h.p.name, others)
	}
	if work != nil {
		told := make(chan struct{})
		h.told = told
		h.unwatch = context.AfterFunc(work, func() { h.lost(told, context.Cause(work)) })
	}
	return true
}

// lost is called when the holder is told that the lock is lost. One that is
// stopped hears of it when it goes on.
func (h *Holder) lost(told chan struct{}, cause error) {
	if !h.p.running() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.depth == 0 || h.told != told || h.p.w.ctx.Err() != nil {
		return // it had given the lock back, or the cell is over
	}
	h.depth = 0
	h.p.w.history.ended(h.p.name)
	h.p.w.trace.add(h.p.name, Lost, "is told that the lock is lost: "+brief(cause))
	close(told)
}

// Told is closed when the holder is told that the lock is lost.
func (h *Holder) Told() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.told
}

// Done ends the work under the lock: from here on the holder does not rely on
// it any more, though it may be late in giving it back.
func (h *Holder) Done() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.depth == 0 {
		return
	}
	h.depth--
	h.p.w.history.released(h.p.name)
	if h.depth == 0 {
		h.p.w.trace.add(h.p.name, Release, "needs the lock no longer")
	}
}

// end ends all holds: the process is dead.
func (h *Holder) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.depth == 0 {
		return
	}
	h.depth = 0
	h.p.w.history.ended(h.p.name)
	h.p.w.trace.add(h.p.name, Release, "is dead")
}

// Unlock gives the lock back.
func (h *Holder) Unlock() error { return h.UnlockIn(h.ctx) }

// UnlockIn gives the lock back in a context made from h.ctx.
func (h *Holder) UnlockIn(ctx context.Context) error {
	h.Done()
	err := h.lock.Unlock(ctx)
	if err != nil {
		h.p.w.Note(h.p.name, "unlock says: %s", brief(err))
	}
	return err
}

// notHeld reports whether an error of Unlock says that the lock was not held.
func (h *Holder) notHeld(err error) bool {
	for _, known := range h.p.w.column.NotHeld {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// forget ends the handle with its process, so that no timer of it is left.
func (h *Holder) forget() {
	h.mu.Lock()
	unwatch := h.unwatch
	h.mu.Unlock()
	if unwatch != nil {
		unwatch()
	}
}

// brief is an error in one line.
func brief(err error) string {
	if err == nil {
		return "nothing"
	}
	text := []rune(strings.ReplaceAll(err.Error(), "\n", "; "))
	const most = 160
	if len(text) > most {
		return string(text[:most]) + "…"
	}
	return string(text)
}

// about is a duration as it is told.
func about(d time.Duration) string { return d.Round(time.Millisecond).String() }
