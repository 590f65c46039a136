package search

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"oversell/internal/lab"
	"oversell/internal/lab/wire"
)

// node is a buyer after it was told certain things at certain times. It is safe for
// concurrent use.
type node struct {
	program program
	parent  *node
	in      input
	at      time.Duration // of the input, since the buyer came
	past    past

	play  sync.Once
	views []view
	err   error

	mu       sync.Mutex
	children map[input]*node
	ids      map[time.Duration]string
}

// past is what a buyer was told, as far as it may matter.
type past struct {
	seen []exchange // by its own line of work
	kept exchange   // by its watchdog, last
	sent time.Duration
}

// exchange is a command and its reply.
type exchange struct {
	text, reply string
	sale        bool // of the section, and not of the lock
}

// newNode is a buyer that has not come.
func newNode(p program) *node { return &node{program: p} }

// child is the buyer once it is told one more thing.
func (n *node) child(in input) (*node, error) {
	n.mu.Lock()
	c := n.children[in]
	if c == nil {
		c = &node{program: n.program, parent: n, in: in, at: n.at + in.after, past: n.next(in)}
		if n.children == nil {
			n.children = make(map[input]*node)
		}
		n.children[in] = c
	}
	n.mu.Unlock()
	c.play.Do(func() { c.views, c.err = c.program.play(c.inputs()) })
	return c, c.err
}

// inputs are all that led here.
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
	i := slices.IndexFunc(v.open, func(o opened) bool { return o.id == in.id })
	if i < 0 {
		return p
	}
	e := exchange{v.open[i].text, "lost", v.open[i].wire.Mentions(stockKey)}
	if in.kind == inputReply {
		e.reply = wire.Value(in.reply).String()
	}
	if v.open[i].watchdog {
		p.kept = e
		return p
	}
	p.sent = v.open[i].since
	p.seen = append(slices.Clone(until(p.seen, e.text)), e)
	return p
}

// until is what was seen before a command was sent for the first time. A program that sends
// the same again is where it was then: it is in a loop.
func until(seen []exchange, text string) []exchange {
	i := slices.IndexFunc(seen, func(o exchange) bool { return masked(o.text) == masked(text) })
	if i < 0 {
		return seen
	}
	return seen[:i]
}

// oldest is the greatest age that counts: no program compares times that are further apart.
const oldest = lab.ScheduleTTL

// id tells a buyer apart, after so much time without an input, by what it does next: by
// what it has seen, the ages of its commands, and what it will do if it is told nothing.
func (n *node) id(idle time.Duration) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if id, ok := n.ids[idle]; ok {
		return id
	}
	if n.ids == nil {
		n.ids = make(map[time.Duration]string)
	}
	id := n.describe(idle)
	n.ids[idle] = id
	return id
}

func (n *node) describe(idle time.Duration) string {
	v, i := n.current(idle)
	var b strings.Builder
	now := n.at + idle
	b.WriteString(v.text)
	inRedis, awaited := len(v.open) > 0, false
	for _, o := range v.open {
		if !o.givenUp && !o.wire.Mentions(stockKey) {
			fmt.Fprintf(&b, " %v", min(now-o.since, oldest))
		}
		inRedis = inRedis && o.wire.Blocks()
		awaited = awaited || !o.givenUp
	}
	seen := n.past.seen
	for _, o := range v.open {
		if !o.watchdog && !o.givenUp {
			seen = until(seen, o.text)
		}
	}
	for _, later := range n.views[i+1:] {
		fmt.Fprintf(&b, "\n+%v %s", later.at-idle, later.text)
	}
	if v.done && !awaited && i == len(n.views)-1 {
		return b.String() // the program has come to its end
	}
	ended := v.section == ended && n.program.subject.Lock != nil
	for _, e := range seen {
		if !ended || !e.sale {
			fmt.Fprintf(&b, "\n%s=%s", e.text, e.reply)
		}
	}
	fmt.Fprintf(&b, "\n%s=%s", n.past.kept.text, n.past.kept.reply)
	if inRedis {
		fmt.Fprintf(&b, " %v", min(now-n.past.sent, oldest))
	}
	return b.String()
}

// polls reports whether the buyer, after so much time without an input, sleeps before it
// sends its last command again, or is about to send it again.
func (n *node) polls(idle time.Duration) (sleeps, ready bool) {
	if len(n.past.seen) == 0 {
		return false, false
	}
	last := masked(n.past.seen[len(n.past.seen)-1].text)
	v, i := n.current(idle)
	if v.done || v.inside() {
		return false, false
	}
	if len(v.open) == 1 {
		return false, masked(v.open[0].text) == last
	}
	if len(v.open) > 0 || i+1 >= len(n.views) {
		return false, false
	}
	next := n.views[i+1].open
	return len(next) == 1 && masked(next[0].text) == last, false
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
