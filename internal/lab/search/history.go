package search

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"oversell/internal/fault"
	"oversell/internal/lab"
)

// history is a buyer after a sequence of inputs at certain times. It is safe for concurrent use.
type history struct {
	program   program
	parent    *history
	in        input
	at        time.Duration // the time of the last input, since the buyer started
	frozen    bool
	past      past
	snapshots []snapshot
	kept      *outcome // the history that replaces this one; nil: none does

	outcomes sync.Map // *outcome by input
	shapes   sync.Map // shape by the time without input
}

// outcome is the history to which an input leads.
type outcome struct {
	play    sync.Once
	history *history
	names   map[string]string // names of tokens and random values: in this run -> in history; nil: the same
	err     error
}

// histories holds the histories of all buyers. It keeps one history for each id, which it chooses
// when all workers have finished a level of the search. So the choice does not depend on the speed
// of the workers.
type histories struct {
	mu    sync.Mutex
	byID  map[string]*history
	fresh map[string][]*history // added since the last call to settle
	order func(a, b []input) int
}

func newHistories() *histories {
	return &histories{byID: make(map[string]*history), fresh: make(map[string][]*history), order: compareInputs}
}

// past holds the past inputs of a buyer that may still matter.
type past struct {
	seen []answer      // replies to its own commands
	kept string        // the last renewal if its reply was lost, or ""
	sent time.Duration // when it sent the command from which its lease counts
}

// answer is a command that a buyer has sent, and the reply.
type answer struct {
	text, reply string
	blocks      bool
	at          lab.Section
}

// hear returns the history after one more input. It may return a different history, found at an
// earlier level, if the buyer behaves in the same way from there on.
func (n *history) hear(in input) (*outcome, error) {
	found, _ := n.outcomes.LoadOrStore(in, new(outcome))
	c := found.(*outcome)
	c.play.Do(func() {
		next := &history{program: n.program, parent: n, in: in, at: n.at + in.after, past: n.next(in)}
		next.frozen = in.kind == inputFreeze || n.frozen && in.kind != inputThaw
		next.snapshots, c.err = n.program.play(next.inputs())
		if c.err == nil {
			c.history = next
			n.program.histories.add(next)
		}
	})
	if c.err == nil && c.history.kept != nil {
		return c.history.kept, nil
	}
	return c, c.err
}

// add adds a history. If a history with the same id is already kept, that history replaces n.
func (all *histories) add(n *history) {
	if all == nil {
		return
	}
	id := n.id()
	all.mu.Lock()
	defer all.mu.Unlock()
	if same, ok := all.byID[id]; ok {
		n.keep(same)
		return
	}
	all.fresh[id] = append(all.fresh[id], n)
}

// settle chooses which of several new histories with the same id to keep. No worker may use the
// histories during the call.
func (all *histories) settle() {
	for id, alike := range all.fresh {
		first := slices.MinFunc(alike, func(a, b *history) int { return all.order(a.inputs(), b.inputs()) })
		all.byID[id] = first
		for _, n := range alike {
			if n != first {
				n.keep(first)
			}
		}
	}
	clear(all.fresh)
}

// compareInputs compares two sequences of inputs. Shorter sequences come first.
func compareInputs(a, b []input) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), slices.CompareFunc(a, b, func(a, b input) int {
		return cmp.Or(cmp.Compare(a.after, b.after), cmp.Compare(a.kind, b.kind), cmp.Compare(a.id, b.id),
			strings.Compare(a.reply, b.reply))
	}))
}

// keep replaces n by another history with the same id.
func (n *history) keep(other *history) {
	names := make(map[string]string)
	refs := other.shape(0).refs
	for i, ref := range n.shape(0).refs {
		names[ref] = refs[i]
	}
	n.kept = &outcome{history: other, names: names}
}

// id returns a text that identifies the behaviour of the buyer from here on.
func (n *history) id() string {
	sh := n.shape(0)
	var b strings.Builder
	fmt.Fprintf(&b, "%v %v %s", n.frozen, n.snapshots[0].sold, sh.sum)
	for _, ref := range sh.refs {
		if strings.HasPrefix(ref, owner) {
			b.WriteString(" owner")
		} else {
			fmt.Fprintf(&b, " %d", slices.Index(sh.refs, ref))
		}
	}
	if n.program.subject.Optimistic { // WATCH is bound to a connection
		for _, o := range n.snapshots[0].open {
			fmt.Fprintf(&b, " %d", o.Conn)
		}
	}
	return b.String()
}

func (n *history) inputs() (all []input) {
	for ; n.parent != nil; n = n.parent {
		all = append(all, n.in)
	}
	slices.Reverse(all)
	return all
}

// current returns the snapshot that is current after the time idle without input, and its index.
func (n *history) current(idle time.Duration) (snapshot, int) {
	i := len(n.snapshots) - 1
	for i > 0 && n.snapshots[i].at > idle {
		i--
	}
	return n.snapshots[i], i
}

// next returns the past after one more input.
func (n *history) next(in input) past {
	p := n.past
	if in.kind != inputReply && in.kind != inputBreak {
		return p
	}
	v, _ := n.current(in.after)
	i := slices.IndexFunc(v.open, func(o lab.Request) bool { return o.ID == in.id })
	if i < 0 {
		return p
	}
	o := v.open[i]
	e := answer{text: o.Text, reply: "lost", blocks: o.Wire.Blocks(), at: v.section}
	if in.kind == inputReply {
		e.reply = fault.Value(in.reply).String()
	}
	if o.Watchdog {
		p.kept = ""
		if in.kind == inputBreak {
			p.kept = e.text + "=lost"
		}
		return p
	}
	p.sent = o.From
	if e.blocks && len(p.seen) > 0 { // its lease counts from the previous command
		p.sent = n.past.sent
	}
	p.seen = append(slices.Clone(until(p.seen, e.text, e.at)), e)
	if e.blocks { // earlier replies are contained in its arguments
		for j := range p.seen[:len(p.seen)-1] {
			p.seen[j].reply = ""
		}
	}
	return p
}

// until returns the answers that came before a command was first sent. A program that sends the
// command again is in a loop, and is at the same point as then. In another part of its work, a
// program may send the same command for another reason, for example to lock again what it already
// holds.
func until(seen []answer, text string, at lab.Section) []answer {
	i := slices.IndexFunc(seen, func(o answer) bool { return o.at == at && masked(o.text) == masked(text) })
	if i < 0 {
		return seen
	}
	return seen[:i]
}

// oldest is the greatest age that matters, because no program compares times that are further apart.
const oldest = lab.ScheduleTTL

// shape returns the shape of the text that describe returns.
func (n *history) shape(idle time.Duration) shape {
	if known, ok := n.shapes.Load(idle); ok {
		return known.(shape)
	}
	sh := shapeOf(n.describe(idle))
	n.shapes.Store(idle, sh)
	return sh
}

// describe describes a buyer after the time idle without input: its past inputs, the ages of its
// commands, and what it will do without further input.
func (n *history) describe(idle time.Duration) string {
	v, i := n.current(idle)
	var b strings.Builder
	now := n.at + idle
	b.WriteString(v.text)
	awaited, blocks := false, false
	for _, o := range v.open {
		counts := v.section == lab.Ahead || v.section == lab.Begun && o.Watchdog
		if n.program.leased && counts && !o.GivenUp && !o.Wire.Blocks() {
			fmt.Fprintf(&b, " %v", min(now-o.From, oldest))
		}
		awaited = awaited || !o.GivenUp
		blocks = blocks || !o.GivenUp && o.Wire.Blocks()
	}
	for _, from := range v.held {
		if n.program.leased && v.section != lab.Ended {
			fmt.Fprintf(&b, " %v", min(now-from, oldest))
		}
	}
	if awaited {
		fmt.Fprintf(&b, " %v", v.spare)
	}
	for _, later := range n.snapshots[i+1:] {
		fmt.Fprintf(&b, "\n+%v %s", later.at-idle, later.text)
	}
	if v.done && !awaited && i == len(n.snapshots)-1 {
		return b.String() // the program has ended
	}
	late := n.frozen && len(n.past.seen) > 0 && n.past.seen[len(n.past.seen)-1].blocks
	if (blocks || late) && !n.program.subject.AsksAgain {
		fmt.Fprintf(&b, " %v", min(now-n.past.sent, oldest))
	}
	if !blocks {
		for _, e := range n.seen(v, i) {
			fmt.Fprintf(&b, "\n%s=%s", e.text, e.reply)
		}
	}
	fmt.Fprintf(&b, "\n%s", n.past.kept)
	return b.String()
}

// seen returns the answers that still matter.
func (n *history) seen(v snapshot, i int) []answer {
	seen := n.past.seen
	for _, o := range v.open {
		if !o.Watchdog && !o.GivenUp {
			seen = until(seen, o.Text, v.section)
		}
	}
	if len(v.open) == 0 && i+1 < len(n.snapshots) && len(n.snapshots[i+1].open) > 0 && !v.done { // it sleeps
		seen = until(seen, n.snapshots[i+1].open[0].Text, n.snapshots[i+1].section)
	}
	if v.section != lab.Ended || n.program.subject.Lock == nil {
		return seen
	}
	for len(seen) > 0 && seen[0].at != lab.Ended {
		seen = seen[1:]
	}
	return seen
}

// polls reports whether the buyer, after the time idle without input, sleeps before it repeats its
// last command, or is ready to repeat it.
func (n *history) polls(idle time.Duration) (sleeps, ready bool) {
	if len(n.past.seen) == 0 {
		return false, false
	}
	last := masked(n.past.seen[len(n.past.seen)-1].text)
	v, i := n.current(idle)
	if v.done || v.inside() && !n.program.subject.Nested {
		return false, false
	}
	if len(v.open) == 1 {
		return false, masked(v.open[0].Text) == last
	}
	if len(v.open) > 0 || i+1 >= len(n.snapshots) {
		return false, false
	}
	next := n.snapshots[i+1].open
	return len(next) == 1 && masked(next[0].Text) == last, false
}

// masked returns a text with all stand-ins replaced by the same one.
func masked(text string) string {
	return replaceStandIns(text, func(string) string { return "~~" })
}
