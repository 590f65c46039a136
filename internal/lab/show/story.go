package show

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"oversell/internal/lab"
)

// expiry is the kind of a row that no event stands behind: the lease that was
// left after the last command runs out.
const expiry lab.Kind = "expiry"

// free is who holds a lock that nobody holds.
const free = "free"

// slowReply is from how many milliseconds on a command that others overtake is
// shown twice: when it was sent, and when its reply came.
const slowReply = 2

// everyone is the actor of what concerns all.
const everyone = -1

// story is a cell's trace, worked out moment by moment.
type story struct {
	actors []string // in order of their first appearance
	rows   []row    // in order of time
	clock  clock
	lock   bool // Redis was seen to know of a lock
}

// row is one moment, and how things stand after it.
type row struct {
	at      float64
	actor   int // in story.actors, or everyone
	kind    lab.Kind
	text    string
	reply   string
	waits   bool // the reply comes in a later row
	answers bool // the reply to an earlier row

	times int     // how often the same happened, one right after the other
	last  float64 // when for the last time

	holder  string   // who holds the lock, as Redis has it; "" where there is none
	holding int      // the same as an actor, or everyone if it is none of them
	ttl     *float64 // what is left of the lease; nil: no lease
	believe []int    // actors that believe to hold the lock

	keys  []lab.Key // that Redis has otherwise than after the rows before
	blind bool      // what Redis has was not looked at any more
}

// tell works out the story of a cell.
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

// isWith reports whether the hold that Redis has as the holding actor's is the
// other's too: A/1 is a caller of process A.
func (s story) isWith(holding, actor int) bool {
	return holding == actor || holding != everyone && strings.HasPrefix(s.actors[actor], s.actors[holding]+"/")
}

// moment is when something of an event is to be seen.
type moment struct {
	lab.Event
	at    float64
	order int  // among what happens at the same time
	waits bool // the command was sent, and its reply is to come
	reply bool // the reply came
	quiet bool // nothing that Redis was seen to have belongs here
}

// moments puts a trace in order of time. A command whose reply was kept back
// while others went on has two moments, for in between lies what it broke.
func moments(trace []lab.Event) []moment {
	var out []moment
	for i, e := range trace {
		if overtaken(e, trace) {
			// Either the command was held up, or its reply: then Redis had it
			// from the first moment on.
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

// replyOrder is the place of the reply to the i-th event among what happens at
// the same time. A command that left no sight of the lock has only waited in
// Redis for what others do, so they go first; then comes what its actor did next.
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

// replyHeldUp reports whether it was the command's reply that was held up, not
// the command: the fault that was done to it at that moment says so.
func replyHeldUp(e lab.Event, trace []lab.Event) bool {
	return slices.ContainsFunc(trace, func(f lab.Event) bool {
		return f.Kind == lab.Fault && f.Actor == e.Actor && math.Abs(f.At-e.At) < slowReply && strings.Contains(f.Text, "reply")
	})
}

// narrator keeps how things stand while it tells one moment after the other.
type narrator struct {
	actors  []string
	rows    []row
	holder  string
	holding int
	ttl     *float64 // as of since
	since   float64
	believe []int // sorted
	seen    int   // the order of the last moment at which what Redis has is known, as long as nobody looks again
	blind   bool
}

func (n *narrator) tell(m moment) {
	n.expire(m.at)
	actor := slices.Index(n.actors, m.Actor)
	r := row{at: m.at, actor: actor, kind: m.Kind, text: m.Text, reply: m.Reply, waits: m.waits, answers: m.reply, times: 1, last: m.at}
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

// expire tells of the lease that has run out by then, if one has.
func (n *narrator) expire(now float64) {
	if n.ttl == nil || n.since+*n.ttl > now {
		return
	}
	at, holder := n.since+*n.ttl, n.holding
	n.holder, n.holding, n.ttl = free, everyone, nil
	n.add(row{at: at, actor: holder, kind: expiry, text: "the lease ends", times: 1, last: at})
}

// look takes over what Redis was seen to have after the moment.
func (n *narrator) look(m moment) {
	if m.Lock == "" || m.quiet {
		return
	}
	n.holder, n.ttl, n.since = m.Lock, m.TTL, m.at
	// A holder may come with more than a name, such as how often it holds.
	name, _, _ := strings.Cut(m.Lock, " ")
	n.holding = max(slices.Index(n.actors, m.Lock), slices.Index(n.actors, name))
}

// ask takes over what the actor believes after the event. One that was killed
// believes nothing; one that is frozen does.
func (n *narrator) ask(e lab.Event, actor int) {
	i, found := slices.BinarySearch(n.believe, actor)
	switch {
	case actor == everyone:
	case e.Kind == lab.Hold && !found:
		n.believe = slices.Insert(n.believe, i, actor)
	case found && (e.Kind == lab.Release || e.Kind == lab.Lost || e.Kind == lab.Fault && strings.Contains(e.Text, "killed")):
		n.believe = slices.Delete(n.believe, i, i+1)
	}
}

// add adds a row with how things stand after it.
func (n *narrator) add(r row) {
	r.holder, r.holding, r.believe, r.blind = n.holder, n.holding, slices.Clone(n.believe), n.blind
	if n.ttl != nil {
		left := n.since + *n.ttl - r.at
		r.ttl = &left
	}
	n.rows = append(n.rows, r)
}

// merge makes one row of what an actor does over and over, as one that waits. It
// shows the keys after the first time; the row after it, what has become of them. Where
// none comes after it and they have changed, the last time has a row of its own.
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
