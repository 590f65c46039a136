package lab

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"oversell/internal/fault"
)

// keysAfter adds up the key changes in events, and returns the keys that exist at the time at, by name.
func keysAfter(events []Event, at float64) map[string]Key {
	there := make(map[string]Key)
	last := 0.0
	pass := func(until float64) {
		for name, k := range there {
			if k = k.After(until - last); k.Type == Gone {
				delete(there, name)
				continue
			}
			there[name] = k
		}
		last = until
	}
	for _, e := range events {
		pass(e.At)
		for _, k := range e.Keys {
			there[k.Name] = k
		}
	}
	pass(at)
	return there
}

// briefKeys formats keys on one line, with their ttls if ttls is true.
func briefKeys(keys map[string]Key, ttls bool) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		k := keys[name]
		text := fmt.Sprintf("%s %s %s", k.Name, k.Type, k.Value)
		if ttls && k.TTL != nil {
			text += fmt.Sprintf(" %.0f", *k.TTL)
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// addsUp plays a scenario, and checks that the key changes in the trace add up to the keys in Redis.
// It returns the number of keys in Redis.
func addsUp(t *testing.T, c Subject, sc Scenario) int {
	s := inMemoryFor(c)
	defer s.close()
	w := newWorld(context.Background(), s, c, virtualTTL)
	defer w.close()
	w.play(sc.Run, virtualLimit)
	w.Settle()
	w.alone(func() { w.show(w.Trace("", Note, "over")) })
	at, events := w.trace.ms(), w.trace.events()
	has := make(map[string]Key)
	for _, space := range w.spaces {
		states, err := space.read(w.ctx, space.side.Keys(w.ctx, "*").Val())
		if err != nil {
			t.Fatal(err)
		}
		for name, state := range states {
			if k := w.key(name, state, w.trace.moment(at)); state.there() {
				k.Name = space.node + k.Name
				has[k.Name] = k
			}
		}
	}
	if got, want := briefKeys(keysAfter(events, at), false), briefKeys(has, false); got != want {
		t.Errorf("%s on %s: the trace adds up to\n%s\nRedis has\n%s", sc.Name, c.Name, got, want)
	}
	return len(has)
}

// The trace shows values of every type, and a key that changes its type.
func TestKeysOfEveryKind(t *testing.T) {
	inWorld(t, func(t *testing.T, w *World) {
		rdb := w.Start("A").rdb
		const first = "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23"
		for _, tt := range []struct{ command, want string }{
			{"SET stock 7 PX 1000", "stock string 7 1000"},
			{"PERSIST stock", "stock string 7"},
			{"SET stock " + strings.Repeat("7,", 300), "stock string " + strings.Repeat("7,", 200) + "…"},
			{"DEL stock", ""},
			{"RPUSH stock " + first + " 24 25 26 27 28 29", "stock list " + first + " … 6 more"},
			{"DEL stock", ""},
			{"HSET stock b 2 a 1", "stock hash a=1 b=2"},
			{"DEL stock", ""},
			{"SADD stock y x", "stock set x y"},
			{"DEL stock", ""},
			{"ZADD stock 2 a 1 b", "stock zset b=1 a=2"},
			{"DEL stock", ""},
			{"XADD stock 5-1 a b", "stock stream 5-1"},
		} {
			var args []any
			for word := range strings.FieldsSeq(strings.Replace(tt.command, "stock", w.StockKey(), 1)) {
				args = append(args, word)
			}
			if err := rdb.Do(w.ctx, args...).Err(); err != nil {
				t.Fatal(err)
			}
			if got := briefKeys(keysAfter(w.trace.events(), w.trace.ms()), true); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		}
	})
}

// The trace contains only keys that have changed. A ttl that runs down is not a change.
func TestOnlyChangesAreInTheTrace(t *testing.T) {
	inWorld(t, func(t *testing.T, w *World) {
		rdb := w.Start("A").rdb
		for range 3 {
			_ = rdb.SetNX(w.ctx, w.lockKey, "held", w.TTL).Err()
			w.Sleep(w.TTL / 130) // not whole milliseconds
		}
		_ = rdb.PExpire(w.ctx, w.lockKey, w.TTL).Err()
		w.Sleep(w.TTL)
		_ = rdb.Get(w.ctx, w.lockKey).Err()
		var counts []int
		for _, e := range w.trace.events() {
			counts = append(counts, len(e.Keys))
		}
		if !slices.Equal(counts, []int{1, 0, 0, 1, 0}) {
			t.Errorf("keys in the events: %v", counts)
		}
	})
}

// The trace shows the ttl at the time of the event, although it is read later. If the first ttl may have
// run down to the second, two reads count as unchanged.
func TestLooksAtTheSameTTL(t *testing.T) {
	start := time.Now()
	ms := func(n float64) time.Duration { return time.Duration(n * float64(time.Millisecond)) }
	at := func(from, to, left float64) keyState {
		return keyState{kind: "string", words: []string{"a"}, left: ms(left), from: start.Add(ms(from)),
			to: start.Add(ms(to))}
	}
	none := func(from, to float64) keyState {
		return keyState{kind: Gone, from: start.Add(ms(from)), to: start.Add(ms(to))}
	}
	for name, tt := range map[string]struct {
		first, second keyState
		want          bool
	}{
		"the same moment":                  {at(0, 0, 100), at(10, 10, 90), true},
		"a millisecond too long":           {at(0, 0, 100), at(10, 10, 91), false},
		"a millisecond too short":          {at(0, 0, 100), at(10, 10, 89), false},
		"parts of one":                     {at(0, 0, 100), at(10.9, 10.9, 90), true},
		"read late in the round trip":      {at(0, 1, 100), at(10, 14, 87), true},
		"later than that":                  {at(0, 1, 100), at(10, 14, 84), false},
		"read late in the first one":       {at(0, 4, 97), at(10, 11, 90), true},
		"more than was left at the latest": {at(0, 4, 97), at(10, 11, 92), false},
		"it stays":                         {at(0, 0, 100), at(10, 10, -1), false},
		"it stays as before":               {at(0, 0, -1), at(10, 10, -1), true},
		"run out":                          {at(0, 0, 100), none(100, 100), true},
		"run out in the round trip":        {at(0, 0, 100), none(99, 101), true},
		"gone before":                      {at(0, 0, 100), none(98, 99), false},
		"gone, with no end":                {at(0, 0, -1), none(98, 99), false},
		"gone as before":                   {none(0, 0), none(98, 99), true},
		"come":                             {none(0, 0), at(98, 99, 100), false},
		"come again":                       {at(0, 0, 100), at(100, 100, 100), false},
	} {
		if got := tt.second.follows(tt.first); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	inWorld(t, func(t *testing.T, w *World) {
		state := keyState{kind: "string", words: []string{"a"}, left: ms(90), from: w.trace.moment(14),
			to: w.trace.moment(17)}
		if k := w.key("a", state, w.trace.moment(12)); *k.TTL != 92 {
			t.Errorf("%v ms are left at the event", *k.TTL)
		}
		if l := state.lock().asOf(w.trace.moment(12)); l.left != ms(92) {
			t.Errorf("%v of the lease are left at the event", l.left)
		}
	})
}

// If reading the keys fails at any point, the trace contains nothing about the keys and the lock, and
// the outcome of the cell is Unknown.
func TestLookThatFails(t *testing.T) {
	for n := 1; n <= 3; n++ { // TYPE, PTTL, GET
		inWorld(t, func(t *testing.T, w *World) {
			rdb := w.Start("A").rdb
			other := newWorld(w.ctx, w.server, w.Subject, w.TTL)
			defer other.close()
			looker := other.Start("looker")
			sent := 0 // on the connection, which breaks at the n-th command
			looker.Inject(func(fault.Command) bool { sent = sent%n + 1; return sent == n }, 2, "", Drop)
			v := w.play(func(w *World) Verdict {
				_ = rdb.Set(w.ctx, w.lockKey, "held", 0).Err()
				side := w.spaces[0].side
				w.spaces[0].side = looker.rdb
				_ = rdb.Get(w.ctx, w.lockKey).Err()
				w.spaces[0].side = side
				_ = rdb.Get(w.ctx, w.lockKey).Err()
				return Holds.Because("it is over")
			}, virtualLimit)
			if v.Outcome != Unknown || !strings.Contains(v.Note.String(), "could not be read") {
				t.Errorf("broken at %d: %v", n, v)
			}
			var got []string
			for _, e := range w.trace.events() {
				got = append(got, fmt.Sprintf("%s %d", e.Lock, len(e.Keys)))
			}
			if want := []string{"A 1", " 0", "A 0"}; !slices.Equal(got, want) {
				t.Errorf("broken at %d: the lock and the number of keys are %q, want %q", n, got, want)
			}
		})
	}
}

// Reading many keys takes no virtual time.
func TestLookAtManyKeys(t *testing.T) {
	inWorld(t, func(t *testing.T, w *World) {
		rdb := w.Start("A").rdb
		const many = 200
		for i := range many {
			_ = rdb.RPush(w.ctx, fmt.Sprintf("%s:%d", w.lockKey, i), i).Err()
		}
		if there := keysAfter(w.trace.events(), w.trace.ms()); len(there) != many || w.trace.ms() > 0 {
			t.Errorf("%d keys after %v ms", len(there), w.trace.ms())
		}
	})
}

// A majority of the nodes decides who holds the lock, and for how long.
func TestLockIsWithTheMajority(t *testing.T) {
	a := func(left time.Duration) lockState { return lockState{held: true, value: "a", left: left} }
	b := lockState{held: true, value: "b", left: 9}
	for name, tt := range map[string]struct {
		seen []lockState
		want lockState
	}{
		"one server":      {[]lockState{a(3)}, a(3)},
		"one without":     {[]lockState{{}}, lockState{}},
		"three of five":   {[]lockState{a(1), b, a(2), {}, a(3)}, a(1)},
		"all, the third":  {[]lockState{a(5), a(4), a(3), a(2), a(1)}, a(3)},
		"no end on three": {[]lockState{a(-1), a(-1), a(-1), a(2), a(1)}, a(-1)},
		"two of five":     {[]lockState{a(1), b, a(2), b, {}}, lockState{}},
		"split":           {[]lockState{a(1), b}, lockState{}},
	} {
		if got := byMajority(tt.seen); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}
