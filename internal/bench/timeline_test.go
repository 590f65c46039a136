package bench

import (
	"slices"
	"testing"
	"time"
)

func TestTimelineKeepsAllInFewBins(t *testing.T) {
	line := timeline{bin: firstBin}
	for _, ms := range []int{0, 9, 10, 25} {
		line.add(time.Duration(ms) * time.Millisecond)
	}
	if got := line.figures(); got.Bin != 10 || !slices.Equal(got.Served, []int64{2, 1, 1}) {
		t.Errorf("got %+v, want 2, 1, 1 in bins of 10 ms", got)
	}
	line.add(2400 * time.Millisecond) // beyond the last bin
	if got := line.figures(); got.Bin != 20 || len(got.Served) != 121 || got.Served[0] != 3 || got.Served[1] != 1 ||
		got.Served[120] != 1 {
		t.Errorf("got %+v, want 3, 1 and in the end 1 in bins of 20 ms", got)
	}
	for s := range 3600 {
		line.add(time.Duration(s) * time.Second)
	}
	var sum int64
	got := line.figures()
	for _, n := range got.Served {
		sum += n
	}
	if sum != 3605 || len(got.Served) > maxBins {
		t.Errorf("%d of 3605 in %d bins of %v ms", sum, len(got.Served), got.Bin)
	}
}

func TestPercentilesRise(t *testing.T) {
	counts := newTally(time.Minute)
	counts.begin(time.Now())
	if got := counts.percentiles(false); got.Latency != nil || got.Wait != nil {
		t.Errorf("of nothing there is %+v", got)
	}
	for ms := range 1000 {
		took := time.Duration(ms+1) * time.Millisecond
		counts.add(reply{Status: 200, At: took, Latency: took, Service: took / 2})
	}
	got := counts.percentiles(true)
	if !slices.IsSorted(got.Latency) || len(got.Latency) != len(got.P) || got.Latency[len(got.P)-1] != 1000 ||
		got.Wait != nil {
		t.Errorf("got %+v", got)
	}
	if middle := got.Service[slices.Index(got.P, 50)]; middle < 249 || middle > 252 {
		t.Errorf("half of them took %v ms to serve, want 250", middle)
	}
}
