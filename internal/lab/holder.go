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
	name  string // by which it is told of
	owner string
	lock  locks.Lock
	ctx   context.Context // with the owner

	mu      sync.Mutex
	depth   int           // holds that it believes to have
	void    bool          // it was granted a lock that was lost already
	owed    int           // locks that it was granted and has not given back
	told    chan struct{} // closed when it is told that the lock is lost
	unwatch func() bool
}

// Holder makes a handle on the lock. It does not take it.
func (p *Process) Holder() *Holder { return p.HolderAs(p.name + "/1") }

// HolderAs makes a handle for a given owner, by which reentrant locks tell who
// is who.
func (p *Process) HolderAs(owner string) *Holder { return p.holder(p.name, owner) }

// Caller makes a handle for one of several callers in the process, which share its
// client and all that it has in memory. They are told of as A/1, A/2 and so on; what
// the process sends is told of the process.
func (p *Process) Caller(number int) *Holder {
	name := fmt.Sprintf("%s/%d", p.name, number)
	return p.holder(name, name)
}

func (p *Process) holder(name, owner string) *Holder {
	w := p.w
	h := &Holder{p: p, name: name, owner: owner, lock: w.column.handle(p, w.lockKey), told: make(chan struct{})}
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
		h.p.w.Note(h.name, "is told: %s", brief(err))
	case !ok:
		h.p.w.deeds.add(wasRefused, h.name)
		h.p.w.Note(h.name, "is told that the lock is held")
	default:
		return h.acquired(called), nil
	}
	return false, err
}

// Try asks for the lock once, where nothing can go wrong with Redis.
func (h *Holder) Try() bool {
	ok, err := h.Ask()
	need(err == nil, "%s could not ask for the lock: %v", h.name, err)
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
	need(h.Try(), "%s did not get a lock that is free", h.name)
}

// Obtain asks again and again, for as long as it takes or until the patience
// is at its end. An error is taken for "not yet". It asks less often than a
// guard would, so that the trace can be read.
func (h *Holder) Obtain(patience time.Duration) bool {
	w := h.p.w
	for start := time.Now(); time.Since(start) < patience; w.Sleep(w.TTL / 12) {
		if h.p.life.Err() != nil {
			return false
		}
		called := w.history.call()
		ok, err := h.lock.TryLock(h.ctx)
		if ok && err == nil {
			return h.acquired(called)
		}
		if err == nil {
			w.deeds.add(wasRefused, h.name)
		}
	}
	w.Note(h.name, "gives up after %s", about(patience))
	return false
}

// Wait waits for the lock in the way that the lock has, or else asks again and
// again, for as long as it takes or until the patience is at its end. It ends with
// its process. An error is taken for "not yet".
func (h *Holder) Wait(patience time.Duration) bool {
	waiter, ok := h.lock.(locks.Waiter)
	if !ok {
		return h.Obtain(patience)
	}
	w := h.p.w
	ctx, cancel := context.WithTimeout(h.ctx, patience)
	defer cancel()
	defer context.AfterFunc(h.p.life, cancel)()
	for ; ctx.Err() == nil; w.Sleep(w.Delay) {
		called := w.history.call()
		if err := waiter.Lock(ctx); err == nil {
			return h.acquired(called)
		}
	}
	if h.p.life.Err() == nil {
		w.Note(h.name, "gives up after %s", about(patience))
	}
	return false
}

// acquired puts a success on record. It returns false where the lock was
// granted and the handle says in the same breath that it is lost.
func (h *Holder) acquired(called int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.p.w
	h.owed++
	var work context.Context
	if l, ok := h.lock.(contextual); ok && h.depth == 0 {
		if work = l.Context(w.ctx); work.Err() != nil {
			h.void = true
			w.trace.add(h.name, Lost, "is told at once that the lock is lost: "+brief(context.Cause(work)))
			return false
		}
	}
	others := w.history.acquired(h.name, called)
	h.depth++
	text := "has the lock"
	if h.depth > 1 {
		text = fmt.Sprintf("has the lock %d times", h.depth)
	}
	w.trace.add(h.name, Hold, text)
	if len(others) > 0 {
		w.trace.overlap(h.name, others)
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
	h.p.w.history.ended(h.name)
	h.p.w.trace.add(h.name, Lost, "is told that the lock is lost: "+brief(cause))
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
	h.p.w.history.released(h.name)
	if h.depth == 0 {
		h.p.w.trace.add(h.name, Release, "needs the lock no longer")
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
	h.p.w.history.ended(h.name)
	h.p.w.trace.add(h.name, Release, "is dead")
}

// Unlock gives the lock back.
func (h *Holder) Unlock() error { return h.UnlockIn(h.ctx) }

// UnlockIn gives the lock back in a context made from h.ctx.
func (h *Holder) UnlockIn(ctx context.Context) error {
	h.Done()
	h.mu.Lock()
	h.owed = max(h.owed-1, 0)
	h.mu.Unlock()
	err := h.lock.Unlock(ctx)
	if err != nil {
		h.p.w.Note(h.name, "unlock says: %s", brief(err))
	}
	return err
}

// owes reports whether it was granted a lock that it has not given back.
func (h *Holder) owes() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.owed > 0
}

// misled reports whether it was ever granted a lock that was lost already.
func (h *Holder) misled() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.void
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
