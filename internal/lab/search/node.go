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

// node is a buyer after it was told certain things at certain times. It is safe for
// concurrent use.
type node struct {
	program program
	parent  *node
	in      input
	at      time.Duration // of the input, since the buyer came
	frozen  bool
	past    past
	views   []view
	kept    *child // the node that goes on in its place; nil: none does

	mu       sync.Mutex
	children map[input]*child
	shapes   map[time.Duration]shape
}

// child is what an input leads to.
type child struct {
	play  sync.Once
	node  *node
	names map[string]string // what it was told and has drawn, as this run names it -> as node does; nil: the same
	err   error
}

// nodes are those of all buyers, by what tells them apart. Of those that are alike one is
// kept. Which one does not depend on how quick the workers are: it is chosen when all have
// finished a level of the search.
type nodes struct {
	mu    sync.Mutex
	byID  map[string]*node
	fresh map[string][]*node // found since settle was called
	order func(a, b []input) int
}

// past is what a buyer was told, as far as it may matter.
type past struct {
	seen []exchange // by its own line of work
	kept string     // what its watchdog was told last, unless it was the reply
	sent time.Duration
}

type exchange struct {
	text, reply string
	blocks      bool
	at          lab.Section
}

// child is the buyer once it is told one more thing. It may be a node that something else
// has led to, if they do the same from here on, and that was found at an earlier level.
func (n *node) child(in input) (*child, error) {
	n.mu.Lock()
	c := n.children[in]
	if c == nil {
		c = new(child)
		if n.children == nil {
			n.children = make(map[input]*child)
		}
		n.children[in] = c
	}
	n.mu.Unlock()
	c.play.Do(func() {
		next := &node{program: n.program, parent: n, in: in, at: n.at + in.after, past: n.next(in)}
		next.frozen = in.kind == inputFreeze || n.frozen && in.kind != inputThaw
		next.views, c.err = n.program.play(next.inputs())
		if c.err == nil {
			c.node = next
			n.program.nodes.add(next)
		}
	})
	if c.err == nil && c.node.kept != nil {
		return c.node.kept, nil
	}
	return c, c.err
}

// add adds a node, and notes the one that is kept in its place.
func (all *nodes) add(n *node) {
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
	if all.fresh == nil {
		all.fresh = make(map[string][]*node)
	}
	all.fresh[id] = append(all.fresh[id], n)
}

// settle chooses, of the new nodes that are alike, the one that is kept. Nobody else may
// use them meanwhile.
func (all *nodes) settle() {
	if all.byID == nil {
		all.byID = make(map[string]*node)
	}
	order := all.order
	if order == nil {
		order = compareInputs
	}
	for id, alike := range all.fresh {
		first := slices.MinFunc(alike, func(a, b *node) int { return order(a.inputs(), b.inputs()) })
		all.byID[id] = first
		for _, n := range alike {
			if n != first {
				n.keep(first)
			}
		}
	}
	clear(all.fresh)
}

// compareInputs orders fewer inputs first.
func compareInputs(a, b []input) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), slices.CompareFunc(a, b, func(a, b input) int {
		return cmp.Or(cmp.Compare(a.after, b.after), cmp.Compare(a.kind, b.kind), cmp.Compare(a.id, b.id),
			strings.Compare(a.reply, b.reply))
	}))
}

// keep notes that another node, which is alike, goes on in place of n.
func (n *node) keep(other *node) {
	names := make(map[string]string)
	refs := other.shape(0).refs
	for i, ref := range n.shape(0).refs {
		names[ref] = refs[i]
	}
	n.kept = &child{node: other, names: names}
}

// id tells nodes apart that do not do the same.
func (n *node) id() string {
	sh := n.shape(0)
	var b strings.Builder
	fmt.Fprintf(&b, "%v %v %s", n.frozen, n.views[0].sold, sh.sum)
	for _, ref := range sh.refs {
		if strings.HasPrefix(ref, owner) {
			b.WriteString(" owner")
		} else {
			fmt.Fprintf(&b, " %d", slices.Index(sh.refs, ref))
		}
	}
	if n.program.subject.Optimistic { // WATCH is of a connection
		for _, o := range n.views[0].open {
			fmt.Fprintf(&b, " %d", o.Conn)
		}
	}
	return b.String()
}

func (n *node) inputs() (all []input) {
	for ; n.parent != nil; n = n.parent {
		all = append(all, n.in)
	}
	slices.Reverse(all)
	return all
}

// current returns the view after so much time without an input, and its index.
func (n *node) current(idle time.Duration) (view, int) {
	i := len(n.views) - 1
	for i > 0 && n.views[i].at > idle {
		i--
	}
	return n.views[i], i
}

// next is the past after one more input.
func (n *node) next(in input) past {
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
	e := exchange{text: o.Text, reply: "lost", blocks: o.Wire.Blocks(), at: v.section}
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
	if e.blocks && len(p.seen) > 0 { // what it counts from
		p.sent = n.past.sent
	}
	p.seen = append(slices.Clone(until(p.seen, e.text, e.at)), e)
	if e.blocks { // what it was told before is in the arguments
		for j := range p.seen[:len(p.seen)-1] {
			p.seen[j].reply = ""
		}
	}
	return p
}

// until is what was seen before a command was sent for the first time. A program that sends
// the same again is where it was then: it is in a loop.
// What it sends in another part of its work it may send for another reason, such as to take
// a lock again that it has.
func until(seen []exchange, text string, at lab.Section) []exchange {
	i := slices.IndexFunc(seen, func(o exchange) bool { return o.at == at && masked(o.text) == masked(text) })
	if i < 0 {
		return seen
	}
	return seen[:i]
}

// oldest is the greatest age that counts: no program compares times that are further apart.
const oldest = lab.ScheduleTTL

// shape tells a buyer apart, after so much time without an input, by what it does next.
func (n *node) shape(idle time.Duration) shape {
	n.mu.Lock()
	defer n.mu.Unlock()
	if sh, ok := n.shapes[idle]; ok {
		return sh
	}
	if n.shapes == nil {
		n.shapes = make(map[time.Duration]shape)
	}
	sh := shapeOf(n.describe(idle))
	n.shapes[idle] = sh
	return sh
}

// describe describes a buyer by what it has seen, the ages of its commands, and what it
// will do if it is told nothing.
func (n *node) describe(idle time.Duration) string {
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
	for _, later := range n.views[i+1:] {
		fmt.Fprintf(&b, "\n+%v %s", later.at-idle, later.text)
	}
	if v.done && !awaited && i == len(n.views)-1 {
		return b.String() // the program has come to its end
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

// seen is what the buyer was told, as far as it still matters.
func (n *node) seen(v view, i int) []exchange {
	seen := n.past.seen
	for _, o := range v.open {
		if !o.Watchdog && !o.GivenUp {
			seen = until(seen, o.Text, v.section)
		}
	}
	if len(v.open) == 0 && i+1 < len(n.views) && len(n.views[i+1].open) > 0 && !v.done { // it sleeps
		seen = until(seen, n.views[i+1].open[0].Text, n.views[i+1].section)
	}
	if v.section != lab.Ended || n.program.subject.Lock == nil {
		return seen
	}
	for len(seen) > 0 && seen[0].at != lab.Ended {
		seen = seen[1:]
	}
	return seen
}

// polls reports whether the buyer, after so much time without an input, sleeps before it
// sends its last command again, or is about to send it again.
func (n *node) polls(idle time.Duration) (sleeps, ready bool) {
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
	if len(v.open) > 0 || i+1 >= len(n.views) {
		return false, false
	}
	next := n.views[i+1].open
	return len(next) == 1 && masked(next[0].Text) == last, false
}

// masked is a text in which what was drawn is not told apart.
func masked(text string) string {
	for from := 0; ; {
		i := strings.Index(text[from:], "~.")
		if i < 0 {
			return text
		}
		i += from
		end := strings.Index(text[i+1:], "~")
		if end < 0 {
			return text
		}
		text = text[:i] + "~~" + text[i+1+end+1:]
		from = i + 2
	}
}
