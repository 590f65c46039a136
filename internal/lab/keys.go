package lab

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"oversell/internal/fault"
)

// Key is a key in Redis.
type Key struct {
	Name  string   `json:"name"`             // with a prefix on a node of redlock, such as "node 0: lock"
	Type  string   `json:"type"`             // the reply to TYPE; Gone: the key no longer exists
	Value string   `json:"value"`            // for a collection, its first members
	TTL   *float64 `json:"ttl_ms,omitempty"` // absent: no ttl
}

// mostWords and mostRunes limit how much of a value is shown.
const (
	mostWords = 24
	mostRunes = 400
)

// After returns the key as it will be after passed milliseconds if nothing else happens: with a
// shorter ttl, or gone.
func (k Key) After(passed float64) Key {
	if k.TTL == nil {
		return k
	}
	left := *k.TTL - passed
	if math.Round(left*1000) <= 0 {
		return Key{Name: k.Name, Type: Gone}
	}
	k.TTL = &left
	return k
}

// key returns the Key for a key of Redis, with the names that the trace uses and with the ttl at a
// given time.
func (w *World) key(name string, state keyState, at time.Time) Key {
	k := Key{Name: w.names.key(name), Type: state.kind}
	if !state.there() {
		return k
	}
	k.Value = w.names.words(state)
	if state.left >= 0 {
		k.TTL = new(inMS(asOf(at, state.left, state.from)))
	}
	return k
}

func (n *names) key(name string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.name("", name)
}

// words returns the text of a value, in which names stand for keys and tokens. A long value is cut.
// Pairs are shown as "field=value".
func (n *names) words(state keyState) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	longest, more := n.longest(), ""
	members, named := n.members(state, longest)
	if left := len(members) - mostWords; left > 0 {
		members, more = members[:mostWords], fmt.Sprintf(" … %d more", left)
	}
	words := make([]string, len(members))
	for i, m := range members {
		for j := named; j < len(m); j++ {
			m[j] = n.word(m[j], longest)
		}
		words[i] = strings.Join(m, "=")
	}
	text := []rune(strings.Join(words, " "))
	if len(text) > mostRunes {
		text = append(text[:mostRunes], '…')
	}
	return string(text) + more
}

// members returns the members of a value in the order in which they are shown. A member is one
// word, or two if the value consists of pairs. A hash has no order, so its fields are replaced by
// their names and then sorted. Named is the number of words of each member that are already
// replaced.
func (n *names) members(state keyState, longest []string) (members [][]string, named int) {
	size := 1
	if state.pairs() {
		size = 2
	}
	members = slices.Collect(slices.Chunk(slices.Clone(state.words), size))
	if state.kind != "hash" {
		return members, 0
	}
	for _, m := range members {
		m[0] = n.word(m[0], longest)
	}
	slices.SortFunc(members, func(a, b []string) int { return strings.Compare(a[0], b[0]) })
	return members, 1
}

// word returns a word of a value, in which names stand for keys and tokens. Longest lists the known
// keys, the longest first.
func (n *names) word(word string, longest []string) string {
	if when, ok := n.moment(word); ok {
		return when
	}
	return n.replaced(word, longest)
}

// touched adds the keys of a command and the keys that its script derives from them to the keyspace.
func (w *World) touched(l *link, cmd fault.Command) {
	var names []string
	for _, arg := range cmd.Args[1:] {
		switch beside := w.Subject.Beside; {
		case strings.Contains(arg, w.SKU):
			names = append(names, arg)
		case beside != nil && cmd.Script() && arg != cmd.Args[1]:
			if made := beside(w.redisKey(), arg); len(made) > 0 {
				w.names.used(l.p.Name, arg)
				names = append(names, made...)
			}
		}
	}
	w.spaces[l.node].know(names...)
}

// see reads servers, without faults. It returns the state of the lock at the time of the event. To
// the event it adds the keys that have changed since the trace last showed them. No command may be
// running. If a server cannot be read, ok is false.
func (w *World) see(e *Event, spaces ...*keyspace) (lock lockState, ok bool) {
	onOne, at := w.Subject.InRedis() && len(w.server.nodes) == 0, w.trace.ms()
	if e != nil {
		at = e.At
	}
	var changed []Key
	for _, space := range spaces {
		var names []string
		if !w.keyless {
			names = space.known()
		}
		key := w.redisKey()
		if onOne && !slices.Contains(names, key) {
			names = append(names, key)
		}
		states, err := space.read(w.ctx, names)
		if err != nil {
			w.unread(err)
			return lockState{}, false
		}
		if onOne {
			lock = states[key].lock()
		}
		if !w.keyless {
			changed = append(changed, w.changes(space, at, states)...)
		}
	}
	if w.Subject.InRedis() && !onOne {
		var err error
		if lock, err = w.tryLook(); err != nil {
			w.unread(err)
			return lockState{}, false
		}
	}
	w.trace.change(e, func(e *Event) { e.Keys = changed })
	return lock.asOf(w.trace.moment(at)), true
}

// stands adds the holder of the lock and the time left on the lease to an event.
func (w *World) stands(e *Event, lock lockState) {
	if w.Subject.InRedis() {
		w.trace.change(e, func(e *Event) { e.Lock, e.TTL = w.names.show(lock) })
	}
}

func (w *World) changes(space *keyspace, at float64, states map[string]keyState) []Key {
	var keys []Key
	for _, name := range space.changes(states) {
		key := w.key(name, states[name], w.trace.moment(at))
		key.Name = space.node + key.Name
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b Key) int { return strings.Compare(a.Name, b.Name) })
	return keys
}

// Begins adds a key without a ttl to the keys at the beginning of the trace.
func (w *World) Begins(name, value string) {
	w.spaces[0].know(name)
	if w.keyless {
		return
	}
	state := keyState{kind: "string", words: []string{value}, left: -1}
	w.trace.there = append(w.trace.there, w.changes(w.spaces[0], 0, map[string]keyState{name: state})...)
}

// keepers returns the servers that keep the lock. A majority of them decides who holds it.
func (w *World) keepers() []*keyspace {
	if len(w.server.nodes) > 0 {
		return w.spaces[1:]
	}
	return w.spaces
}

// show adds the state of all servers to an event. No command may be running.
func (w *World) show(e *Event) {
	if lock, ok := w.see(e, w.spaces...); ok {
		w.stands(e, lock)
	}
}

// alone calls do while no command is running.
func (w *World) alone(do func()) {
	select {
	case w.turn <- struct{}{}:
	case <-w.ctx.Done():
		panic(interrupted)
	}
	defer func() { <-w.turn }()
	do()
}
