package show

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"oversell/internal/lab"
	"oversell/internal/present"
)

// expiry is the kind of a row without an event: the lease that remained after
// the last command expires.
const expiry lab.Kind = "expiry"

// free is the holder of a lock that nobody holds.
const free = "free"

// slowReply is in milliseconds. A command that takes at least this long, while
// other actors act, is shown twice: when it was sent, and when its reply came.
const slowReply = 2

// everyone is the actor of events that concern all actors.
const everyone = -1

// story is a cell's trace as a list of moments, with the state after each.
type story struct {
	actors []string // in order of their first appearance
	rows   []row    // in order of time
	clock  clock
	lock   bool // Redis was seen to know about a lock
}

type row struct {
	at      float64
	actor   int // in story.actors, or everyone
	kind    lab.Kind
	text    string
	reply   string
	waits   bool // the reply comes in a later row
	answers bool // it is the reply to an earlier row

	times int     // how often the same thing happened, without interruption
	last  float64 // the last time that it happened

	holder  string   // the holder of the lock in Redis; "" if there is no lock
	holding int      // the holder as an actor, or everyone if it is not an actor
	ttl     *float64 // the rest of the lease; nil if there is no lease
	believe []int    // actors that believe they hold the lock

	keys  []lab.Key // those that changed in Redis since the previous row
	blind bool      // the state of Redis was no longer recorded
}

func tell(c lab.Cell) story {
	var s story
	for _, e := range c.Trace {
		if e.Actor != "" && !slices.Contains(s.actors, e.Actor) {
			s.actors = append(s.actors, e.Actor)
		}
		s.lock = s.lock || e.Lock != ""
	}
	n := narrator{actors: s.actors, holding: everyone, seen: lastSeen(c.Trace)}
	for _, m := range moments(c.Trace) {
		n.tell(m)
	}
	s.rows = merge(n.rows)
	tellRunOut(s.rows)
	var at []float64
	for _, r := range s.rows {
		at = append(at, r.at)
	}
	s.clock = newClock(at)
	return s
}

// isWith reports whether the lock that Redis records for the holding actor is
// also this actor's: A/1 is a caller of process A.
func (s story) isWith(holding, actor int) bool {
	return holding == actor || holding != everyone && strings.HasPrefix(s.actors[actor], s.actors[holding]+"/")
}

// moment is a point in time at which an event, or a part of it, is shown.
type moment struct {
	lab.Event
	at    float64
	order int  // among moments at the same time
	waits bool // the command was sent, but its reply comes later
	reply bool // this is the reply
	quiet bool // the recorded state of Redis does not belong to this moment
}

// moments sorts a trace by time. A command whose reply was delayed while others
// acted has two moments, because what it broke may lie in between.
func moments(trace []lab.Event) []moment {
	var out []moment
	for i, e := range trace {
		if overtaken(e, trace) {
			// Either the command was delayed, or its reply. In the second case
			// Redis executed the command at the first moment.
			replied := replyHeldUp(e, trace)
			out = append(out,
				moment{Event: e, at: e.At, order: 2 * i, waits: true, quiet: !replied},
				moment{Event: e, at: e.Until, order: replyOrder(i, trace), reply: true, quiet: replied})
			continue
		}
		out = append(out, moment{Event: e, at: e.At, order: 2 * i})
	}
	slices.SortStableFunc(out, func(a, b moment) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.order, b.order))
	})
	return out
}

// replyOrder is the place of the reply to the i-th event among moments at the
// same time. A command without a recorded lock has only waited in Redis for the
// actions of others, so those come first; the next action of its own actor comes
// after it.
func replyOrder(i int, trace []lab.Event) int {
	e := trace[i]
	if e.Lock != "" {
		return 2 * i
	}
	next := slices.IndexFunc(trace, func(o lab.Event) bool { return o.Actor == e.Actor && o.At == e.Until })
	if next < 0 {
		next = len(trace)
	}
	return 2*next - 1
}

func overtaken(e lab.Event, trace []lab.Event) bool {
	return e.Kind == lab.Command && e.Until-e.At >= slowReply && slices.ContainsFunc(trace, func(o lab.Event) bool {
		return o.Actor != e.Actor && o.At > e.At && o.At <= e.Until
	})
}

// replyHeldUp reports whether the reply was delayed, and not the command: the
// fault injected at that moment says which.
func replyHeldUp(e lab.Event, trace []lab.Event) bool {
	return slices.ContainsFunc(trace, func(f lab.Event) bool {
		return f.Kind == lab.Fault && f.Actor == e.Actor && math.Abs(f.At-e.At) < slowReply &&
			strings.Contains(f.Text, "reply")
	})
}

// narrator keeps the current state while it goes through the moments in order.
type narrator struct {
	actors  []string
	rows    []row
	holder  string
	holding int
	ttl     *float64 // as of the time since
	since   float64
	believe []int // sorted
	seen    int   // the order of the last moment at which the state of Redis is known, until it is recorded again
	blind   bool
}

func (n *narrator) tell(m moment) {
	n.expire(m.at)
	actor := slices.Index(n.actors, m.Actor)
	r := row{at: m.at, actor: actor, kind: m.Kind, text: m.Text, reply: m.Reply, waits: m.waits, answers: m.reply,
		times: 1, last: m.at}
	if m.waits {
		r.reply = ""
	}
	n.look(m)
	if !m.reply {
		r.keys = m.Keys
		n.blind = m.order > n.seen && m.Kind != lab.Command && m.Keys == nil && m.Lock == ""
	}
	n.ask(m.Event, actor)
	n.add(r)
}

func (n *narrator) expire(now float64) {
	if n.ttl == nil || n.since+*n.ttl > now {
		return
	}
	at, holder := n.since+*n.ttl, n.holding
	n.holder, n.holding, n.ttl = free, everyone, nil
	n.add(row{at: at, actor: holder, kind: expiry, text: "the lease ends", times: 1, last: at})
}

func (n *narrator) look(m moment) {
	if m.Lock == "" || m.quiet {
		return
	}
	n.holder, n.ttl, n.since = m.Lock, m.TTL, m.at
	// A holder may have a suffix after its name, such as its number of holds.
	name, _, _ := strings.Cut(m.Lock, " ")
	n.holding = max(slices.Index(n.actors, m.Lock), slices.Index(n.actors, name))
}

// ask records what the actor believes after the event. A killed actor believes
// nothing; a frozen one keeps its belief.
func (n *narrator) ask(e lab.Event, actor int) {
	i, found := slices.BinarySearch(n.believe, actor)
	switch {
	case actor == everyone:
	case e.Kind == lab.Hold && !found:
		n.believe = slices.Insert(n.believe, i, actor)
	case found && (e.Kind == lab.Release || e.Kind == lab.Lost || e.Kind == lab.Fault &&
		strings.Contains(e.Text, "killed")):
		n.believe = slices.Delete(n.believe, i, i+1)
	}
}

func (n *narrator) add(r row) {
	r.holder, r.holding, r.believe, r.blind = n.holder, n.holding, slices.Clone(n.believe), n.blind
	if n.ttl != nil {
		left := n.since + *n.ttl - r.at
		r.ttl = &left
	}
	n.rows = append(n.rows, r)
}

// merge combines what an actor repeats, such as polling, into one row. That row shows
// the keys after the first time; the next row shows what has changed since. If there is
// no next row and keys have changed, the last time gets its own row.
func merge(rows []row) []row {
	var out []row
	var left keyChanges
	for _, r := range rows {
		if len(out) > 0 && out[len(out)-1].repeats(r) {
			last := &out[len(out)-1]
			last.times++
			last.last = r.at
			left = left.then(r)
			continue
		}
		left = left.then(r)
		r.keys = left.keys
		left = keyChanges{}
		out = append(out, r)
	}
	if len(left.keys) > 0 {
		last, end := &out[len(out)-1], rows[len(rows)-1]
		last.times--
		last.last = rows[len(rows)-2].at
		end.keys = left.keys
		out = append(out, end)
	}
	return out
}

func (r row) repeats(o row) bool {
	return r.kind == lab.Command && o.kind == lab.Command && !r.waits && !o.waits && !r.answers && !o.answers &&
		r.actor == o.actor && r.text == o.text && r.reply == o.reply && r.holder == o.holder
}

// keyChanges are keys that have changed, with their state at one moment.
type keyChanges struct {
	at   float64
	keys []lab.Key
}

// then adds the changes of a later row. They replace older ones of the same
// keys.
func (c keyChanges) then(r row) keyChanges {
	all := slices.Clone(r.keys)
	for _, k := range c.keys {
		if !slices.ContainsFunc(all, func(later lab.Key) bool { return later.Name == k.Name }) {
			all = append(all, k.After(r.at-c.at))
		}
	}
	return keyChanges{r.at, all}
}

// tellRunOut adds to each row the keys that have expired since the previous row.
func tellRunOut(rows []row) {
	var known keyChanges
	for i, r := range rows {
		known = known.then(r)
		for _, k := range known.keys[len(r.keys):] {
			if k.Type == lab.Gone {
				rows[i].keys = append(rows[i].keys, k)
			}
		}
		known.keys = slices.DeleteFunc(known.keys, func(k lab.Key) bool { return k.Type == lab.Gone })
	}
}

// lastSeen is the order of the last moment of a trace at which the state of Redis
// is known. After it, either commands were left out of the trace, or the trace
// ends.
func lastSeen(trace []lab.Event) int {
	if len(trace) == 0 || !trace[len(trace)-1].LeftOut {
		return math.MaxInt
	}
	for i, e := range slices.Backward(trace) {
		if e.Kind == lab.Command {
			return 2 * i
		}
	}
	return -1
}

// omission is the kind of the row that replaces rows that were left out.
const omission lab.Kind = "omission"

// shorten leaves out rows so that at most limit remain: it keeps the beginning,
// and the rows around the first break, or the end if nothing breaks.
func (s story) shorten(limit int) story {
	n := len(s.rows)
	if n <= limit {
		return s
	}
	head := limit / 2
	tail := limit - head - 2 // 2: for the omissions before and after it
	until := n
	if i := slices.IndexFunc(s.rows, func(r row) bool { return r.kind == lab.Break }); i >= 0 {
		until = min(n, max(i+1+tail/3, head+tail))
	}
	from := until - tail
	rows := slices.Clone(s.rows[:head])
	rows = append(rows, omit(s.rows[head:from])...)
	rows = append(rows, s.rows[from:until]...)
	s.rows = append(rows, omit(s.rows[until:])...)
	return s
}

func omit(rows []row) []row {
	if len(rows) == 0 {
		return nil
	}
	o := rows[len(rows)-1]
	var changes keyChanges
	for _, r := range rows {
		changes = changes.then(r)
	}
	o.keys = changes.keys
	o.actor, o.kind, o.text = everyone, omission, present.Plural(len(rows), "event")+" left out"
	o.reply, o.waits, o.answers, o.times = "", false, false, 1
	return []row{o}
}
