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
	w.Reset()
	w.look(start.Add(440 * ms))
	if want := 35 * ms; w.Get() != want || told[len(told)-1] != want {
		t.Errorf("after Reset: the longest is %v, told of %v; want %v", w.Get(), told, want)
	}
}

func TestLongestKeepsTheLongest(t *testing.T) {
	var l LongestStall
	for i, tt := range []struct {
		add, want time.Duration
	}{{2, 2}, {1, 2}, {2, 2}, {3, 3}} {
		if l.Add(tt.add); l.Get() != tt.want {
			t.Errorf("step %d: the longest is %v; want %v", i, l.Get(), tt.want)
		}
	}
	if l.Reset(); l.Get() != 0 {
		t.Errorf("after Reset the longest is %v", l.Get())
	}
}
