// Package promises is the table of what a lock may promise, and of which stage
// keeps what. Every cell is a scenario that runs: see [Promise.Check].
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
	const v1, v2, v3, v4, v5, v6, v7, v8, v9 = "v1_setnx", "v2_ttl", "v3_uuid", "v4_lua", "v5_reentrant", "v6_watchdog", "v7_queue", "v8_fenced", "v9_cohort"
	every := []string{v1, v2, v3, v4, v5, v6, v7, v8, v9}
	return []Promise{
		{"exclusive", "one holder at a time", every, exclusive},
		{"frank", "an error of Redis is not taken for a lock that is held", every, frank},
		{"cancelled", "a cancelled caller still gives the lock back", every, cancelled},
		{"crash", "a dead holder's lock is free after the ttl", []string{v2, v3, v4, v5, v6, v7, v8, v9}, crash},
		{"foreign", "a holder that comes late leaves the next one's lock alone", []string{v3, v4, v5, v6, v7, v8, v9}, foreign},
		{"atomic", "so it does if it is late between two commands", []string{v4, v5, v6, v7, v8, v9}, atomic},
		{"reentrant", "the holder may take the lock again", []string{v5, v6, v7, v8, v9}, reentrant},
		{"slow", "work longer than the ttl keeps the lock", []string{v1, v6, v7, v8, v9}, slow},
		{"told", "a holder that loses the lock is told", []string{v6, v7, v8, v9}, told},
		{"pause", "a process stopped for longer than the ttl keeps the lock", []string{v1}, pause},
		{"fenced", "and if it does not, what it then writes is turned away", []string{v1, v8, v9}, fenced},
		{"lost reply", "trying again after a lost reply does no harm", []string{v9}, lostReply},
	}
}

// Keeps reports whether the table has the stage keep the promise.
func (p Promise) Keeps(stage Stage) bool { return slices.Contains(p.KeptBy, stage.Name) }

// Check plays the promise's scenario with the stage. Broken says how the stage
// breaks the promise, and is empty if it keeps it; err says that the scenario
// could not be played. A stage that lets everybody in, or that cannot be given
// back, breaks every promise: what a promise is about never happens there. It takes a few ttl, which is no time at all in a
// testing/synctest bubble.
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

// A world is where a scenario plays: a Redis and processes that use it.
type world struct {
	ctx       context.Context
	stage     Stage
	ttl       time.Duration
	server    *locktest.Server
	processes []*process
}

// What ends a scenario early, by panic, so that scenarios read as stories.
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

// isLock ends the scenario unless a lock keeps a second holder out until it is
// given back. It uses a key of its own.
func (w *world) isLock() {
	a, b := w.startAt("another lock", "a"), w.startAt("another lock", "b")
	a.mustLock()
	w.expect(!b.lock(), "it lets everybody in")
	w.expect(a.unlock(), "it cannot be given back")
	w.expect(b.lock(), "it is not given back")
	w.expect(b.unlock() && a.lock() && a.unlock(), "it cannot be given back twice")
}

// outlast waits until what was set to expire has done so.
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
	// What a lock tries again in the background ends when its client is closed: it
	// notices after its next pause.
	time.Sleep(w.ttl / 5)
	return errors.Join(append(errs, w.server.Close())...)
}

// A process is one holder, with a client of its own.
type process struct {
	*world
	ctx     context.Context
	mutex   Mutex
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

// stop has nothing of the process reach Redis any more: it is dead, unless it
// goes on later.
func (p *process) stop() { p.stopped = p.hook.On(locktest.Any, -1, locktest.Drop) }

func (p *process) goOn() {
	if p.stopped != nil {
		p.stopped.Off()
	}
}

// lock reports whether the process has got the lock.
func (p *process) lock() bool {
	ok, err := p.mutex.TryLock(p.ctx)
	if err != nil {
		panic(failure{err})
	}
	return ok
}

// mustLock is for a lock that is part of the scenario, not of the promise.
func (p *process) mustLock() {
	if !p.lock() {
		panic(failure{errors.New("the lock is held before the scenario begins")})
	}
}

// unlock reports whether there was a lock to give back.
func (p *process) unlock() bool {
	err := p.mutex.Unlock(p.ctx)
	if err != nil && !errors.Is(err, p.stage.NotHeld) {
		panic(failure{err})
	}
	return err == nil
}

// token is the fencing token that the process sends along, 0 if it has none.
func (p *process) token() int64 {
	if m, ok := p.mutex.(interface{ Token() int64 }); ok {
		return m.Token()
	}
	return 0
}

// unlocking is what gives the lock back, of all that Unlock may send.
var unlocking = locktest.Command("del", "eval", "evalsha")

// unlockUntold gives the lock back, and the reply is lost.
func (p *process) unlockUntold() {
	p.hook.On(unlocking, 1, locktest.LoseReply(locktest.ErrCut))
	if err := p.mutex.Unlock(p.ctx); !errors.Is(err, locktest.ErrCut) {
		panic(failure{fmt.Errorf("the reply to Unlock was to be lost: %w", err)})
	}
}

// parking is where a command is parked.
type parking func(*locktest.Pause) locktest.Action

func beforeIt(p *locktest.Pause) locktest.Action { return p.Before }
func afterIt(p *locktest.Pause) locktest.Action  { return p.After }

// unlockParked has an Unlock park, or end if it does not come to the command.
// goOn lets it go on to its end.
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
