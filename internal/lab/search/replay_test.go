package search

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"oversell/internal/backend/backendtest"
	"oversell/internal/lab"
)

// The search runs each buyer separately and computes their common state. The scheduler runs all buyers
// on one server. Both reach the same state after the same moves.
func TestStatesAreThoseOfTheScheduler(t *testing.T) {
	for _, name := range searched() {
		t.Run(name, func(t *testing.T) {
			for i := range backendtest.Times(5, 40) {
				random := rand.New(rand.NewPCG(uint64(i), 14))
				moves, s := walk(t, name, 2+random.IntN(2), 4+random.IntN(12), random)
				if diff := compare(t, name, moves, s); diff != "" {
					t.Fatalf("%s: %s", lab.MovesText(moves), diff)
				}
			}
		})
	}
}

// searched returns the strategies that can be scheduled, except for the reader's own.
func searched() []string {
	return slices.DeleteFunc(lab.Levels(), func(name string) bool { return name == "yours" })
}

func subject(t *testing.T, name string) lab.Subject {
	t.Helper()
	found, err := lab.Scheduled(name, 2)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// explore prepares a search, and an engine for single moves.
func explore(t *testing.T, cfg Config) (*explorer, *engine) {
	t.Helper()
	x, err := newExplorer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.close)
	e, err := x.engine()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.redis.close)
	return x, e
}

// walk makes n random moves.
func walk(t *testing.T, name string, buyers, n int, random *rand.Rand) (moves []lab.Move, s *state) {
	t.Helper()
	x, e := explore(t, Config{Subject: subject(t, name), Buyers: buyers, Faults: OneOfEach})
	s = x.first()
	for range n {
		can := s.moves()
		if d, ok := s.nearest(); ok {
			can = append(can, lab.Move{Action: lab.Pass, For: d}, lab.Move{Action: lab.Pass, For: d})
		}
		if len(can) == 0 {
			break
		}
		m := can[random.IntN(len(can))]
		next, err := e.make(s, m)
		if err != nil {
			t.Fatalf("%s: %v", lab.MovesText(append(moves, m)), err)
		}
		s = next
		x.root.program.histories.settle()
		s.settle()
		s.limited(m)
		moves = append(moves, m)
	}
	return moves, s
}

// members returns the length of a list. The sizes of other kinds of keys are not compared.
func members(kind string, words int) int {
	if kind != "list" {
		return 0
	}
	return words
}

// compare returns the differences between the scheduler's state and s.
func compare(t *testing.T, name string, moves []lab.Move, s *state) string {
	t.Helper()
	played, err := lab.Play(lab.Schedule{Strategy: name, Buyers: len(s.buyers), Moves: lab.MovesText(moves)})
	if err != nil {
		t.Fatalf("%s: %v", lab.MovesText(moves), err)
	}
	var diffs []string
	differ := func(what string, got, want any) {
		if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
			diffs = append(diffs, fmt.Sprintf("%s is %s, and the scheduler has %s", what, g, w))
		}
	}
	differ("what is sold", s.sold(), played.Sale.Sold)
	for i, p := range played.Players {
		b := &s.buyers[i]
		v := b.now()
		differ(p.Name+" inside", v.inside() && !b.dead, p.Inside)
		differ(p.Name+" dead", b.dead, p.Status == lab.Dead)
		if b.dead || b.history == nil {
			continue
		}
		differ(p.Name+" done", v.done, p.Status == lab.Done)
		var got, want []string
		for _, o := range s.held(i) {
			if never(o) {
				continue
			}
			got = append(got, fmt.Sprint(o.Wire.Name(), o.Watchdog, o.GivenUp))
		}
		for _, n := range p.Next {
			if n.GivenUp && n.From == "watchdog" {
				continue // this command is never sent
			}
			command, _, _ := strings.Cut(strings.Replace(n.Text, "EVALSHA", "EVAL", 1), " ")
			want = append(want, fmt.Sprint(command, n.From == "watchdog", n.GivenUp))
		}
		differ("what "+p.Name+" is about to send", got, want)
		if p.Until != nil && !b.frozen {
			next, ok := b.next()
			lost := false // if true, Until is the time at which the buyer notices the loss
			for _, w := range s.waits {
				if w.buyer == i {
					next, ok, lost = w.left, true, w.lost
				}
			}
			if !lost {
				differ(p.Name+" goes on in", fmt.Sprint(ok, next.Milliseconds()), fmt.Sprint(true, *p.Until-played.Now))
			}
		}
	}
	var got, want []string
	for _, k := range s.data {
		ttl := int64(-1)
		if k.left >= 0 {
			ttl = k.left.Milliseconds()
		}
		got = append(got, fmt.Sprint(k.kind, members(k.kind, len(k.words)), ttl))
	}
	for _, k := range played.Keys {
		ttl := -1.0
		if k.TTL != nil {
			ttl = *k.TTL
		}
		words := len(strings.Fields(strings.ReplaceAll(k.Value, "=", " ")))
		want = append(want, fmt.Sprint(k.Type, members(k.Type, words), ttl))
	}
	slices.Sort(got)
	slices.Sort(want)
	differ("what Redis has", got, want)
	if played.Lock.Redis != "" {
		holder := "free"
		if s.holder != nobody {
			holder = letter(s.holder)
		}
		was, _, _ := strings.Cut(played.Lock.Redis, " ")
		differ("the holder", holder, was)
	}
	return strings.Join(diffs, "; ")
}
