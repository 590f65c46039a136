package figures

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestMedianAndItsInterval(t *testing.T) {
	for _, tt := range []struct {
		values            []float64
		median, low, high float64
	}{
		{[]float64{7}, 7, 7, 7},
		{[]float64{9, 1}, 5, 1, 9},
		{[]float64{3, 1, 2}, 2, 1, 3},
		{[]float64{5, 4, 3, 2, 1}, 3, 1, 5},
		{[]float64{6, 5, 4, 3, 2, 1}, 3.5, 1, 6},
		{[]float64{1, 2, 3, 4, 5, 6, 7, 8}, 4.5, 1, 8},
		{[]float64{1, 2, 3, 4, 5, 6, 7, 8, 9}, 5, 2, 8},
		{[]float64{math.MaxFloat64, math.MaxFloat64}, math.MaxFloat64, math.MaxFloat64, math.MaxFloat64},
	} {
		got := MedianOf(tt.values)
		if want := (Estimate{tt.median, tt.low, tt.high, len(tt.values)}); got != want {
			t.Errorf("%v: %+v, want %+v", tt.values, got, want)
		}
	}
}

// The expected values are from tables in books: David and Nagaraja, section 7.1, and any table of
// the sign test.
func TestConfidence(t *testing.T) {
	for n, want := range map[int]struct {
		rank       int
		confidence float64
	}{
		1: {1, 0}, 2: {1, 0.5}, 3: {1, 0.75}, 4: {1, 0.875}, 5: {1, 0.9375}, 6: {1, 0.96875},
		9: {2, 0.9609375}, 10: {2, 0.978515625}, 20: {6, 0.9586}, 50: {18, 0.9672}, 100: {40, 0.9648},
	} {
		if got := rank(n); got != want.rank {
			t.Errorf("%d runs: k = %d, want %d", n, got, want.rank)
		}
		if got := Confidence(n); math.Abs(got-want.confidence) > 5e-5 {
			t.Errorf("%d runs: confidence %v, want %v", n, got, want.confidence)
		}
	}
}

func TestDifference(t *testing.T) {
	low, high := []float64{1, 2, 3, 4, 5, 6}, []float64{11, 12, 13, 14, 15, 16}
	for _, tt := range []struct {
		a, b []float64
		want Difference
	}{
		{low, high, Clear},
		{high, low, Clear},
		{low[:4], high[:4], Clear},
		{low[:3], high[:3], Unclear},
		{low[:1], high[:1], Unclear},
		{low[:1], high, Unclear},
		{low, low[3:], None},
		{low, []float64{6, 7, 8, 9, 10, 11}, None}, // the intervals touch
		{low[:1], low[:1], None},
	} {
		if got := MedianOf(tt.a).Differs(MedianOf(tt.b)); got != tt.want {
			t.Errorf("%v and %v: %v, want %v", tt.a, tt.b, got, tt.want)
		}
	}
}

// Two samples of the same distribution have disjoint intervals with the probability that apart
// returns.
func TestApart(t *testing.T) {
	for _, tt := range []struct {
		n, m int
		want float64
	}{{1, 1, 1}, {2, 2, 1. / 3}, {3, 3, 0.1}, {4, 4, 2. / 70}, {5, 5, 2. / 252}, {3, 5, 2. / 56}} {
		if got := apart(tt.n, tt.m); math.Abs(got-tt.want) > 1e-9 {
			t.Errorf("%d and %d runs: %v, want %v", tt.n, tt.m, got, tt.want)
		}
	}
	r := rand.New(rand.NewPCG(3, 4))
	sample := func(n int) Estimate {
		values := make([]float64, n)
		for i := range values {
			values[i] = r.Float64()
		}
		return MedianOf(values)
	}
	const tries = 20_000
	for _, n := range [][2]int{{4, 50}, {20, 2}, {9, 9}} {
		n, m, apartSeen := n[0], n[1], 0
		for range tries {
			if a, b := sample(n), sample(m); a.Low > b.High || b.Low > a.High {
				apartSeen++
			}
		}
		if got, want := float64(apartSeen)/tries, apart(n, m); math.Abs(got-want) > 0.01 {
			t.Errorf("%d and %d runs: %v of the intervals do not overlap, want %v", n, m, got, want)
		}
	}
}
