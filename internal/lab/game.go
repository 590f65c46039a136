package lab

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"oversell/internal/fault"
	"oversell/internal/message"
)

// Play plays a schedule from its start, in virtual time and on its own Redis, and returns the
// resulting State. The same schedule always leads to the same State. So to undo a move, play the
// schedule without it. The error is a Refusal if the schedule is out of bounds or contains an
// impossible move.
//
// Each buyer is a process that buys one unit with the guard and the stock of the shop. If the goal
// is GoalStuck, Play plays the schedule a second time and lets all buyers go on, to see which are
// never served. Play is safe for concurrent use, and leaves no goroutine behind.
//
// Unlike Run, Play may be called in a process that continues in real time. Only pooled timers could
// leak out of virtual time. go-redis uses a pooled timer only while a caller waits for an exhausted
// connection pool, and a buyer uses only a few of its 256 connections. The other client libraries
// have pools, too, but none of the Levels uses these libraries.
func Play(sc Schedule) (State, error) {
	var state State
	err := sc.play(func(g *game) { state = g.state() })
	if err != nil || sc.Goal != GoalStuck {
		return state, err
	}
	var waiting []string
	if err := sc.play(func(g *game) { waiting = g.outlast(Patience) }); err != nil {
		return State{}, err
	}
	if len(waiting) > 0 {
		state.Unserved = waiting
		said := message.Newf("%s would wait forever", list(waiting))
		if state.Lock.Redis != "" && state.Lock.Redis != "free" && state.Lock.TTL == nil {
			said = message.Text("nobody can take this lock any more: it never expires")
		}
		state.Findings = append(state.Findings, Finding{state.Now, Unserved, waiting[0], said.String(), said})
		state.Reached = reached(state.Findings)
		state.Trace = append(state.Trace, newEvent(state.Now, waiting[0], Break, said))
	}
	return state, nil
}

// play plays a schedule, and calls look with the finished game.
func (sc Schedule) play(look func(*game)) error {
	c, moves, err := sc.read()
	if err != nil {
		return err
	}
	var failed error
	err = InVirtualTime(func() {
		server := inMemory()
		defer server.close()
		g := newGame(server, c, sc.Buyers)
		defer g.w.close()
		if failed = g.all(moves); failed == nil {
			look(g)
		}
		if v := g.w.failure; failed == nil && v != nil { // set by a goroutine that got stuck or panicked
			failed = fmt.Errorf("playing a schedule: %s", v.Note)
		}
	})
	if err != nil {
		return fmt.Errorf("playing a schedule: %w", err)
	}
	return failed
}

type game struct {
	w      *World
	shop   *Shop
	buyers []*Shopper
	moves  []Move
	news   chan struct{} // receives a value when something has changed

	mu       sync.Mutex
	findings []Finding
}

// newGame prepares a game without starting the buyers. A buyer starts at its first step, so that it
// sends no command before then.
func newGame(server *server, c Subject, buyers int) *game {
	w := newWorld(context.Background(), server, c, virtualTTL)
	w.keyless, w.names.micros = true, true // state reads all keys at the end
	g := &game{w: w, shop: w.OpenShop(int64(Units(buyers))), news: make(chan struct{}, 1)}
	w.changed = g.changed
	for i := range buyers {
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
			g.w.Note(b.Name, "buys nothing: %s", b.brief(b.Err))
		}
	})
	g.settle()
}

// brief is like Brief, with names in place of keys and tokens.
func (s *Shopper) brief(err error) message.Message { return Brief(err).Map(s.w.names.value) }

// opens sets the text of a command, and loads its script into Redis, so that the result does not
// depend on which buyer sends the script first.
func (s *Shopper) opens(c *Request) {
	if c.Source != "" {
		s.w.unread(s.w.Side.ScriptLoad(s.w.ctx, c.Source).Err())
	}
	c.Text = strings.Replace(s.text(*c), "EVALSHA", "EVAL", 1)
}

func (s *Shopper) text(c Request) string { return s.w.names.text(s.Name, c.Wire) }

// let lets Redis execute a command. A command that blocks in Redis does not block the other commands.
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
	g.moves = moves
	for i, m := range moves {
		from := g.w.trace.len()
		if err := g.move(m); err != nil {
			return Refuse("move %d, %v: %v", i+1, m, err)
		}
		g.lookForSelfWait()
		g.w.trace.arrange(from, buyerName(m.Buyer))
	}
	return nil
}

// move makes a move, and returns when all goroutines are blocked again.
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
		return message.Errorf("%s has nothing to send: it is %s", s.Name, message.Text(string(s.status())))
	case 1:
		return message.Errorf("%s has one command to send, and no command %d", s.Name, n)
	}
	return message.Errorf("%s has %d commands to send, and no command %d", s.Name, there, n)
}

func (s *Shopper) able(a Action) error {
	steps, status := a == Step || a == Lose, s.status()
	switch {
	case status == Dead:
		return message.Errorf("%s is dead", s.Name)
	case !steps && status == Outside:
		return message.Errorf("%s has not arrived yet", s.Name)
	case steps && s.isFrozen():
		return message.Errorf("%s is frozen", s.Name)
	case a == Thaw && !s.isFrozen():
		return message.Errorf("%s is not frozen", s.Name)
	case a == Freeze && s.isFrozen():
		return message.Errorf("%s is frozen already", s.Name)
	case !steps && a != Thaw && status == Done:
		return message.Errorf("%s is done", s.Name)
	}
	return nil
}

// pass lets time pass. Renewals need no move: each is sent when its timer fires, unless its process
// is frozen.
func (g *game) pass(d time.Duration) {
	g.letWatchdogs()
	g.passUntil(func() bool { return false }, d)
}

// passUntil lets time pass until done returns true, but at most d.
func (g *game) passUntil(done func() bool, d time.Duration) {
	timer := time.After(d)
	for over := false; !done() && !over; {
		select {
		case <-timer:
			over = true
		case <-g.news:
		}
		g.settle()
		g.letWatchdogs()
	}
}

// letWatchdogs lets the pending renewals through. It takes the buyers in their order, so that the result
// is the same each time.
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

// changed records a finding if an actor's command deleted another actor's lock.
func (g *game) changed(actor string, before, after lockState) {
	if !before.held || after.held {
		return
	}
	if holder := g.w.names.holder(before.value); holder != "" && holder != actor {
		g.find(ForeignDelete, actor, "%s deleted the lock of %s", actor, holder)
	}
}

// lookForSelfWait records a finding for a buyer that waits in its section for the lock that it
// holds itself. A buyer in its section always has a command to send, unless it has asked for the
// lock again and was refused.
func (g *game) lookForSelfWait() {
	if !g.w.Subject.InRedis() {
		return
	}
	for _, b := range g.buyers {
		if !b.selfWaits && b.isInside() && b.status() == Asleep && g.w.names.holder(g.w.look().value) == b.Name {
			b.selfWaits = true
			g.find(SelfWait, b.Name, "%s waits for its own lock", b.Name)
		}
	}
}

// saw records a moment of a buyer's purchase, and the findings that follow from it.
func (g *game) saw(b *Shopper, m moment) {
	switch m {
	case enters:
		g.entered(b)
	case refused:
		g.find(Refused, b.Name,
			"the stock refused %s: a later holder with a greater fencing token came first", b.Name)
	case wrote:
		if n := g.shop.sold() + 1; n > g.shop.initial {
			g.find(Oversold, b.Name, "%s sells unit %d of %d", b.Name, n, g.shop.initial)
		}
	}
	g.shop.saw(b.Process, m)
}

// find records a finding. The trace shows an overlap or a refused write only as a note, because it
// may be harmless.
func (g *game) find(kind FindingKind, actor, format string, args ...any) {
	mark := Break
	if kind == Overlap || kind == Refused {
		mark = Note
	}
	said := message.Newf(format, args...)
	g.w.trace.add(actor, mark, said)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.findings = append(g.findings, Finding{g.w.trace.ms(), kind, actor, said.String(), said})
}

// entered records an Overlap if b enters the section with a lock while other buyers are in it.
func (g *game) entered(b *Shopper) {
	if g.w.Subject.Lock == nil {
		return
	}
	others := g.inside(b)
	switch {
	case len(others) == 0:
	case g.w.Subject.InRedis():
		g.find(Overlap, b.Name, "%s got the lock while %s still relied on it", b.Name, list(others))
	default:
		g.find(Overlap, b.Name, "%s got the lock of its own process while %s had another one", b.Name, list(others))
	}
}

// inside returns the names of the buyers in the section, without that of b.
func (g *game) inside(b *Shopper) []string {
	names := []string{}
	for _, other := range g.buyers {
		if other != b && other.isInside() {
			names = append(names, other.Name)
		}
	}
	return names
}

func (t *trace) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.entries)
}

// arrange sorts the events of one move, which begin at index from, so that their order does not
// depend on goroutines. The buyer that moved comes before the buyers that it woke.
func (t *trace) arrange(from int, mover string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	slices.SortStableFunc(t.entries[min(from, len(t.entries)):], func(a, b *Event) int {
		return cmp.Or(cmp.Compare(a.At, b.At), compareBool(a.Actor != mover, b.Actor != mover),
			cmp.Compare(a.Actor, b.Actor))
	})
}

// Goal is something that a schedule can lead to and that the strategy should prevent. A player wins
// a level by reaching its goal, and package search looks for the shortest schedule that reaches
// each goal.
type Goal string

// The goals.
const (
	GoalOversell      Goal = "oversell"       // more units are sold than exist
	GoalOverlap       Goal = "overlap"        // two buyers are in the section at once
	GoalForeignDelete Goal = "foreign-delete" // a buyer deletes another buyer's lock
	GoalSelfWait      Goal = "self-wait"      // a buyer in its section waits for the lock that it holds itself
	GoalStuck         Goal = "stuck"          // a buyer waits and is never served
)

// Goals returns all goals.
func Goals() []Goal {
	return []Goal{GoalOversell, GoalOverlap, GoalForeignDelete, GoalSelfWait, GoalStuck}
}

// GoalNames lists the names of all goals, for a person.
func GoalNames() string {
	var names []string
	for _, g := range Goals() {
		names = append(names, string(g))
	}
	return strings.Join(names, ", ")
}

// NotApplicable returns why the goal does not apply to a subject, or "" if it does.
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
	Faultless bool   `json:"faultless,omitempty"` // only a schedule without faults wins the level
}

// Game returns the levels in their order. Each level but the last shows a flaw of one stage of the
// lock that the next stage fixes. The goal of v8 cannot be reached, and the player has to find that
// out. A frozen process would break v5 as well as v6 and v7, so v5 must be won without a fault:
// otherwise one schedule would win three levels in a row.
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

// shownBy maps a goal to the kind of finding that shows that it was reached.
var shownBy = map[Goal]FindingKind{
	GoalOversell: Oversold, GoalOverlap: Overlap, GoalForeignDelete: ForeignDelete, GoalSelfWait: SelfWait,
	GoalStuck: Unserved,
}

// Patience is the time that all buyers are given after a schedule. A buyer that still waits at the
// end counts as stuck.
const Patience = 10 * ScheduleTTL

func reached(findings []Finding) []Goal {
	goals := []Goal{}
	for _, g := range Goals() {
		if slices.ContainsFunc(findings, func(f Finding) bool { return f.Kind == shownBy[g] }) {
			goals = append(goals, g)
		}
	}
	return goals
}

// outlast lets all living buyers go on for d without another fault. Frozen processes thaw, the
// buyers' commands are let through in turn, and time passes when none is pending. It returns the
// buyers that have not been served by then.
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
			g.pass(retryDelay)
		}
	}
	for _, b := range g.buyers {
		if status := b.status(); status != Done && status != Dead {
			waiting = append(waiting, b.Name)
		}
	}
	return waiting
}

// round lets one command of each buyer through, and reports whether any command was pending.
func (g *game) round() (any bool) {
	for _, b := range g.buyers {
		if commands := b.Requests(); len(commands) > 0 {
			any = true
			g.let(b, commands[0], false)
		}
	}
	return any
}
