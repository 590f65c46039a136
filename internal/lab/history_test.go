package lab

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func TestHistory(t *testing.T) {
	for name, tt := range map[string]struct {
		play func(h *history)
		want Outcome
	}{
		"one after the other": {func(h *history) {
			h.acquired("A", h.call())
			h.released("A")
			h.acquired("B", h.call())
		}, Holds},
		"two at once": {func(h *history) {
			h.acquired("A", h.call())
			h.acquired("B", h.call())
			h.released("A")
		}, Breaks},
		"twice the same": {func(h *history) {
			h.acquired("A", h.call())
			h.acquired("A", h.call())
			h.released("A")
			h.released("A")
			h.acquired("B", h.call())
		}, Holds},
		"between two releases": {func(h *history) {
			h.acquired("A", h.call())
			h.acquired("A", h.call())
			h.released("A")
			h.acquired("B", h.call())
		}, Breaks},
		"after a loss that was told": {func(h *history) {
			h.acquired("A", h.call())
			h.acquired("A", h.call())
			h.ended("A")
			h.acquired("B", h.call())
		}, Holds},
		"asked before the release, granted after": {func(h *history) {
			h.acquired("A", h.call())
			asked := h.call()
			h.released("A")
			h.acquired("B", asked)
		}, Holds},
		"nothing": {func(*history) {}, Holds},
	} {
		var h history
		tt.play(&h)
		if v := h.check(); v.Outcome != tt.want {
			t.Errorf("%s: %s (%s)", name, v.Outcome, v.Note)
		}
	}
}

// The checker and the witness know nothing of each other, and agree on
// whatever happens: check says unknown where they do not.
func TestCheckerAndWitnessAgree(t *testing.T) {
	found := make(map[Outcome]int)
	for seed := range uint64(300) {
		h := randomHistory(rand.New(rand.NewPCG(seed, 1)))
		v := h.check()
		found[v.Outcome]++
		if v.Outcome == Unknown {
			t.Errorf("seed %d: %s", seed, v.Note)
		}
	}
	if found[Holds] < 30 || found[Breaks] < 30 {
		t.Errorf("%v: too much of one kind to say anything", found)
	}
}

// randomHistory is of three actors, who mostly respect a mutex.
func randomHistory(r *rand.Rand) *history {
	h := new(history)
	holds := make(map[string]int)
	for range 10 {
		who := fmt.Sprint("actor ", r.IntN(3))
		free := true
		for other, n := range holds {
			free = free && (n == 0 || other == who)
		}
		switch {
		case holds[who] > 0 && r.IntN(5) == 0:
			h.ended(who)
			holds[who] = 0
		case holds[who] > 0 && r.IntN(3) > 0:
			h.released(who)
			holds[who]--
		case free || r.IntN(20) == 0:
			h.acquired(who, h.call())
			holds[who]++
		}
	}
	return h
}

// When the two do not agree, nothing is decided.
func TestDisagreementIsUnknown(t *testing.T) {
	var h history
	h.acquired("A", h.call())
	h.acquired("B", h.call())
	h.overlaps = nil
	if v := h.check(); v.Outcome != Unknown {
		t.Errorf("%s (%s)", v.Outcome, v.Note)
	}
}
