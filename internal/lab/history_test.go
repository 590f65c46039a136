package lab

import "testing"

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
