package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"oversell/internal/guard"
	"oversell/internal/lab/turnstile"
	"oversell/internal/lab/wire"
	"oversell/internal/stock"
)

// Play plays a schedule from its start, in virtual time and on a Redis of its
// own, and returns what it has led to. The same schedule leads to the same State
// each time, so to take back a move is to play one less. The error wraps
// ErrSchedule for a schedule that is out of bounds, or has a move that was not
// possible.
//
// A buyer is a process that takes one unit by the guard and the stock of the
// shop. Play is safe for concurrent use, and leaves no goroutine behind.
//
// Unlike Run it may be called in a process that goes on in real time. What could get
// from a bubble of virtual time to the clients outside are timers that go-redis
// pools for all clients, and it takes one only while a caller waits for a pool that
// is exhausted: of the 256 connections that a player may have it takes a few, and
// the other client libraries, which pool on their own, none of the Levels uses.
func Play(sc Schedule) (State, error) {
	var state State
	err := sc.play(func(s *staging) { state = s.state() })
	if err != nil {
		return State{}, err
	}
	return state, nil
}

// play plays a schedule, and calls look with the result.
func (sc Schedule) play(look func(*staging)) error {
	c, err := sc.subject()
	if err != nil {
		return err
	}
	if err := sc.check(); err != nil {
		return err
	}
	var failed error
	err = InVirtualTime(func() {
		server := inMemory()
		defer server.close()
		s := stage(server, c, sc)
		defer s.w.close()
		if failed = s.all(sc.Moves); failed == nil {
			look(s)
			failed = s.failure()
		}
	})
	if err != nil {
		return fmt.Errorf("playing a schedule: %w", err)
	}
	return failed
}

// staging is a schedule that is being played.
type staging struct {
	sc       Schedule
	w        *World
	shop     *Shop
	players  []*player
	scripts  sources
	arrivals chan struct{} // has a value when something came to a gate

	mu       sync.Mutex
	findings []Finding
}

// player is a buyer on stage.
type player struct {
	*gate
	name   string
	index  int
	come   func() // has it come in; nil once it has
	frozen bool
	dead   bool

	selfWaits bool // that it waits for its own lock was found

	mu    sync.Mutex // guards what follows
	done  bool
	err   error // with which it is done
	sold  bool
	read  *int64 // the stock, as it read it last
	wrote *int64 // the stock, as it wrote it
}

// stage prepares everything. A buyer starts with its first step, because its commands
// age from then on.
func stage(server *server, c Subject, sc Schedule) *staging {
	w := newWorld(context.Background(), server, c, virtualTTL)
	w.keyless = true // state reads them all in the end
	s := &staging{
		sc: sc, w: w, shop: w.OpenShop(int64(Units(sc.Buyers))),
		scripts:  sources{of: make(map[string]string)},
		arrivals: make(chan struct{}, 1),
	}
	for i := range sc.Buyers {
		s.players = append(s.players, s.player(i))
	}
	return s
}

// player makes a buyer, in a process of its own.
func (s *staging) player(index int) *player {
	name := buyerName(index)
	p := s.w.Start(name)
	_ = p.rdb.Close() // no connection was made yet
	pl := &player{gate: &gate{s: s, p: p, turns: turnstile.New(p.life, s.notice)}, name: name, index: index}
	p.rdb = pl.client()
	p.links[0].rdb = p.rdb
	b := s.shop.Buyer(p, 0)
	b.work = nil // it takes no time, and a timer would
	b.Guard = watched{b.Guard, pl}
	b.Ordering = func() error { s.ordered(pl); return nil }
	pl.come = func() {
		pl.come = nil
		s.w.Go(func() { pl.finish(b.Buy()) })
		s.settle()
	}
	return pl
}

func (pl *player) finish(err error) {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	pl.done, pl.err = true, err
}

// all makes the moves one by one.
func (s *staging) all(moves []Move) error {
	for i, m := range moves {
		from := s.w.trace.len()
		if err := s.move(m); err != nil {
			return fmt.Errorf("%w: move %d, %v: %w", ErrSchedule, i+1, m, err)
		}
		s.lookForSelfWait()
		s.w.trace.arrange(from, buyerName(m.Buyer))
	}
	return nil
}

// move makes a move, and returns when all that can be done at once is done.
func (s *staging) move(m Move) error {
	for _, pl := range s.players {
		pl.kept = 0
	}
	if m.Action == Pass {
		s.pass(m.For)
		return nil
	}
	pl := s.players[m.Buyer]
	if err := pl.able(m.Action); err != nil {
		return err
	}
	switch m.Action {
	case Step, Lose:
		if pl.come != nil {
			pl.come()
		}
		commands, n := pl.commands(), max(m.Nth, 1)
		if n > len(commands) {
			return pl.lacks(n, len(commands))
		}
		commands[n-1].lost = m.Action == Lose
		pl.let(commands[n-1])
	case Freeze:
		pl.frozen = true
		pl.p.Freeze()
	case Thaw:
		pl.frozen = false
		pl.p.Thaw()
	case Kill:
		pl.dead = true
		pl.p.Kill()
	}
	s.settle()
	return nil
}

// lacks is the error for a command that the player is not about to send.
func (pl *player) lacks(n, there int) error {
	switch {
	case there == 0:
		return fmt.Errorf("%s has nothing to send: it is %s", pl.name, pl.status())
	case there == 1:
		return fmt.Errorf("%s has one command to send, and no command %d", pl.name, n)
	}
	return fmt.Errorf("%s has %d commands to send, and no command %d", pl.name, there, n)
}

// able returns an error that says why an action cannot be done to the player.
func (pl *player) able(a Action) error {
	over, steps := pl.status() == Done, a == Step || a == Lose
	switch {
	case pl.dead:
		return errors.New(pl.name + " is dead")
	case !steps && pl.come != nil:
		return errors.New(pl.name + " has not arrived yet")
	case steps && pl.frozen:
		return errors.New(pl.name + " is frozen")
	case a == Thaw && !pl.frozen:
		return errors.New(pl.name + " is not frozen")
	case a == Freeze && pl.frozen:
		return errors.New(pl.name + " is frozen already")
	case !steps && a != Thaw && over:
		return errors.New(pl.name + " is done")
	}
	return nil
}

// pass lets time pass. Renewals are sent by timers and need no move, unless their
// process is stopped.
func (s *staging) pass(d time.Duration) {
	s.letWatchdogs()
	timer := time.After(d)
	for over := false; !over; {
		select {
		case <-timer:
			over = true
		case <-s.arrivals:
		}
		s.settle()
		s.letWatchdogs()
	}
}

// letWatchdogs sends the commands that renew locks, one after the other in the order of
// the buyers, so that the result is the same each time.
func (s *staging) letWatchdogs() {
	for _, pl := range s.players {
		for h := pl.watchdog(); h != nil && !pl.frozen; h = pl.watchdog() {
			pl.let(h)
			s.settle()
		}
	}
}

// settle returns when all goroutines wait, and the commands that they have sent are at their
// gates.
func (s *staging) settle() {
	for AwaitOthers(); s.nextTurn(); {
		AwaitOthers()
	}
}

// nextTurn lets the next command through to its gate.
func (s *staging) nextTurn() bool {
	return slices.ContainsFunc(s.players, func(pl *player) bool { return pl.turns.Next() })
}

// notice wakes pass.
func (s *staging) notice() {
	select {
	case s.arrivals <- struct{}{}:
	default:
	}
}

// lock reads the lock before and after a command that concerns it.
func (s *staging) lock(cmd wire.Command) lockState {
	if !s.w.Subject.InRedis() || !cmd.Mentions(s.w.redisKey()) {
		return lockState{}
	}
	return s.w.look()
}

// changed checks what a command of an actor did to the lock. Owners knows whose lock was
// there before.
func (s *staging) changed(actor string, before, after lockState) {
	if !before.held || after.held {
		return
	}
	if holder := s.holder(before); holder != "" && holder != actor {
		s.find(ForeignDelete, actor, fmt.Sprintf("%s deleted the lock of %s", actor, holder))
	}
}

// holder returns whose lock it is, or "" if that is not known.
func (s *staging) holder(l lockState) string {
	o := &s.w.owners
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.of[l.value]
}

// lookForSelfWait finds who sleeps in the section until the lock is free, and has it. In its
// section a buyer has a command to send, unless it has asked for the lock again and was
// refused.
func (s *staging) lookForSelfWait() {
	if !s.w.Subject.InRedis() {
		return
	}
	for _, pl := range s.players {
		if !pl.selfWaits && pl.isInside() && pl.status() == Asleep && s.holder(s.w.look()) == pl.name {
			pl.selfWaits = true
			s.find(SelfWait, pl.name, pl.name+" waits for the lock that it has itself")
		}
	}
}

// ordered looks at the order that a player is about to write.
func (s *staging) ordered(pl *player) {
	pl.mu.Lock()
	pl.sold = true
	pl.mu.Unlock()
	s.shop.mu.Lock()
	sold := s.shop.Orders + 1
	s.shop.mu.Unlock()
	if sold > s.shop.initial {
		s.find(Oversold, pl.name, fmt.Sprintf("%s sells unit %d of %d", pl.name, sold, s.shop.initial))
	}
}

// find records a finding. A lock that was granted twice is only a note, because it need
// not do harm, and so is a refused write.
func (s *staging) find(kind FindingKind, actor, text string) {
	mark := Break
	if kind == Overlap || kind == Refused {
		mark = Note
	}
	s.w.trace.add(actor, mark, text)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.findings = append(s.findings, Finding{At: s.w.trace.ms(), Kind: kind, Actor: actor, Text: text})
}

// failure is that of a goroutine which could not go on.
func (s *staging) failure() error {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	if s.w.failure != nil {
		return fmt.Errorf("playing a schedule: %s", s.w.failure.Note)
	}
	return nil
}

// watched is a stock guard that tells what its buyer read and wrote.
type watched struct {
	stock.Guard
	pl *player
}

// Do implements stock.Guard.
func (g watched) Do(ctx context.Context, at stock.Location, e guard.Entry, section stock.Section) (guard.Stats, error) {
	return g.Guard.Do(ctx, at, e, func(ctx context.Context, c stock.Counter) error {
		g.pl.enter(true)
		g.pl.s.entered(g.pl)
		defer g.pl.enter(false)
		if g.pl.s.w.Subject.Nested {
			if err := LockAgain(ctx, g.Guard, at, e); err != nil {
				return err
			}
		}
		return section(ctx, watchedStock{c, g.pl})
	})
}

// entered notes who else is in the section when a buyer enters with a lock.
func (s *staging) entered(pl *player) {
	if s.w.Subject.Lock == nil {
		return
	}
	var others []string
	for _, other := range s.players {
		if other != pl && other.isInside() {
			others = append(others, other.name)
		}
	}
	switch {
	case len(others) == 0:
	case !s.w.Subject.InRedis():
		s.find(Overlap, pl.name, fmt.Sprintf("%s got the lock of its own process while %s had another one", pl.name, list(others)))
	default:
		s.find(Overlap, pl.name, fmt.Sprintf("%s got the lock while %s still relied on it", pl.name, list(others)))
	}
}

// watchedStock is the stock as a buyer sees it.
type watchedStock struct {
	stock.Counter
	pl *player
}

func (c watchedStock) Get(ctx context.Context) (int64, error) {
	left, err := c.Counter.Get(ctx)
	c.refused(err)
	if err == nil {
		c.pl.mu.Lock()
		defer c.pl.mu.Unlock()
		c.pl.read = &left
	}
	return left, err
}

func (c watchedStock) Set(ctx context.Context, left int64) error {
	err := c.Counter.Set(ctx, left)
	c.refused(err)
	if err == nil {
		c.pl.mu.Lock()
		defer c.pl.mu.Unlock()
		c.pl.wrote = &left
	}
	return err
}

// refused notes that the stock has refused a buyer that came too late.
func (c watchedStock) refused(err error) {
	if errors.Is(err, stock.ErrFenced) {
		c.pl.s.find(Refused, c.pl.name, fmt.Sprintf("the stock refused %s: a later holder with a greater fencing token was there", c.pl.name))
	}
}

// len is how many events there are.
func (t *trace) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.entries)
}

// arrange sorts the events of one move, which begin at an index, so that their order
// does not depend on goroutines: the actor that moved comes before those that it woke.
func (t *trace) arrange(from int, mover string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	slices.SortStableFunc(t.entries[min(from, len(t.entries)):], func(a, b *Event) int {
		return cmp.Or(cmp.Compare(a.At, b.At), CompareBool(a.Actor != mover, b.Actor != mover), cmp.Compare(a.Actor, b.Actor))
	})
}
