// Package promises is the table of what a lock may promise, and which stage
// keeps which promise. Every cell is a scenario that is run: see
// [Promise.Check].
package promises

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"oversell/internal/guard"
	"oversell/internal/locks"
	"oversell/internal/locks/locktest"
)

// A Promise is one row of the table.
type Promise struct {
	Name   string
	Says   string
	KeptBy []string // the stages, by name

	scenario func(w *world)
}

// All returns the rows of the table.
func All() []Promise {
	stages := locks.Stages()
	from := func(stage int) []string { return stages[stage-1:] }
	first := stages[:1] // the lock of v1 never expires
	return []Promise{
		{"exclusive", "one holder at a time", from(1), exclusive},
		{"frank", "an error of Redis is not mistaken for a held lock", from(1), frank},
		{"cancelled", "a cancelled caller can still release the lock", from(1), cancelled},
		{"crash", "the lock of a crashed holder is free after the ttl", from(2), crash},
		{"foreign", "a late holder does not release the next holder's lock", from(3), foreign},
		{"atomic", "not even if it is late between two commands", from(4), atomic},
		{"reentrant", "the holder may take the lock again", from(5), reentrant},
		{"slow", "work longer than the ttl keeps the lock", slices.Concat(first, from(6)), slow},
		{"told", "a holder that loses the lock is told", from(6), told},
		{"pause", "a process stopped for longer than the ttl keeps the lock", first, pause},
		{"fenced", "if it does not keep it, its late writes are refused", slices.Concat(first, from(8)), fenced},
		{"lost reply", "a retry after a lost reply does no harm", from(9), lostReply},
	}
}

// Keeps reports whether the table says that the stage keeps the promise.
func (p Promise) Keeps(stage Stage) bool { return slices.Contains(p.KeptBy, stage.Name) }

// Check runs the promise's scenario with the stage. Broken says how the stage breaks the
// promise, and is empty if it keeps it; err means that the scenario could not be run. A
// stage that does not exclude a second holder, or whose lock cannot be released, breaks
// every promise, because the scenarios rely on both. Check takes a few ttl, which pass
// instantly in a testing/synctest bubble.
func (p Promise) Check(ctx context.Context, stage Stage, ttl time.Duration) (broken string, err error) {
	w := &world{ctx: ctx, stage: stage, ttl: ttl, server: locktest.NewServer()}
	defer func() {
		switch r := recover().(type) {
		case nil:
		case verdict:
			broken = string(r)
		case failure:
			err = fmt.Errorf("%s, %s: %w", p.Name, stage.Name, r.error)
		default:
			panic(r)
		}
		err = errors.Join(err, w.close())
	}()
	w.isLock()
	p.scenario(w)
	return
}

// WriteTable writes the table as Markdown.
func WriteTable(w io.Writer) error {
	var b strings.Builder
	b.WriteString("| |")
	for _, stage := range Stages() {
		fmt.Fprintf(&b, " %s |", stage.Name)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(Stages())) + "\n")
	for _, p := range All() {
		fmt.Fprintf(&b, "| %s |", p.Says)
		for _, stage := range Stages() {
			cell := "breaks"
			if p.Keeps(stage) {
				cell = "holds"
			}
			fmt.Fprintf(&b, " %s |", cell)
		}
		b.WriteString("\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// A world is the setting of a scenario: a Redis and the processes that use it.
type world struct {
	ctx       context.Context
	stage     Stage
	ttl       time.Duration
	server    *locktest.Server
	processes []*process
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
		if err := p.mutex.Unlock(p.ctx); err != nil && !errors.Is(err, w.stage.NotHeld) {
			errs = append(errs, err)
		}
		errs = append(errs, p.rdb.Close())
	}
	// A lock's retries in the background end when its client is closed, which they
	// notice after their next pause.
	time.Sleep(w.ttl / 5)
	return errors.Join(append(errs, w.server.Close())...)
}

// A process is one holder, with its own client.
type process struct {
	*world
	ctx     context.Context
	mutex   guard.Lock
	rdb     *redis.Client
	hook    *locktest.Hook
	stopped *locktest.Rule
}

func (w *world) start(name string) *process { return w.startAt("lock", name) }

// startAt starts a process that uses the lock at key.
func (w *world) startAt(key, name string) *process {
	p := &process{world: w, ctx: w.stage.As(w.ctx, name)}
	p.rdb, p.hook = w.server.NewClient()
	p.mutex = w.stage.New(p.rdb, key, w.ttl)
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
	if err != nil && !errors.Is(err, p.stage.NotHeld) {
		panic(failure{err})
	}
	return err == nil
}

// token is the fencing token that the process sends with its writes, or 0.
func (p *process) token() int64 {
	if m, ok := p.mutex.(interface{ Token() int64 }); ok {
		return m.Token()
	}
	return 0
}

// unlocking matches the command that releases the lock, among all that Unlock
// may send.
var unlocking = locktest.Command("del", "eval", "evalsha")

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
