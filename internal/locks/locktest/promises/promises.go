// Package promises runs what a lock may promise against any lock that has the small interface
// Lock. Each promise is a scenario with faults, on a Redis in memory, in virtual time.
//
// The package imports package locktest and nothing else of the project, so that the two can be
// copied to where another lock is: see docs/take-it.md.
package promises

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"oversell/internal/locks/locktest"
)

// Lock is what a lock must have. It is the handle of one holder.
//
// If the lock also has a method Context(context.Context) context.Context, that is the context
// of the work under the lock; a holder can be told of a loss in no other way. If it has
// Token() int64, exactly that, it is its fencing token. If it has Lock(context.Context) error,
// that waits for the lock until the context ends.
//
// The goroutines of a lock must end soon after Unlock, and soon after its client was closed:
// within two ttl. A testing/synctest bubble fails the test if one is left.
type Lock interface {
	// TryLock acquires the lock if it is free. It returns false if another holder has it.
	TryLock(ctx context.Context) (bool, error)
	// Unlock releases the lock, even if ctx is already cancelled.
	Unlock(ctx context.Context) error
}

// A Subject is a lock whose promises are checked.
type Subject struct {
	Name    string
	NotHeld error // the error of Unlock when there is nothing to release, for errors.Is

	// New returns the handle of one holder. The lock expires ttl after its holder is gone.
	New func(rdb redis.UniversalClient, key string, ttl time.Duration) Lock

	// WithOwner puts the holder's name into ctx; nil for a lock that needs no name.
	WithOwner func(ctx context.Context, owner string) context.Context
}

// A Promise is something that a lock may promise.
type Promise struct {
	Name string // one word, for a subtest
	Says string

	scenario func(w *world)
}

// All returns the promises. Each assumes that the ones before it hold, as far as it needs them.
func All() []Promise {
	return []Promise{
		{"exclusive", "one holder at a time", exclusive},
		{"together", "holders of one process exclude each other, and their tokens grow", together},
		{"frank", "an error of Redis is not mistaken for a held lock", frank},
		{"cancelled", "a cancelled caller can still release the lock", cancelled},
		{"crash", "the lock of a crashed holder is free after the ttl", crash},
		{"foreign", "a late holder does not release the next holder's lock", foreign},
		{"atomic", "not even if it is late between two commands", atomic},
		{"reentrant", "the holder may take the lock again", reentrant},
		{"slow", "work longer than the ttl keeps the lock", slow},
		{"told", "a holder that loses the lock is told", told},
		{"waits", "Lock waits until the holder releases the lock, and returns soon after", waits},
		{"pause", "a process stopped for longer than the ttl keeps the lock", pause},
		{"fenced", "if it does not keep it, its late writes are refused", fenced},
		{"lost-reply", "a retry after a lost reply does no harm", lostReply},
	}
}

// Check runs the promise's scenario with the subject. Broken says how the subject breaks the
// promise, and is empty if it keeps it; err means that the scenario could not be run. A lock
// that does not exclude a second holder, or cannot be released, breaks every promise, because
// the scenarios rely on both. Check takes a few ttl, which pass instantly in a testing/synctest
// bubble.
func (p Promise) Check(ctx context.Context, subject Subject, ttl time.Duration) (broken string, err error) {
	w := &world{ctx: ctx, subject: subject, ttl: ttl, server: locktest.NewServer()}
	defer func() {
		switch r := recover().(type) {
		case nil:
		case verdict:
			broken = string(r)
		case failure:
			err = fmt.Errorf("%s, %s: %w", p.Name, subject.Name, r.error)
		default:
			panic(r)
		}
		err = errors.Join(err, w.close())
	}()
	w.isLock()
	p.scenario(w)
	return
}

// A world is the setting of a scenario: a Redis and the processes that use it.
type world struct {
	ctx       context.Context
	subject   Subject
	ttl       time.Duration
	server    *locktest.Server
	processes []*process
	clients   []*redis.Client
}

// These end a scenario early, by panic, so that scenarios need no error
// handling.
type (
	verdict string
	failure struct{ error }
)

// expect ends the scenario with the verdict unless kept.
func (w *world) expect(kept bool, otherwise string) {
	if !kept {
		panic(verdict(otherwise))
	}
}

// isLock ends the scenario unless the lock excludes a second holder until it is
// released. It uses its own key.
func (w *world) isLock() {
	a, b := w.startAt("another lock", "a"), w.startAt("another lock", "b")
	a.mustLock()
	w.expect(!b.lock(), "it lets everybody in")
	w.expect(a.unlock(), "it cannot be given back")
	w.expect(b.lock(), "it is not given back")
	w.expect(b.unlock() && a.lock() && a.unlock(), "it cannot be given back twice")
}

// outlast waits until everything that should expire within a ttl has expired.
func (w *world) outlast() { time.Sleep(w.ttl + w.ttl/10) }

func (w *world) close() error {
	var errs []error
	for _, p := range w.processes {
		p.goOn()
		if err := p.mutex.Unlock(p.ctx); err != nil && !errors.Is(err, w.subject.NotHeld) {
			errs = append(errs, err)
		}
	}
	for _, rdb := range w.clients {
		errs = append(errs, rdb.Close())
	}
	// A lock's renewals and retries in the background end when its client is closed. They
	// notice that after their next pause, which may be a large part of the ttl.
	time.Sleep(2 * w.ttl)
	return errors.Join(append(errs, w.server.Close())...)
}

// A process is one holder, with its own client unless it is a sibling.
type process struct {
	*world
	name    string
	key     string
	ctx     context.Context
	mutex   Lock
	rdb     *redis.Client
	hook    *locktest.Hook
	stopped *locktest.Rule
}

func (w *world) start(name string) *process { return w.startAt("lock", name) }

// startAt starts a process that uses the lock at key.
func (w *world) startAt(key, name string) *process {
	rdb, hook := w.server.NewClient()
	w.clients = append(w.clients, rdb)
	return w.startOn(rdb, hook, key, name)
}

// sibling starts a holder in the same process, with the same client.
func (p *process) sibling(name string) *process { return p.startOn(p.rdb, p.hook, p.key, name) }

func (w *world) startOn(rdb *redis.Client, hook *locktest.Hook, key, name string) *process {
	p := &process{world: w, name: name, key: key, ctx: w.ctx, rdb: rdb, hook: hook}
	if w.subject.WithOwner != nil {
		p.ctx = w.subject.WithOwner(w.ctx, name)
	}
	p.mutex = w.subject.New(rdb, key, w.ttl)
	w.processes = append(w.processes, p)
	return p
}

// stop drops all commands of the process from now on: it counts as dead, unless
// goOn is called later.
func (p *process) stop() { p.stopped = p.hook.On(locktest.Any, -1, locktest.Drop) }

func (p *process) goOn() {
	if p.stopped != nil {
		p.stopped.Off()
	}
}

// lock reports whether the process acquired the lock.
func (p *process) lock() bool {
	ok, err := p.mutex.TryLock(p.ctx)
	if err != nil {
		panic(failure{err})
	}
	return ok
}

// mustLock acquires a lock as part of the setup, not of the promise.
func (p *process) mustLock() {
	if !p.lock() {
		panic(failure{errors.New("the lock is held before the scenario begins")})
	}
}

// unlock reports whether the process had a lock to release.
func (p *process) unlock() bool {
	err := p.mutex.Unlock(p.ctx)
	if err != nil && !errors.Is(err, p.subject.NotHeld) {
		panic(failure{err})
	}
	return err == nil
}

// A tokenLock is a lock with fencing tokens.
type tokenLock interface{ Token() int64 }

// token is the fencing token that the process sends with its writes, or 0.
func (p *process) token() int64 {
	if m, ok := p.mutex.(tokenLock); ok {
		return m.Token()
	}
	return 0
}

// unlocking matches the command that releases the lock, among all that Unlock
// may send.
var unlocking = locktest.Command("del", "unlink", "eval", "evalsha", "fcall", "delex", "delifeq")

// unlockUntold releases the lock, but the reply is lost.
func (p *process) unlockUntold() {
	p.hook.On(unlocking, 1, locktest.LoseReply(locktest.ErrCut))
	if err := p.mutex.Unlock(p.ctx); !errors.Is(err, locktest.ErrCut) {
		panic(failure{fmt.Errorf("the reply to Unlock was to be lost: %w", err)})
	}
}

// parking chooses the point at which a command is paused.
type parking func(*locktest.Pause) locktest.Action

func beforeIt(p *locktest.Pause) locktest.Action { return p.Before }
func afterIt(p *locktest.Pause) locktest.Action  { return p.After }

// unlockParked starts an Unlock and returns when it is paused, or has ended
// without reaching that command. goOn lets it run to its end.
func (p *process) unlockParked(where parking) (goOn func()) {
	pause := locktest.NewPause()
	rule := p.hook.On(unlocking, 1, where(pause))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = p.mutex.Unlock(p.ctx)
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
