package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Gone is the type of a key that does not exist.
const Gone = "none"

type keyState struct {
	kind  string        // the reply to TYPE
	words []string      // its value; in pairs if it is a hash or a sorted set
	left  time.Duration // time until the key expires; negative: it has no ttl

	from, to time.Time // the key was read between these times
}

func (k keyState) there() bool { return k.kind != Gone }

// pairs reports whether the words are pairs.
func (k keyState) pairs() bool { return k.kind == "hash" || k.kind == "zset" }

// ends returns the earliest and the latest time at which the key may expire. Redis computed the
// remaining ttl at an unknown time between from and to.
func (k keyState) ends() (earliest, latest time.Time) { return k.from.Add(k.left), k.to.Add(k.left) }

const pttlUnit = time.Millisecond

// follows reports whether the key may be unchanged since o was read. A ttl that has run down, or
// has run out, is not a change.
func (k keyState) follows(o keyState) bool {
	earlier, later := o.ends()
	switch {
	case !k.there():
		return !o.there() || o.left >= 0 && !earlier.After(k.to)
	case k.kind != o.kind || !slices.Equal(k.words, o.words):
		return false
	case k.left < 0 || o.left < 0:
		return k.left < 0 && o.left < 0
	}
	earliest, latest := k.ends()
	return earliest.Sub(later) < pttlUnit && earlier.Sub(latest) < pttlUnit
}

// asOf returns the ttl that remains at one time, given that left remained at the time seen. The
// clock of the trace counts whole microseconds.
func asOf(at time.Time, left time.Duration, seen time.Time) time.Duration {
	if left < 0 {
		return left
	}
	return left + seen.Sub(at).Truncate(time.Microsecond)
}

// lock interprets the key as a lock. A string is the token; a hash contains the owner and the
// number of holds.
func (k keyState) lock() lockState {
	l := lockState{left: k.left, seen: k.from}
	switch {
	case k.kind == "string":
		l.held, l.value = true, k.words[0]
	case k.kind == "hash" && len(k.words) > 0:
		n := len(k.words)
		l.held, l.value, l.count = true, k.words[n-2], k.words[n-1]
	}
	return l
}

// keyspace keeps track of the keys that a cell uses on one server.
type keyspace struct {
	server *server
	side   *redis.Client // observes the server, without faults
	node   string        // on a node of redlock: the prefix of commands and of key names, such as "node 0: "

	mu     sync.Mutex
	names  []string            // keys in commands, and keys that their scripts derive
	shown  map[string]keyState // state that the trace showed last
	awaits map[string]int      // number of blocking commands that are waiting for the key
}

func newKeyspace(s *server, node string) *keyspace {
	return &keyspace{server: s, side: redis.NewClient(s.options(s.dial)), node: node,
		shown: make(map[string]keyState), awaits: make(map[string]int)}
}

func (s *keyspace) know(names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		if !slices.Contains(s.names, name) {
			s.names = append(s.names, name)
		}
	}
}

func (s *keyspace) known() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.names)
}

// await records that a blocking command waits for keys, until over is called. While the command
// waits, none of the keys exists: as soon as one exists, Redis serves the waiting command before it
// executes another command.
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

// read reads keys and their ttls. It takes two round trips, or more if there are many keys.
func (s *keyspace) read(ctx context.Context, names []string) (map[string]keyState, error) {
	states := make(map[string]keyState, len(names))
	now := time.Now()
	s.mu.Lock()
	var left []string
	for _, name := range names {
		states[name] = keyState{kind: Gone, from: now, to: now}
		if s.awaits[name] == 0 {
			left = append(left, name)
		}
	}
	s.mu.Unlock()
	for some := range slices.Chunk(left, mostAsked) {
		if err := s.ask(ctx, some, states); err != nil {
			return nil, err
		}
	}
	return states, nil
}

// mostAsked is the maximum number of keys in one pipeline. Miniredis reads 4096 bytes from a
// connection at a time, and its connections are pipes: while it waits for a reply to be read, it
// reads nothing.
const mostAsked = 8

// ask reads keys into states: first their types, and then their values.
func (s *keyspace) ask(ctx context.Context, names []string, states map[string]keyState) error {
	kinds, left := make([]*redis.StatusCmd, len(names)), make([]*redis.DurationCmd, len(names))
	values := make([]func() []string, len(names))
	pipe := s.side.Pipeline()
	for i, name := range names {
		kinds[i], left[i] = pipe.Type(ctx, name), pipe.PTTL(ctx, name)
	}
	from := time.Now()
	if _, err := pipe.Exec(ctx); err != nil {
		return err
	}
	to := time.Now()
	for i, name := range names {
		values[i] = valueOf(ctx, pipe, kinds[i].Val(), name)
	}
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	for i, name := range names {
		state := keyState{kind: Gone, from: from, to: to}
		if words := values[i](); len(words) > 0 { // otherwise it does not exist, or has just expired
			state.kind, state.words, state.left = kinds[i].Val(), words, left[i].Val()
		}
		states[name] = state
	}
	return nil
}

func valueOf(ctx context.Context, pipe redis.Pipeliner, kind, key string) func() []string {
	switch kind {
	case "string":
		r := pipe.Get(ctx, key)
		return func() []string {
			if r.Err() != nil {
				return nil
			}
			return []string{r.Val()}
		}
	case "list":
		return pipe.LRange(ctx, key, 0, -1).Val
	case "hash":
		r := pipe.HGetAll(ctx, key)
		return func() []string { // sorted, so that the order is the same each time
			var words []string
			for _, field := range slices.Sorted(maps.Keys(r.Val())) {
				words = append(words, field, r.Val()[field])
			}
			return words
		}
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
	case Gone:
		return func() []string { return nil }
	}
	return func() []string { return []string{"?"} }
}

// changes returns the names of the keys that have changed since the trace last showed them, and
// records their new states as shown.
func (s *keyspace) changes(states map[string]keyState) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var changed []string
	for name, now := range states {
		last, ok := s.shown[name]
		if !ok {
			last.kind = Gone
		}
		if !now.follows(last) {
			s.shown[name] = now
			changed = append(changed, name)
		}
	}
	return changed
}

type lockState struct {
	held  bool
	value string        // the token, or the owner
	count string        // the owner's holds, if the lock counts them
	left  time.Duration // time left on the lease at seen; negative: no lease
	seen  time.Time
}

// asOf returns the lock with the time left on its lease at a given time.
func (s lockState) asOf(at time.Time) lockState {
	if s.held {
		s.left, s.seen = asOf(at, s.left, s.seen), at
	}
	return s
}

// look reads the lock without faults. If that fails, the outcome of the cell is Unknown.
func (w *World) look() lockState {
	lock, err := w.tryLook()
	w.unread(err)
	return lock
}

func (w *World) tryLook() (lockState, error) {
	if s := w.server.service; s != nil {
		// The time left on the lease is not read, because a service knows it only in seconds.
		place, err := s.First(w.ctx, w.lockKey)
		return lockState{held: err == nil && place != "", value: place, left: w.TTL}, err
	}
	keepers := w.keepers()
	seen, errs := make([]lockState, len(keepers)), make([]error, len(keepers))
	var all sync.WaitGroup
	for i, space := range keepers {
		all.Go(func() {
			var states map[string]keyState
			states, errs[i] = space.read(w.ctx, []string{w.redisKey()})
			seen[i] = states[w.redisKey()].lock()
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return lockState{}, err
	}
	return byMajority(seen), nil
}

// unread sets the outcome of the cell to Unknown if err says that the cell's servers could not be
// read. Errors after the end of the cell are ignored.
func (w *World) unread(err error) {
	if err == nil || w.ctx.Err() != nil {
		return
	}
	w.fail(Unknown.Because("the keys could not be read: %v", err))
}

// byMajority returns the lock that a majority of the servers stores. Its lease ends when fewer than
// a majority of their leases are left.
func byMajority(seen []lockState) lockState {
	by := make(map[string][]lockState)
	for _, s := range seen {
		if s.held {
			by[s.value] = append(by[s.value], s)
		}
	}
	most := len(seen) / 2
	for _, same := range by {
		if len(same) > most {
			// A negative lease has no end. As an unsigned number it is the largest.
			slices.SortFunc(same, func(a, b lockState) int { return cmp.Compare(uint64(b.left), uint64(a.left)) })
			return same[most]
		}
	}
	return lockState{}
}

// show returns the holder of the lock and the time left on the lease in milliseconds, or nil if
// there is no lease.
func (n *names) show(s lockState) (string, *float64) {
	if !s.held {
		return "free", nil
	}
	who := cmp.Or(n.holder(s.value), "?")
	if s.count != "" && s.count != "0" && s.count != "1" { // 0: it was handed to a waiter that has not taken it yet
		who = fmt.Sprintf("%s ×%s", who, s.count)
	}
	if s.left < 0 {
		return who, nil
	}
	return who, new(inMS(s.left))
}
