package locktest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Holder acquires and releases the lock. It is a process, or one of several holders in a process.
type Holder struct {
	Mutex Mutex
	Ctx   context.Context // contains the owner's name, if the lock needs one
	Hook  *Hook           // the hook in the client of its process

	w       *World
	name    string
	rdb     *redis.Client
	ttl     time.Duration
	stopped *Rule
	goOn    chan struct{}
	cancel  context.CancelFunc
	waiting sync.WaitGroup
}

// Holder returns a holder in a new process.
func (w *World) Holder(name string) *Holder { return w.holderWith(name, TTL) }

func (w *World) holderWith(name string, ttl time.Duration) *Holder {
	rdb, hook := w.NewClient()
	w.clients = append(w.clients, rdb)
	return w.newHolder(rdb, hook, name, ttl)
}

// Sibling returns a holder in the same process.
func (h *Holder) Sibling(name string) *Holder { return h.w.newHolder(h.rdb, h.Hook, name, h.ttl) }

func (w *World) newHolder(rdb *redis.Client, hook *Hook, name string, ttl time.Duration) *Holder {
	h := &Holder{Mutex: w.lock.New(rdb, w.Key, ttl), Hook: hook, w: w, name: name, rdb: rdb, ttl: ttl}
	h.Ctx, h.cancel = context.WithCancel(w.ctx)
	if w.lock.WithOwner != nil {
		h.Ctx = w.lock.WithOwner(h.Ctx, name)
	}
	w.holders = append(w.holders, h)
	return h
}

// Stop holds back all commands of the process, as if it were dead. After GoOn, the commands that
// were held back fail.
func (h *Holder) Stop() {
	h.goOn = make(chan struct{})
	goOn := h.goOn
	h.stopped = h.Hook.On(Any, -1, func(ctx context.Context, _ func() error) error {
		select {
		case <-goOn:
			return ErrCut
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

// GoOn ends the effect of Stop.
func (h *Holder) GoOn() {
	if h.stopped != nil {
		h.stopped.Off()
		close(h.goOn)
		h.stopped = nil
	}
}

// TryLock reports whether the holder acquired the lock. An error ends the scenario.
func (h *Holder) TryLock() bool {
	ok, err := h.Mutex.TryLock(h.Ctx)
	if err != nil {
		panic(failure{fmt.Errorf("TryLock of %s: %w", h.name, err)})
	}
	return ok
}

// MustLock acquires the lock. The scenario ends if the lock is held.
func (h *Holder) MustLock() { h.w.Expect(h.TryLock(), "the lock is held, and %s wants it", h.name) }

// MustNotLock calls TryLock and expects that another holder has the lock.
func (h *Holder) MustNotLock() {
	h.w.Expect(!h.TryLock(), "%s got the lock of another holder", h.name)
}

// Unlock reports whether the holder had a lock to release. An error ends the scenario.
func (h *Holder) Unlock() bool {
	err := h.Mutex.Unlock(h.Ctx)
	if err != nil && !errors.Is(err, h.w.lock.NotHeld) {
		panic(failure{fmt.Errorf("Unlock of %s: %w", h.name, err)})
	}
	return err == nil
}

// MustUnlock releases the lock. The scenario ends if there is no lock to release.
func (h *Holder) MustUnlock() { h.w.Expect(h.Unlock(), "%s has no lock to release", h.name) }

// MustNotHold calls Unlock and expects that the holder has no lock to release.
func (h *Holder) MustNotHold() { h.w.Expect(!h.Unlock(), "%s released a lock", h.name) }

// LoseReply calls TryLock and loses the reply.
func (h *Holder) LoseReply() {
	h.Hook.On(Any, 1, LoseReply(ErrCut))
	ok, err := h.Mutex.TryLock(h.Ctx)
	h.w.Expect(!ok && errors.Is(err, ErrCut), "TryLock = %v, %v, when the reply was lost", ok, err)
}

// Context returns the context of the holder's work. If the lock has no such context, Context
// returns one that never ends.
func (h *Holder) Context() context.Context {
	if m, ok := h.Mutex.(contextual); ok {
		return m.Context(h.w.ctx)
	}
	return h.w.ctx
}

// Token returns the fencing token that the holder sends with its writes, or 0.
func (h *Holder) Token() int64 {
	if m, ok := h.Mutex.(fenced); ok {
		return m.Token()
	}
	return 0
}

// Optional methods of a Mutex.
type (
	waiter interface {
		Lock(ctx context.Context) error
	}
	contextual interface {
		Context(parent context.Context) context.Context
	}
	fenced interface{ Token() int64 }
)

// lock waits for the lock until ctx ends. If the lock has no method that waits, it polls.
func (h *Holder) lock(ctx context.Context) error {
	if m, ok := h.Mutex.(waiter); ok {
		return m.Lock(ctx)
	}
	for {
		if ok, err := h.Mutex.TryLock(ctx); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(TTL / 100):
		}
	}
}

// start runs f in a goroutine, with a context derived from the holder's. Cancel ends that context.
func (h *Holder) start(f func(ctx context.Context) error) (done Attempt, cancel context.CancelFunc) {
	ctx, cancel := context.WithCancel(h.Ctx)
	got := make(chan error, 1)
	h.waiting.Go(func() { got <- f(ctx) })
	return got, cancel
}

// Wait starts to wait for the lock in a goroutine, and returns when the holder is in the queue.
func (h *Holder) Wait() (served Attempt, cancel context.CancelFunc) {
	served, cancel = h.start(h.lock)
	synctest.Wait()
	return served, cancel
}

// lockNow waits for the lock, and returns how long that took.
func (h *Holder) lockNow() time.Duration {
	start := time.Now()
	if err := h.lock(h.Ctx); err != nil {
		panic(failure{fmt.Errorf("Lock of %s: %w", h.name, err)})
	}
	return time.Since(start)
}

// unlocking matches the command with which Unlock releases the lock.
var unlocking = Command("del", "unlink", "eval", "evalsha", "fcall", "delex", "delifeq")

// unlockUntold releases the lock, but loses the reply.
func (h *Holder) unlockUntold() {
	h.Hook.On(unlocking, 1, LoseReply(ErrCut))
	if err := h.Mutex.Unlock(h.Ctx); !errors.Is(err, ErrCut) {
		panic(failure{fmt.Errorf("the reply to Unlock was to be lost: %w", err)})
	}
}

// parking chooses the point at which a command is paused.
type parking func(*Pause) Action

func beforeIt(p *Pause) Action { return p.Before }
func afterIt(p *Pause) Action  { return p.After }

// unlockParked starts an Unlock and returns when its release command is paused, or when it has
// ended without sending one. goOn lets the Unlock finish.
func (h *Holder) unlockParked(where parking) (goOn func()) {
	pause := NewPause()
	rule := h.Hook.On(unlocking, 1, where(pause))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = h.Mutex.Unlock(h.Ctx)
	}()
	select {
	case <-pause.Parked():
	case <-ended:
	}
	return func() {
		pause.Release()
		<-ended
		rule.Off()
	}
}

// faults lists the ways in which a command can fail.
var faults = map[string]Action{"never sent": Fail(ErrCut), "reply lost": LoseReply(ErrCut), "no answer": Drop}
