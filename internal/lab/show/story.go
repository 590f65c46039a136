package show

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"oversell/internal/lab"
	"oversell/internal/message"
)

// expiry is the kind of a row that has no event: in it, the lease that remained after the last
// command expires.
const expiry lab.Kind = "expiry"

// free is shown as the holder of a free lock.
const free = "free"

// slowReply is in milliseconds. A command that takes at least this long while other actors act is
// shown twice: when it was sent, and when its reply arrived.
const slowReply = 2

// everyone is the actor number of events that concern all actors.
const everyone = -1

// story is a cell's trace as a list of moments, with the state after each moment. Its text is
// already translated and its numbers are formatted, so that the page and the terminal show the
// same. The shop's page translates the English text, and takes the messages for that.
type story struct {
	Actors []string `json:"actors"` // in order of their first appearance
	Unit   string   `json:"unit"`
	Lock   bool     `json:"lock"`           // the trace shows a lock in Redis
	Free   string   `json:"free,omitempty"` // the word for a free lock; "" in English
	Rows   []row    `json:"rows"`           // in chronological order
}

// row is a moment of a story. Most fields are empty in most rows.
type row struct {
	At      float64  `json:"at"`
	Time    string   `json:"time"`
	Actor   int      `json:"actor"` // index in story.Actors, or everyone
	Kind    lab.Kind `json:"kind"`
	Text    string   `json:"text"`
	Reply   string   `json:"reply,omitempty"`
	Waits   bool     `json:"waits,omitempty"`   // the reply comes in a later row
	Answers bool     `json:"answers,omitempty"` // it is the reply to an earlier row
	Arrives int      `json:"arrives,omitempty"` // the row in which a command or reply delayed in this row arrives, or 0
	Again   string   `json:"again,omitempty"`   // the number of repetitions in a row, and the time of the last one

	Message      message.Message `json:"message,omitzero"` // Text, to be translated
	AgainMessage message.Message `json:"again_message,omitzero"`

	Holder  string   `json:"holder,omitempty"` // the holder of the lock in Redis; "" if there is no lock
	Holding int      `json:"holding"`          // the holder as an actor, or everyone if it is not an actor
	TTL     *float64 `json:"ttl,omitempty"`    // the time left on the lease; nil if there is no lease
	Left    string   `json:"left,omitempty"`   // the formatted ttl
	Believe []int    `json:"believe,omitempty"`

	Keys  []rowKey `json:"keys,omitempty"`  // the keys in Redis that changed since the previous row
	Blind bool     `json:"blind,omitempty"` // the state of Redis was no longer recorded

	keys  []lab.Key
	times int     // number of times in a row that the same thing happened
	last  float64 // the last time that it happened
}

type rowKey struct {
	lab.Key
	Gone bool `json:"gone,omitempty"` // the key no longer exists
}

func tell(c lab.Cell, style Style) story {
	s := story{Rows: []row{}}
	for _, e := range c.Trace {
		if e.Actor != "" && !slices.Contains(s.Actors, e.Actor) {
			s.Actors = append(s.Actors, e.Actor)
		}
		s.Lock = s.Lock || e.Lock != ""
	}
	n := narrator{actors: s.Actors, holding: everyone, seen: lastSeen(c.Trace)}
	for _, m := range moments(c.Trace) {
		n.tell(m)
	}
	s.Rows = append(s.Rows, merge(n.rows)...)
	tellRunOut(s.Rows)
	clock := newClock(s.Rows)
	s.Unit = clock.unit
	if said := style.Say(free); said != free {
		s.Free = said
	}
	for i := range s.Rows {
		s.Rows[i].Arrives = arrival(s.Rows, i)
	}
	for i := range s.Rows {
		s.format(&s.Rows[i], clock, style)
	}
	return s
}

// format sets the derived fields of a row, and translates it.
func (s story) format(r *row, c clock, style Style) {
	if r.Kind == lab.Break && r.Actor != everyone && !strings.HasPrefix(r.Text, s.Actors[r.Actor]+" ") {
		if r.Message.IsZero() {
			r.Message = message.Text(r.Text)
		}
		r.Message = message.Newf("%s: %s", s.Actors[r.Actor], r.Message) // names the actor that the break is about
		r.Text = r.Message.String()
	}
	if r.Kind != lab.Command {
		r.Text = style.Tell(r.Text, r.Message)
	}
	if strings.HasPrefix(r.Reply, "(") { // the reason why there is no reply
		r.Reply = style.Say(r.Reply)
	}
	r.AgainMessage = r.again(c)
	r.Again = style.Tell(r.AgainMessage.String(), r.AgainMessage)
	r.Time = c.format(r.At)
	switch {
	case r.TTL != nil:
		r.TTL, r.Left = micro(r.TTL), c.format(*r.TTL)
	case r.Holder != "" && r.Holder != free:
		r.Left = style.Say("no end")
	}
	for _, k := range r.keys {
		k.TTL = micro(k.TTL)
		r.Keys = append(r.Keys, rowKey{k, k.Type == lab.Gone})
	}
	r.At = *micro(&r.At)
}

// micro rounds milliseconds to whole microseconds, which makes the JSON shorter. It returns nil if
// ms is nil.
func micro(ms *float64) *float64 {
	if ms == nil {
		return nil
	}
	rounded := math.Round(*ms*1000) / 1000
	return &rounded
}

// heldUp is the prefix of the text of a fault that delays a command. The text of the command
// follows.
const heldUp = "delayed on its way: "

// arrival returns the index of a row after the i-th. If the i-th row delays a command, this is the
// row in which the command reaches Redis; if the i-th row waits for a reply, this is the row in
// which the reply arrives. It returns 0 if there is no such row.
func arrival(rows []row, i int) int {
	from := rows[i]
	text, fault := strings.CutPrefix(from.Text, heldUp)
	if !from.Waits && !(fault && from.Kind == lab.Fault) {
		return 0
	}
	for j, r := range rows[i+1:] {
		if r.Kind == lab.Command && r.Actor == from.Actor && r.Text == text && r.Answers == from.Waits {
			return i + 1 + j
		}
	}
	return 0
}

// isWith reports whether a lock that the actor holding has according to Redis also belongs to
// actor. A lock of process A also belongs to its caller A/1.
func (s story) isWith(holding, actor int) bool {
	return holding == actor || holding != everyone && strings.HasPrefix(s.Actors[actor], s.Actors[holding]+"/")
}

// moment is a point in time at which an event, or a part of an event, is shown.
type moment struct {
	lab.Event
	at    float64
	order int  // position among moments at the same time
	waits bool // the command was sent, but its reply comes later
	reply bool // this is the reply; Redis executed the command at the earlier moment
}

// moments sorts a trace by time. A command has two moments if other actors acted before its reply
// arrived, because its effect may show in between.
func moments(trace []lab.Event) []moment {
	var out []moment
	for i, e := range trace {
		if overtaken(e, trace) {
			out = append(out,
				moment{Event: e, at: e.At, order: 2 * i, waits: true},
				moment{Event: e, at: e.Until, order: replyOrder(i, trace), reply: true})
			continue
		}
		out = append(out, moment{Event: e, at: e.At, order: 2 * i})
	}
	slices.SortStableFunc(out, func(a, b moment) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.order, b.order))
	})
	return out
}

// replyOrder returns the position of the reply to the i-th event among moments at the same time. A
// command without a recorded lock blocked in Redis until other actors acted, so their actions come
// before the reply. The next action of the command's own actor comes after the reply.
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

// narrator goes through the moments in order, and keeps track of the current state.
type narrator struct {
	actors  []string
	rows    []row
	holder  string
	holding int
	ttl     *float64 // left at the time since
	since   float64
	believe []int // sorted
	seen    int   // order of the last moment of known state; later moments are blind until a state is recorded
	blind   bool
}

func (n *narrator) tell(m moment) {
	n.expire(m.at)
	actor := slices.Index(n.actors, m.Actor)
	r := row{At: m.at, Actor: actor, Kind: m.Kind, Text: m.Text, Message: m.Message, Reply: m.Reply, Waits: m.waits,
		Answers: m.reply, times: 1, last: m.at}
	if m.waits {
		r.Reply = ""
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
	n.add(row{At: at, Actor: holder, Kind: expiry, Text: "the lease ends", times: 1, last: at})
}

func (n *narrator) look(m moment) {
	if m.Lock == "" || m.reply {
		return
	}
	n.holder, n.ttl, n.since = m.Lock, m.TTL, m.at
	// A holder may have a suffix after its name, such as its number of holds.
	name, _, _ := strings.Cut(m.Lock, " ")
	n.holding = max(slices.Index(n.actors, m.Lock), slices.Index(n.actors, name))
}

// ask records whether the actor believes, after the event, that it holds the lock. A killed actor
// believes nothing; a frozen actor keeps its belief.
func (n *narrator) ask(e lab.Event, actor int) {
	i, found := slices.BinarySearch(n.believe, actor)
	switch {
	case actor == everyone:
	case e.Kind == lab.Hold && !found:
		n.believe = slices.Insert(n.believe, i, actor)
	case found && (e.Kind == lab.Release || e.Kind == lab.Lost || e.Kind == lab.Fault && e.Text == lab.Killed):
		n.believe = slices.Delete(n.believe, i, i+1)
	}
}

func (n *narrator) add(r row) {
	r.Holder, r.Holding, r.Believe, r.Blind = n.holder, n.holding, slices.Clone(n.believe), n.blind
	if n.ttl != nil {
		left := n.since + *n.ttl - r.At
		r.TTL = &left
	}
	n.rows = append(n.rows, r)
}

// merge combines the repetitions of a command, such as polling, into one row. That row shows the
// keys after the first time; the next row shows what has changed since then. If there is no next
// row and keys have changed, the last repetition gets its own row.
func merge(rows []row) []row {
	var out []row
	var left keyChanges
	for _, r := range rows {
		if len(out) > 0 && out[len(out)-1].repeats(r) {
			last := &out[len(out)-1]
			last.times++
			last.last = r.At
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
		last.last = rows[len(rows)-2].At
		end.keys = left.keys
		out = append(out, end)
	}
	return out
}

func (r row) repeats(o row) bool {
	return r.Kind == lab.Command && o.Kind == lab.Command && !r.Waits && !o.Waits && !r.Answers && !o.Answers &&
		r.Actor == o.Actor && r.Text == o.Text && r.Reply == o.Reply && r.Holder == o.Holder
}

// keyChanges contains keys that have changed, with their state at one moment.
type keyChanges struct {
	at   float64
	keys []lab.Key
}

// then adds the changes of a later row. They replace older changes of the same keys.
func (c keyChanges) then(r row) keyChanges {
	all := slices.Clone(r.keys)
	for _, k := range c.keys {
		if !slices.ContainsFunc(all, func(later lab.Key) bool { return later.Name == k.Name }) {
			all = append(all, k.After(r.At-c.at))
		}
	}
	return keyChanges{r.At, all}
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

// lastSeen returns the order of the last moment at which the state of Redis is known. This is the
// last command before the trace left out commands. If no commands were left out, lastSeen returns
// math.MaxInt.
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
