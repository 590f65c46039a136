package bench_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"oversell/internal/bench"
)

func skew(t *testing.T, text string) bench.Skew {
	t.Helper()
	s, err := bench.ParseSkew(text)
	must(t, err)
	return s
}

// counts returns, for each item, how many of the first buyers want it.
func counts(s *bench.Spread, items, buyers int) []int {
	n := make([]int, items)
	for i := range buyers {
		n[s.Of(i)]++
	}
	return n
}

func TestSkewsAreReadAsWritten(t *testing.T) {
	for _, text := range []string{"uniform", "zipf:1.1", "zipf:0.99", "zipf:1", "zipf:10"} {
		if got := skew(t, text).String(); got != text {
			t.Errorf("%s is written as %s", text, got)
		}
	}
	for _, text := range []string{"", "zipf", "zipf:", "zipf:0", "zipf:-1", "zipf:10.1", "zipf:NaN", "zipf:Inf",
		"zipf:1.1:2", "uniform:1", "Zipf:1.1", "pareto:2"} {
		_, err := bench.ParseSkew(text)
		if err == nil || !strings.Contains(err.Error(),
			"zipf:S with an exponent S over 0 and up to 10") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// The number of buyers of each item matches the item's probability, by Pearson's chi-square test.
// With n degrees of freedom, the sum has mean n and variance 2n. The bound is six standard
// deviations above the mean.
func TestBuyersAreSpreadAsTheSkewSays(t *testing.T) {
	for _, tt := range []struct {
		skew string
		n    int
	}{{"uniform", 2}, {"uniform", 100}, {"uniform", 1000}, {"zipf:0.5", 100}, {"zipf:1", 1000}, {"zipf:1.1", 1000},
		{"zipf:1.1", 3}, {"zipf:2", 20}} {
		for seed := range uint64(5) {
			t.Run(fmt.Sprint(tt.skew, " ", tt.n, " ", seed), func(t *testing.T) {
				const buyers = 200_000
				s := bench.NewSpread(tt.n, skew(t, tt.skew), seed)
				sum, chi, all := 0.0, 0.0, 0
				for i, got := range counts(s, tt.n, buyers) {
					want := s.Share(i) * buyers
					sum += s.Share(i)
					chi += (float64(got) - want) * (float64(got) - want) / want
					all += got
				}
				free := float64(tt.n - 1)
				if math.Abs(chi-free) > 6*math.Sqrt(2*free)+6 {
					t.Errorf("chi-square is %.1f with %.0f degrees of freedom", chi, free)
				}
				if all != buyers || math.Abs(sum-1) > 1e-9 {
					t.Errorf("%d of %d buyers want an item, and the probabilities add up to %v", all, buyers, sum)
				}
			})
		}
	}
}

// The share of the k-th item is the share of the first item, divided by k to the power of the
// exponent.
func TestSharesFollowZipf(t *testing.T) {
	for text, exponent := range map[string]float64{"zipf:1.1": 1.1, "uniform": 0} {
		s := bench.NewSpread(1000, skew(t, text), 1)
		for _, k := range []int{2, 10, 1000} {
			if got, want := s.Share(0)/s.Share(k-1), math.Pow(float64(k), exponent); math.Abs(got/want-1) > 1e-6 {
				t.Errorf("%s: the first item is wanted %v times as often as item %d, want %v", text, got, k, want)
			}
		}
	}
}

// The spread depends only on its arguments, so a run can be repeated.
func TestSpreadDependsOnItsSeedAlone(t *testing.T) {
	of := func(seed uint64) (all []int) {
		s := bench.NewSpread(50, skew(t, "zipf:1.1"), seed)
		for i := range 1000 {
			all = append(all, s.Of(i))
		}
		return all
	}
	if !slices.Equal(of(7), of(7)) {
		t.Error("the same seed gives two spreads")
	}
	if slices.Equal(of(7), of(8)) {
		t.Error("two seeds give the same spread")
	}
}

func TestStockIsSharedEqually(t *testing.T) {
	for _, tt := range []struct {
		stock int64
		n     int
		want  []int64
	}{{10, 1, []int64{10}}, {10, 2, []int64{5, 5}}, {11, 4, []int64{3, 3, 3, 2}}, {4, 4, []int64{1, 1, 1, 1}}} {
		s := bench.NewSpread(tt.n, bench.Skew{}, 1)
		var got []int64
		for i := range tt.n {
			got = append(got, s.Units(tt.stock, i))
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%d units of %d items: %v, want %v", tt.stock, tt.n, got, tt.want)
		}
	}
}
