package lab

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// gone is the type of a key that is not there.
const gone = "none"

// keyState is a key as Redis has it.
type keyState struct {
	kind  string        // as TYPE says
	words []string      // its value; of a hash or a sorted set in pairs
	left  time.Duration // of its ttl; negative for none
}

func (k keyState) there() bool { return k.kind != gone }

// pairs reports whether the words belong together two by two.
func (k keyState) pairs() bool { return k.kind == "hash" || k.kind == "zset" }

// after is the key once time has passed and nothing else has happened.
func (k keyState) after(passed time.Duration) keyState {
	if !k.there() || k.left < 0 {
		return k
	}
	if k.left -= passed; k.left <= 0 {
		return keyState{kind: gone}
	}
	return k
}

// same reports whether two looks show the same. Redis tells what is left of a ttl
// in whole milliseconds.
func (k keyState) same(o keyState) bool {
	if k.kind != o.kind || !slices.Equal(k.words, o.words) {
		return false
	}
	return !k.there() || (k.left < 0) == (o.left < 0) && (k.left-o.left).Abs() < time.Millisecond
}

// lock is the key's state as that of a lock: a string has the token, and a hash the
// owner with the number of holds.
func (k keyState) lock() lockState {
	switch {
	case k.kind == "string":
		return lockState{held: true, value: k.words[0], left: k.left}
	case k.kind == "hash" && len(k.words) > 0:
		n := len(k.words)
		return lockState{held: true, value: k.words[n-2], count: k.words[n-1], left: k.left}
	}
	return lockState{left: k.left}
}

// keyspace is what a server has under the names that a cell uses.
type keyspace struct {
	side *redis.Client // looks on, past all faults
	node string        // begins the names of keys, where there are several servers

	mu     sync.Mutex
	names  []string            // that commands have brought, or lead to
	kinds  map[string]string   // what a name stood for when it was last there
	shown  map[string]shownKey // as the trace has it
	awaits map[string]int      // by how many commands that wait at the server for something to take
}

// shownKey is a key as it was last shown.
type shownKey struct {
	keyState
	at float64 // milliseconds since the cell began
}

func newKeyspace(side *redis.Client, node string) *keyspace {
	return &keyspace{side: side, node: node, kinds: make(map[string]string), shown: make(map[string]shownKey), awaits: make(map[string]int)}
}

// know adds names to those that the cell uses.
func (s *keyspace) know(names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		if !slices.Contains(s.names, name) {
			s.names = append(s.names, name)
		}
	}
}

// known are the names that the cell uses.
func (s *keyspace) known() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.names)
}

// await notes that a command waits for something to take from keys, until it is
// called that it no longer does. While one waits there is nothing: Redis gives it
// what comes before it executes another command.
func (s *keyspace) await(keys []string) (over func()) {
	add := func(n int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, key := range keys {
			s.awaits[key] += n
		}
	}
	add(1)
	return func() { add(-1) }
}

// read reads keys, and what is left of their ttls. It takes one round trip, and
// another one for keys that are not what they were when they were last there.
func (s *keyspace) read(ctx context.Context, names []string) map[string]keyState {
	states := make(map[string]keyState, len(names))
	s.mu.Lock()
	var ask []asked
	for _, name := range names {
		states[name] = keyState{kind: gone}
		if s.awaits[name] == 0 {
			ask = append(ask, asked{name: name, kind: s.kinds[name]})
		}
	}
	s.mu.Unlock()
	for len(ask) > 0 {
		ask = s.ask(ctx, ask, states)
	}
	return states
}

// asked is a key that is being read.
type asked struct {
	name  string
	kind  string // that it is believed to be; "": not known
	found *redis.StatusCmd
	value func() []string
	left  *redis.DurationCmd
}

// ask reads keys into states, and returns those that are of another kind.
func (s *keyspace) ask(ctx context.Context, keys []asked, states map[string]keyState) (again []asked) {
	pipe := s.side.Pipeline()
	for i := range keys {
		k := &keys[i]
		k.found = pipe.Type(ctx, k.name)
		if k.kind != "" {
			k.value, k.left = valueOf(ctx, pipe, k.kind, k.name), pipe.PTTL(ctx, k.name)
		}
	}
	_, _ = pipe.Exec(ctx) // what could not be read is not there
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range keys {
		found := k.found.Val()
		switch {
		case found == "" || found == gone:
		case found != k.kind:
			s.kinds[k.name] = found
			again = append(again, asked{name: k.name, kind: found})
		case k.left.Val() != noSuchKey: // or else it has run out between two of the questions
			states[k.name] = keyState{kind: found, words: k.value(), left: k.left.Val()}
		}
	}
	return again
}

// noSuchKey is what PTTL says of a key that is not there.
const noSuchKey = time.Duration(-2)

// valueOf asks for the value of a key of that kind.
func valueOf(ctx context.Context, pipe redis.Pipeliner, kind, key string) func() []string {
	switch kind {
	case "string":
		r := pipe.Get(ctx, key)
		return func() []string { return []string{r.Val()} }
	case "list":
		return pipe.LRange(ctx, key, 0, -1).Val
	case "hash":
		r := pipe.HGetAll(ctx, key)
		return func() []string { return flat(r.Val()) }
	case "set":
		r := pipe.SMembers(ctx, key)
		return func() []string { return slices.Sorted(slices.Values(r.Val())) }
	case "zset":
		r := pipe.ZRangeWithScores(ctx, key, 0, -1)
		return func() []string {
			var words []string
			for _, z := range r.Val() {
				words = append(words, fmt.Sprint(z.Member), fmt.Sprint(z.Score))
			}
			return words
		}
	case "stream":
		r := pipe.XRange(ctx, key, "-", "+")
		return func() []string {
			var words []string
			for _, m := range r.Val() {
				words = append(words, m.ID)
			}
			return words
		}
	}
	return func() []string { return []string{"?"} }
}

// flat are the fields of a hash, each before its value, in an order that is the same
// each time.
func flat(hash map[string]string) []string {
	var words []string
	for field, value := range hash {
		words = append(words, field, value)
	}
	sortPairs(words)
	return words
}

// changes takes over what was read, and returns the names of what is not as it was
// to be expected after what the trace has shown so far.
func (s *keyspace) changes(at float64, states map[string]keyState) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var changed []string
	for name, now := range states {
		last, ok := s.shown[name]
		if !ok {
			last.kind = gone
		}
		if passed := time.Duration((at - last.at) * float64(time.Millisecond)); !now.same(last.after(passed)) {
			s.shown[name] = shownKey{now, at}
			changed = append(changed, name)
		}
	}
	return changed
}

// sortPairs puts pairs in the order of their first words.
func sortPairs(words []string) {
	pairs := slices.Collect(slices.Chunk(slices.Clone(words), 2))
	slices.SortFunc(pairs, func(a, b []string) int { return cmp.Compare(a[0], b[0]) })
	copy(words, slices.Concat(pairs...))
}
