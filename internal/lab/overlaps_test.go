package lab

import "testing"

func TestOverlaps(t *testing.T) {
	for name, tt := range map[string]struct {
		play func(w *World)
		want int
	}{
		"one after the other": {func(w *World) {
			w.Enters("A")()
			w.Enters("B")
		}, 0},
		"two at once": {func(w *World) {
			w.Enters("A")
			w.Enters("B")
		}, 1},
		"twice the same": {func(w *World) {
			leave := w.Enters("A")
			w.Enters("A")()
			leave()
			w.Enters("B")
		}, 0},
		"between two releases": {func(w *World) {
			w.Enters("A")
			w.Enters("A")()
			w.Enters("B")
		}, 1},
		"after a loss that was told": {func(w *World) {
			w.Enters("A")
			w.Enters("A")
			w.loses("A")
			w.Enters("B")
		}, 0},
		"nothing": {func(*World) {}, 0},
	} {
		w := &World{deeds: make(map[[2]string]int)}
		tt.play(w)
		if got := w.Overlaps(); len(got) != tt.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
