package fleet

import (
	"slices"
	"testing"
	"time"
)

const ms = time.Millisecond

func TestWatchTellsOfEachStall(t *testing.T) {
	start := time.Now()
	var told []time.Duration
	w := &StallWatch{limit: 10 * ms, tell: func(d time.Duration) { told = append(told, d) }, last: start}
	for _, at := range []time.Duration{5, 20, 25, 125, 175, 180, 400} {
		w.look(start.Add(at * ms))
	}
	if want := []time.Duration{95 * ms, 45 * ms, 215 * ms}; !slices.Equal(told, want) {
		t.Errorf("told of %v, want %v", told, want)
	}
	if got, want := w.Get(), 215*ms; got != want {
		t.Errorf("the longest is %v, want %v", got, want)
	}
	w.Reset()
	w.look(start.Add(440 * ms))
	if want := 35 * ms; w.Get() != want || told[len(told)-1] != want {
		t.Errorf("after Reset: the longest is %v, told of %v; want %v", w.Get(), told, want)
	}
}
