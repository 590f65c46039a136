package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"oversell/internal/fault"
	"oversell/internal/naming"
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
// is exhausted: of the 256 connections that a buyer may have it takes a few, and
// the other client libraries, which pool on their own, none of the Levels uses.
func Play(sc Schedule) (State, error) {
	var state State
	err := sc.play(func(g *game) { state = g.state() })
	return state, err
}

// play plays a schedule, and calls look with the result.
func (sc Schedule) play(look func(*game)) error {
	c, err := sc.check()
	if err != nil {
		return err
	}
	var failed error
	err = InVirtualTime(func() {
		server := inMemory()
		defer server.close()
		g := newGame(server, c, sc)
		defer g.w.close()
		if failed = g.all(sc.Moves); failed == nil {
			look(g)
		}
		if v := g.w.failure; failed == nil && v != nil { // of a goroutine that could not go on
			failed = fmt.Errorf("playing a schedule: %s", v.Note)
		}
	})
	if err != nil {
		return fmt.Errorf("playing a schedule: %w", err)
	}
	return failed
}

type game struct {
	sc     Schedule
	w      *World
	shop   *Shop
	buyers []*Shopper
	news   chan struct{} // has a value when something has come

	mu       sync.Mutex
	findings []Finding
}

// newGame prepares everything. A buyer starts with its first step, because its commands
// age from then on.
func newGame(server *server, c Subject, sc Schedule) *game {
	w := newWorld(context.Background(), server, c, virtualTTL)
	w.keyless, w.names.micros = true, true // state reads them all in the end
	g := &game{sc: sc, w: w, shop: w.OpenShop(int64(Units(sc.Buyers))), news: make(chan struct{}, 1)}
	w.changed = g.changed
	for i := range sc.Buyers {
		b := &Shopper{Owner: fmt.Sprintf("%s/%d", buyerName(i), i+1), News: g.news, index: i}
		b.Opens, b.sees = b.opens, func(m moment) { g.saw(b, m) }
		b.begin(w, buyerName(i))
		g.buyers = append(g.buyers, b)
	}
	return g
}

func (g *game) come(b *Shopper) {
	b.came = true
	g.w.Go(func() {
		b.Run()
		if b.Err != nil {
			g.w.Note(b.Name, "buys nothing: %s", Brief(b.Err))
		}
	})
	g.settle()
}

// opens gives a command its text, and Redis its script: neither depends on which buyer sends it first.
func (s *Shopper) opens(c *Request) {
	if c.Source != "" {
		s.w.unread(s.w.Side.ScriptLoad(s.w.ctx, c.Source).Err())
	}
	c.Text = strings.Replace(s.text(*c), "EVALSHA", "EVAL", 1)
}

func (s *Shopper) text(c Request) string { return s.w.names.text(s.Name, c.Wire) }

// let has Redis execute a command. One that waits in Redis does not keep the others.
func (g *game) let(b *Shopper, c Request, lost bool) {
	b.Let(c, func(_ context.Context, send func() (fault.Value, error)) (fault.Value, error) {
		if lost {
			b.Inject(AnyCommand, 1, "the connection breaks before the reply arrives", loseReply)
		}
		if c.Wire.Blocks() {
			b.note(func() { b.waiting = &c })
			defer b.note(func() { b.waiting = nil })
		}
		return g.w.command(b.links[0], c.Wire, send)
	})
	g.settle()
}

func (g *game) all(moves []Move) error {
	for i, m := range moves {
		from := g.w.trace.len()
		if err := g.move(m); err != nil {
			return fmt.Errorf("%w: move %d, %v: %w", ErrSchedule, i+1, m, err)
		}
		g.lookForSelfWait()
		g.w.trace.arrange(from, buyerName(m.Buyer))
	}
	return nil
}

// move makes a move, and returns when all that can be done at once is done.
func (g *game) move(m Move) error {
	if m.Action == Pass {
		g.pass(m.For)
		return nil
	}
	b := g.buyers[m.Buyer]
	if err := b.able(m.Action); err != nil {
		return err
	}
	switch m.Action {
	case Step, Lose:
		if !b.came {
			g.come(b)
		}
		commands, n := b.Requests(), max(m.Nth, 1)
		if n > len(commands) {
			return b.lacks(n, len(commands))
		}
		g.let(b, commands[n-1], m.Action == Lose)
	case Freeze:
		b.Freeze()
	case Thaw:
		b.Thaw()
	case Kill:
		b.Kill()
	}
	g.settle()
	return nil
}

func (s *Shopper) lacks(n, there int) error {
	switch there {
	case 0:
		return fmt.Errorf("%s has nothing to send: it is %s", s.Name, s.status())
	case 1:
		return fmt.Errorf("%s has one command to send, and no command %d", s.Name, n)
	}
	return fmt.Errorf("%s has %d commands to send, and no command %d", s.Name, there, n)
}

func (s *Shopper) able(a Action) error {
	steps, why := a == Step || a == Lose, ""
	switch status := s.status(); {
	case status == Dead:
		why = "is dead"
	case !steps && status == Outside:
		why = "has not arrived yet"
	case steps && s.isFrozen():
		why = "is frozen"
	case a == Thaw && !s.isFrozen():
		why = "is not frozen"
	case a == Freeze && s.isFrozen():
		why = "is frozen already"
	case !steps && a != Thaw && status == Done:
		why = "is done"
	}
	if why == "" {
		return nil
	}
	return errors.New(s.Name + " " + why)
}

// pass lets time pass. Renewals are sent by timers and need no move, unless their
// process is stopped.
func (g *game) pass(d time.Duration) {
	g.letWatchdogs()
	timer := time.After(d)
	for over := false; !over; {
		select {
		case <-timer:
			over = true
		case <-g.news:
		}
		g.settle()
		g.letWatchdogs()
	}
}

// letWatchdogs sends the commands that renew locks, one after the other in the order of
// the buyers, so that the result is the same each time.
func (g *game) letWatchdogs() {
	for _, b := range g.buyers {
		for {
			commands := b.Requests()
			i := slices.IndexFunc(commands, func(c Request) bool { return c.Watchdog && !c.GivenUp })
			if i < 0 || b.isFrozen() {
				break
			}
			g.let(b, commands[i], false)
		}
	}
}

func (g *game) settle() { Settle(g.buyers...) }

// changed checks what a command of an actor did to the lock. The names know whose lock
// was there before.
func (g *game) changed(actor string, before, after lockState) {
	if !before.held || after.held {
		return
	}
	if holder := g.w.names.holder(before.value); holder != "" && holder != actor {
		g.find(ForeignDelete, actor, fmt.Sprintf("%s deleted the lock of %s", actor, holder))
	}
}

// lookForSelfWait finds who sleeps in the section until the lock is free, and has it. In its
// section a buyer has a command to send, unless it has asked for the lock again and was
// refused.
func (g *game) lookForSelfWait() {
	if !g.w.Subject.InRedis() {
		return
	}
	for _, b := range g.buyers {
		if !b.selfWaits && b.isInside() && b.status() == Asleep && g.w.names.holder(g.w.look().value) == b.Name {
			b.selfWaits = true
			g.find(SelfWait, b.Name, b.Name+" waits for the lock that it has itself")
		}
	}
}

// saw finds what is wrong with what a buyer does.
func (g *game) saw(b *Shopper, m moment) {
	switch m {
	case enters:
		g.entered(b)
	case refused:
		g.find(Refused, b.Name,
			fmt.Sprintf("the stock refused %s: a later holder with a greater fencing token was there", b.Name))
	case wrote:
		if n := g.shop.sold() + 1; n > g.shop.initial {
			g.find(Oversold, b.Name, fmt.Sprintf("%s sells unit %d of %d", b.Name, n, g.shop.initial))
		}
	}
	g.shop.saw(b.Process, m)
}

// find records a finding. A lock that was granted twice is only a note, because it need
// not do harm, and so is a refused write.
func (g *game) find(kind FindingKind, actor, text string) {
	mark := Break
	if kind == Overlap || kind == Refused {
		mark = Note
	}
	g.w.trace.add(actor, mark, text)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.findings = append(g.findings, Finding{At: g.w.trace.ms(), Kind: kind, Actor: actor, Text: text})
}

// entered notes who else is in the section when a buyer enters with a lock.
func (g *game) entered(b *Shopper) {
	if g.w.Subject.Lock == nil {
		return
	}
	var others []string
	for _, other := range g.buyers {
		if other != b && other.isInside() {
			others = append(others, other.Name)
		}
	}
	text := "%s got the lock while %s still relied on it"
	if !g.w.Subject.InRedis() {
		text = "%s got the lock of its own process while %s had another one"
	}
	if len(others) > 0 {
		g.find(Overlap, b.Name, fmt.Sprintf(text, b.Name, list(others)))
	}
}

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
		return cmp.Or(cmp.Compare(a.At, b.At), compareBool(a.Actor != mover, b.Actor != mover),
			cmp.Compare(a.Actor, b.Actor))
	})
}

// Goal is something that a schedule can lead to and that the strategy should prevent. The
// scheduler wins a level by reaching its goal, and package search looks for the shortest
// schedule to each.
type Goal string

// The goals.
const (
	GoalOversell      Goal = "oversell"       // more is sold than there is
	GoalOverlap       Goal = "overlap"        // two are in the section at once
	GoalForeignDelete Goal = "foreign-delete" // somebody deletes a lock of another
	GoalSelfWait      Goal = "self-wait"      // a buyer in its section waits for the lock that it has itself
	GoalStuck         Goal = "stuck"          // a buyer waits that no schedule serves any more
)

// Goals returns all goals.
func Goals() []Goal {
	return []Goal{GoalOversell, GoalOverlap, GoalForeignDelete, GoalSelfWait, GoalStuck}
}

// NotApplicable says why the goal means nothing for a subject. It is "" if it means something.
func (g Goal) NotApplicable(c Subject) string {
	ofLock := g == GoalOverlap || g == GoalForeignDelete || g == GoalSelfWait
	switch {
	case ofLock && c.Lock == nil:
		return "there is no lock to break"
	case ofLock && g != GoalOverlap && !c.InRedis():
		return "its lock is in its process, and this is about a lock in Redis"
	}
	return ""
}

// Level is a level of the game on the page: a strategy, and the goal to reach with it.
type Level struct {
	Strategy  string `json:"strategy"`
	Goal      Goal   `json:"goal"`
	Faultless bool   `json:"faultless,omitempty"` // it is won only without a fault
}

// Game returns the levels in their order. Each shows what is wrong with one stage of the
// lock, and the next stage stops that. The goal of v8 cannot be reached, which is to be
// found out. A frozen process would break v5 as well as v6 and v7, so at v5 only time passes:
// no schedule wins three levels in a row.
func Game() []Level {
	return []Level{
		{Strategy: "none", Goal: GoalOversell},
		{Strategy: "v1_setnx", Goal: GoalStuck},
		{Strategy: "v2_ttl", Goal: GoalForeignDelete},
		{Strategy: "v3_uuid", Goal: GoalForeignDelete},
		{Strategy: "nested_v4_lua", Goal: GoalSelfWait},
		{Strategy: "v5_reentrant", Goal: GoalOversell, Faultless: true},
		{Strategy: "v6_watchdog", Goal: GoalOversell},
		{Strategy: "v7_queue", Goal: GoalOversell},
		{Strategy: "v8_fenced", Goal: GoalOversell},
		{Strategy: "v9_cohort", Goal: GoalOverlap},
	}
}

// shownBy is the kind of finding by which a goal is reached. Stuck has none here: it is about
// what comes afterwards, which PlayFor finds out.
var shownBy = map[Goal]FindingKind{
	GoalOversell: Oversold, GoalOverlap: Overlap, GoalForeignDelete: ForeignDelete, GoalSelfWait: SelfWait,
}

// Patience is for how long everybody goes on before a buyer who is not served is stuck.
const Patience = 10 * ScheduleTTL

// Question is a schedule as the page asks for it.
type Question struct {
	Strategy string `json:"strategy"` // or a short name: see naming.Expand
	Buyers   int    `json:"buyers"`
	Moves    string `json:"moves"` // as ParseMoves reads them
	Goal     Goal   `json:"goal"`  // as PlayFor takes it
}

// Answer returns what the schedule has led to. The error wraps ErrSchedule as that of Play.
func (q Question) Answer() (State, error) {
	moves, err := ParseMoves(q.Moves)
	if err != nil {
		return State{}, err
	}
	return PlayFor(Schedule{Strategy: naming.Expand(q.Strategy, Levels()), Buyers: q.Buyers, Moves: moves}, q.Goal)
}

// PlayFor is Play, and notes in State.Reached whether goal was reached. Play alone notes all
// goals but stuck, for which the schedule is played once more, to see who is served
// afterwards.
func PlayFor(sc Schedule, goal Goal) (State, error) {
	if goal != "" && !slices.Contains(Goals(), goal) {
		return State{}, fmt.Errorf("%w: unknown goal %s", ErrSchedule, shorten(string(goal)))
	}
	st, err := Play(sc)
	if err != nil || goal != GoalStuck {
		return st, err
	}
	var waiting []string
	if err := sc.play(func(g *game) { waiting = g.outlast(Patience) }); err != nil {
		return State{}, err
	}
	if len(waiting) > 0 {
		st.Reached, st.Unserved = append(st.Reached, GoalStuck), waiting
		text := list(waiting) + " would wait for ever"
		if st.Lock.Redis != "" && st.Lock.Redis != "free" && st.Lock.TTL == nil {
			text = "nobody can take this lock any more: it never expires"
		}
		st.Findings = append(st.Findings, Finding{At: st.Now, Kind: Unserved, Actor: waiting[0], Text: text})
		st.Trace = append(st.Trace, Event{At: st.Now, Actor: waiting[0], Kind: Break, Text: text})
	}
	return st, nil
}

func reached(findings []Finding) []Goal {
	goals := []Goal{}
	for _, g := range Goals() {
		kind, ok := shownBy[g]
		if ok && slices.ContainsFunc(findings, func(f Finding) bool { return f.Kind == kind }) {
			goals = append(goals, g)
		}
	}
	return goals
}

// outlast lets everybody who lives go on for that long without another fault: frozen
// processes go on, each buyer's commands are let go in turn, and time passes when there are
// none. It returns who is not served by then.
func (g *game) outlast(d time.Duration) (waiting []string) {
	for _, b := range g.buyers {
		switch {
		case b.isKilled():
		case !b.came:
			g.come(b)
		case b.isFrozen():
			b.Thaw()
		}
	}
	g.settle()
	for end := time.Now().Add(d); time.Now().Before(end); {
		if !g.round() {
			g.pass(RetryDelay)
		}
	}
	for _, b := range g.buyers {
		if status := b.status(); status != Done && status != Dead {
			waiting = append(waiting, b.Name)
		}
	}
	return waiting
}

// round lets one command of each buyer go. It reports whether there was one.
func (g *game) round() (any bool) {
	for _, b := range g.buyers {
		if commands := b.Requests(); len(commands) > 0 {
			any = true
			g.let(b, commands[0], false)
		}
	}
	return any
}
