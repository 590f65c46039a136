package figures

import (
	"math"
	"slices"
)

// confidence is the confidence of intervals from at least six runs.
const confidence = 0.95

// Estimate is an estimate of a figure from several runs: their median, and an interval that
// contains the true median with a probability of at least Confidence(Runs).
type Estimate struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	Runs   int     `json:"-"`
}

// MedianOf estimates a figure from its values in at least one run. The interval reaches from the
// k-th smallest value to the k-th largest, where k is rank(n). It assumes nothing about the
// distribution, only that runs are independent.
func MedianOf(values []float64) Estimate {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	k := rank(n)
	middle := sorted[n/2]
	if n%2 == 0 {
		middle = sorted[n/2-1]/2 + sorted[n/2]/2 // the sum of both may be too large
	}
	return Estimate{Median: middle, Low: sorted[k-1], High: sorted[n-k], Runs: n}
}

// Confidence returns the probability that the interval of n runs contains the true median.
//
// Whether a run is above or below the true median is like a coin toss. The interval from the k-th
// smallest to the k-th largest value misses the median if fewer than k runs are on one side of it,
// and so contains it with the probability
//
//	1 − 2·Σ C(n,i)/2ⁿ, i from 0 to k−1
//
// See H. A. David, H. N. Nagaraja, Order Statistics, 3rd ed., 2003, section 7.1.
func Confidence(n int) float64 {
	misses := 0.0
	for i := range rank(n) {
		misses += heads(i, n)
	}
	return 1 - 2*misses
}

// rank returns the largest k for which the interval of n runs reaches the confidence. For fewer
// than six runs there is no such k, and rank returns 1, the rank of the interval from the smallest
// value to the largest.
func rank(n int) int {
	k, outside := 1, heads(0, n)
	for k < (n+1)/2 {
		if outside += heads(k, n); 2*outside > 1-confidence {
			break
		}
		k++
	}
	return k
}

// heads returns the probability of k heads in n coin tosses.
func heads(k, n int) float64 { return math.Exp(choose(n, k) - float64(n)*math.Ln2) }

// choose returns the logarithm of the number of ways to choose k of n.
func choose(n, k int) float64 {
	log := func(n int) float64 {
		v, _ := math.Lgamma(float64(n) + 1) // the argument is positive
		return v
	}
	return log(n) - log(k) - log(n-k)
}

// Difference compares two estimates.
type Difference int

// The differences.
const (
	None    Difference = iota // the intervals overlap
	Unclear                   // they do not overlap, but after so few runs this may be chance
	Clear                     // they do not overlap
)

// Differs compares two estimates of one figure.
func (e Estimate) Differs(f Estimate) Difference {
	switch {
	case e.Low <= f.High && f.Low <= e.High:
		return None
	case apart(e.Runs, f.Runs) > 1-confidence:
		return Unclear
	}
	return Clear
}

// apart returns the probability that the intervals of n and m runs do not overlap if all runs have
// the same distribution. All orders of the n+m values are equally likely. So apart sums the
// probabilities of the orders in which the upper end of one interval, the u-th of m values, comes
// before the lower end of the other, the l-th of n values, and doubles the sum:
//
//	2·Σ C(l−1+j,j)·C(n−l+m−j,m−j)/C(n+m,m), j from u to m
//
// With l = 1 and u = m it is the two-sided p of the Mann-Whitney U test for two samples
// that do not overlap, 2/C(n+m,m).
func apart(n, m int) float64 {
	l, u := rank(n), m+1-rank(m)
	sum := 0.0
	for j := u; j <= m; j++ {
		sum += math.Exp(choose(l-1+j, j) + choose(n-l+m-j, m-j) - choose(n+m, m))
	}
	return min(1, 2*sum)
}
