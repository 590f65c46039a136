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

	event lab.Event
	order int // position among rows at the same time
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
	for _, r := range moments(c.Trace, s.Actors) {
		n.tell(r)
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
	if r.Kind == lab.Break && r.Actor != everyone {
		name := s.Actors[r.Actor]
		if !strings.HasPrefix(r.Text, name+" ") && !strings.HasPrefix(r.Text, name+",") {
			if r.Message.IsZero() {
				r.Message = message.Text(r.Text)
			}
			r.Message = message.Newf("%s: %s", name, r.Message)
			r.Text = r.Message.String()
		}
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

// arrival returns the index of a row after the i-th. If the i-th row delays a command, this is the
// row in which the command reaches Redis; if the i-th row waits for a reply, this is the row in
// which the reply arrives. It returns 0 if there is no such row.
func arrival(rows []row, i int) int {
	from := rows[i]
	text, fault := strings.CutPrefix(from.Text, lab.HeldUp+": ")
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

// moments returns the rows of a trace, sorted by time and without the state of the lock. A command
// has two rows if other actors acted before its reply arrived, because its effect may show in
// between.
func moments(trace []lab.Event, actors []string) []row {
	var out []row
	for i, e := range trace {
		r := row{At: e.At, Actor: slices.Index(actors, e.Actor), Kind: e.Kind, Text: e.Text, Message: e.Message,
			Reply: e.Reply, event: e, order: 2 * i, times: 1, last: e.At}
		if overtaken(e, trace) {
			sent := r
			sent.Waits, sent.Reply = true, ""
			out = append(out, sent)
			r.Answers, r.At, r.last, r.order = true, e.Until, e.Until, replyOrder(i, trace)
		}
		out = append(out, r)
	}
	slices.SortStableFunc(out, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.order, b.order))
	})
	return out
}

// replyOrder returns the position of the reply to the i-th event among rows at the same time. A
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

// narrator goes through the rows in order, and keeps track of the current state.
type narrator struct {
	actors  []string
	rows    []row
	holder  string
	holding int
	ttl     *float64 // left at the time since
	since   float64
	believe []int // sorted
	seen    int   // order of the last row of known state; later rows are blind until a state is recorded
	blind   bool
}

func (n *narrator) tell(r row) {
	n.expire(r.At)
	if !r.Answers { // Redis executed the command at the earlier row
		n.look(r.event)
		r.keys = r.event.Keys
		n.blind = r.order > n.seen && r.Kind != lab.Command && r.keys == nil && r.event.Lock == ""
	}
	n.ask(r.event, r.Actor)
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

func (n *narrator) look(e lab.Event) {
	if e.Lock == "" {
		return
	}
	n.holder, n.ttl, n.since = e.Lock, e.TTL, e.At
	// A holder may have a suffix after its name, such as its number of holds.
	name, _, _ := strings.Cut(e.Lock, " ")
	n.holding = max(slices.Index(n.actors, e.Lock), slices.Index(n.actors, name))
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

// lastSeen returns the order of the last row at which the state of Redis is known. This is the
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
