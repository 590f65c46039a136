package lab

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"oversell/internal/guard"
	"oversell/internal/message"
)

// Holder is one caller in a process, with its handle on the lock. Its actions are recorded.
type Holder struct {
	p    *Process
	Name string // the name in the trace
	lock guard.Lock
	ctx  context.Context // carries the owner

	notHeld error // the error of Unlock if the lock was not held

	mu    sync.Mutex
	depth int           // holds that it believes it has
	void  bool          // it was once granted a lock that was already lost
	owed  int           // locks that it was granted and has not released
	told  chan struct{} // closed when it learns that the lock is lost
}

// Holder makes a handle on the lock. It does not take the lock.
func (p *Process) Holder() *Holder { return p.HolderAs(p.Name + "/1") }

// Holding makes a handle on the lock, and takes the lock, which must be free.
func (p *Process) Holding() *Holder {
	h := p.Holder()
	h.MustLock()
	return h
}

// HolderAs makes a handle for a given owner. A reentrant lock identifies its holder by
// the owner.
func (p *Process) HolderAs(owner string) *Holder { return p.holder(p.Name, owner) }

// Caller makes a handle for one of several callers in the process, which share the process's client
// and memory. In the trace the callers are named A/1, A/2 and so on; commands carry the name of the
// process.
func (p *Process) Caller(number int) *Holder {
	name := fmt.Sprintf("%s/%d", p.Name, number)
	return p.holder(name, name)
}

func (p *Process) holder(name, owner string) *Holder {
	w := p.w
	Need(w.Subject.Lock != nil, "%s has no lock", w.Subject.Name)
	d := w.Subject.Lock(p)
	h := &Holder{p: p, Name: name, lock: d.New(w.lockKey), notHeld: d.NotHeld, ctx: w.ctx, told: make(chan struct{})}
	if d.WithOwner != nil {
		h.ctx = d.WithOwner(w.ctx, owner)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holders = append(p.holders, h)
	return h
}

// contextual is a lock that cancels a context to tell its holder that the lock is lost.
type contextual interface {
	Context(context.Context) context.Context
}

// Ask asks for the lock once.
func (h *Holder) Ask() (bool, error) { return h.AskIn(h.ctx) }

// Context returns a context that carries the owner. It ends when the cell is over.
func (h *Holder) Context() context.Context { return h.ctx }

// AskIn asks for the lock once. Ctx must be derived from h.ctx.
func (h *Holder) AskIn(ctx context.Context) (bool, error) {
	ok, err := h.lock.TryLock(ctx)
	switch {
	case err != nil:
		h.p.w.Note(h.Name, "is told: %s", Brief(err))
	case !ok:
		h.p.w.Record(WasRefused, h.Name)
		h.p.w.Note(h.Name, "is told that the lock is held")
	default:
		return h.acquired(), nil
	}
	return false, err
}

// Try asks for the lock once. After an error, the outcome of the cell is Unknown.
func (h *Holder) Try() bool {
	ok, err := h.Ask()
	Need(err == nil, "%s could not ask for the lock: %v", h.Name, err)
	return ok
}

// AskFor asks for the lock once, and waits at most limit for the reply.
func (h *Holder) AskFor(limit time.Duration) {
	ctx, cancel := context.WithTimeout(h.ctx, limit)
	defer cancel()
	_, _ = h.AskIn(ctx)
}

// TryExpired asks for a lock whose lease has expired. If the lock is at a service, TryExpired keeps
// asking for a while, because a service removes expired leases only periodically.
func (h *Holder) TryExpired() bool {
	if h.p.member == nil {
		return h.Try()
	}
	return h.Obtain(h.p.w.TTL)
}

// MustLock takes the lock, which must be free.
func (h *Holder) MustLock() {
	Need(h.Try(), "%s did not get a lock that is free", h.Name)
}

// Obtain asks again and again until it has the lock or its patience runs out. An error counts as a
// refusal. It asks less often than a guard does, to keep the trace readable.
func (h *Holder) Obtain(patience time.Duration) bool {
	w := h.p.w
	for start := time.Now(); time.Since(start) < patience; w.Sleep(w.TTL / 12) {
		if h.p.life.Err() != nil {
			return false
		}
		switch ok, err := h.lock.TryLock(h.ctx); {
		case err != nil:
		case ok:
			return h.acquired()
		default:
			w.Record(WasRefused, h.Name)
		}
	}
	w.Note(h.Name, "gives up after %s", About(patience))
	return false
}

// Wait waits for the lock in the lock's own way, or asks again and again, until it has the lock,
// its patience runs out or the process dies. An error counts as a refusal.
//
// The context of a successful wait is not cancelled when Wait returns, because rueidislock ends the
// hold when that context ends. It still ends when the patience runs out, so the hold should be over
// by then.
func (h *Holder) Wait(patience time.Duration) bool {
	waiter, ok := h.lock.(guard.Waiter)
	if !ok {
		return h.Obtain(patience)
	}
	w := h.p.w
	ctx, cancel := context.WithTimeout(h.ctx, patience)
	w.Cleanup(cancel)
	defer context.AfterFunc(h.p.life, cancel)()
	for ; ctx.Err() == nil; w.Sleep(w.Delay) {
		if err := waiter.Lock(ctx); err == nil {
			return h.acquired()
		}
	}
	if h.p.life.Err() == nil {
		w.Note(h.Name, "gives up after %s", About(patience))
	}
	return false
}

// acquired records that the lock was granted. It returns false if the handle says at once that the
// lock is lost.
func (h *Holder) acquired() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.p.w
	h.owed++
	var work context.Context
	if l, ok := h.lock.(contextual); ok && h.depth == 0 {
		if work = l.Context(w.ctx); work.Err() != nil {
			h.void = true
			w.Trace(h.Name, Lost, "is told at once that the lock is lost: %s", Brief(context.Cause(work)))
			return false
		}
	}
	others := w.enters(h.Name)
	h.depth++
	if h.depth == 1 {
		w.Trace(h.Name, Hold, "has the lock")
	} else {
		w.Trace(h.Name, Hold, "has the lock %d times", h.depth)
	}
	if len(others) > 0 {
		w.trace.overlap(h.Name, others)
	}
	if work != nil {
		told := make(chan struct{})
		h.told = told
		stop := context.AfterFunc(work, func() { h.lost(told, context.Cause(work)) })
		w.Cleanup(func() { stop() }) // otherwise a timer of the hold would remain
	}
	return true
}

// lost records that the holder learns that its lock is lost. A holder in a frozen process learns it
// when the process thaws.
func (h *Holder) lost(told chan struct{}, cause error) {
	if !h.p.running() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.depth == 0 || h.told != told || h.p.w.ctx.Err() != nil {
		return // it has released the lock, or the cell is over
	}
	h.depth = 0
	h.p.w.loses(h.Name)
	h.p.w.Trace(h.Name, Lost, "is told that the lock is lost: %s", Brief(cause))
	close(told)
}

// Told returns a channel that is closed when the holder learns that its lock is lost.
func (h *Holder) Told() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.told
}

// Done ends the work under the lock. From now on the holder does not rely on the lock, though it
// may release the lock later.
func (h *Holder) Done() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.depth == 0 {
		return
	}
	h.depth--
	h.p.w.leaves(h.Name)
	if h.depth == 0 {
		h.p.w.Trace(h.Name, Release, "no longer needs the lock")
	}
}

func (h *Holder) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.depth == 0 {
		return
	}
	h.depth = 0
	h.p.w.loses(h.Name)
	h.p.w.Trace(h.Name, Release, "is dead")
}

// Unlock releases the lock.
func (h *Holder) Unlock() error { return h.UnlockIn(h.ctx) }

// UnlockIn releases the lock. Ctx must be derived from h.ctx.
func (h *Holder) UnlockIn(ctx context.Context) error {
	h.Done()
	h.mu.Lock()
	h.owed = max(h.owed-1, 0)
	h.mu.Unlock()
	err := h.lock.Unlock(ctx)
	if err != nil {
		h.p.w.Note(h.Name, "unlock says: %s", Brief(err))
	}
	return err
}

func (h *Holder) owes() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.owed > 0
}

// Misled reports whether the holder was ever granted a lock that was already lost.
func (h *Holder) Misled() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.void
}

// SaysNotHeld reports whether err, returned by Unlock, says that the lock was not held.
func (h *Holder) SaysNotHeld(err error) bool {
	return errors.Is(err, h.notHeld)
}

// Token asks the handle for the fencing token of its hold.
func (h *Holder) Token() int64 {
	l, ok := h.lock.(interface{ Token() int64 })
	Need(ok, "%s has no Token method", h.p.w.Subject.Name)
	return l.Token()
}

// TokenAfter asks the handle for a token of its hold that is larger than seen. It returns an error
// if the lock has no such method.
func (h *Holder) TokenAfter(ctx context.Context, seen int64) (int64, error) {
	l, ok := h.lock.(interface {
		TokenAfter(ctx context.Context, seen int64) (int64, error)
	})
	if !ok {
		return 0, fmt.Errorf("%s has no TokenAfter method", h.p.w.Subject.Name)
	}
	return l.TokenAfter(ctx, seen)
}

// Brief returns the text of an error as one line, shortened if it is long.
func Brief(err error) message.Message {
	if err == nil {
		return message.Text("nothing")
	}
	text := []rune(strings.ReplaceAll(err.Error(), "\n", "; "))
	const most = 160
	if len(text) > most {
		return message.Text(string(text[:most]) + "…")
	}
	if said := message.Of(err); said.String() == string(text) {
		return said
	}
	return message.Text(string(text))
}

// About returns the text of a duration, rounded to milliseconds.
func About(d time.Duration) string { return d.Round(time.Millisecond).String() }
