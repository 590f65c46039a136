package bench

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
	"strconv"
	"strings"
)

// maxItems is the maximum number of items of a run.
const maxItems = 10_000

// The forms of a skew.
const (
	uniform     = "uniform"
	zipf        = "zipf"
	maxExponent = 10
)

// Skew says how unequal the demand for the items is. The zero Skew is uniform: every item is
// equally likely. If it has an exponent s, the demand for the k-th item is proportional to 1/k^s
// (Zipf).
type Skew struct{ exponent float64 }

// ParseSkew parses uniform or zipf:S, with an exponent S over 0 and up to 10. Its error says in one
// line what is allowed.
func ParseSkew(text string) (Skew, error) {
	if text == uniform {
		return Skew{}, nil
	}
	name, number, _ := strings.Cut(text, ":")
	s, err := strconv.ParseFloat(number, 64)
	if name != zipf || err != nil || !(s > 0 && s <= maxExponent) {
		return Skew{}, fmt.Errorf("%q is not a skew (allowed: %s, and %s:S with an exponent S over 0 and up to %d, "+
			"such as %s:1.1)", text, uniform, zipf, maxExponent, zipf)
	}
	return Skew{s}, nil
}

// String returns the skew in the form that ParseSkew reads.
func (s Skew) String() string {
	if s.exponent == 0 {
		return uniform
	}
	return zipf + ":" + strconv.FormatFloat(s.exponent, 'g', -1, 64)
}

// Spread says which item each buyer wants. Calls to NewSpread with the same arguments return the
// same spread. It is safe for concurrent use.
type Spread struct {
	seed uint64
	upTo []float64 // cumulative probability, by item
}

// NewSpread returns a spread over n items, of which there must be at least one.
func NewSpread(n int, skew Skew, seed uint64) *Spread {
	s := &Spread{seed: seed, upTo: make([]float64, n)}
	// math/rand/v2 has a Zipf too, but only for exponents over 1.
	sum := 0.0
	for i := range s.upTo {
		sum += math.Pow(float64(i+1), -skew.exponent)
		s.upTo[i] = sum
	}
	for i := range s.upTo {
		s.upTo[i] /= sum
	}
	return s
}

// Of returns the item that a buyer wants, from 0. The draw depends only on the seed and the buyer's
// number, so no state has to be kept.
func (s *Spread) Of(buyer int) int {
	if len(s.upTo) == 1 {
		return 0
	}
	draw := rand.New(rand.NewPCG(s.seed, uint64(buyer))).Float64()
	return min(sort.SearchFloat64s(s.upTo, math.Nextafter(draw, 1)), len(s.upTo)-1)
}

// Share returns the probability that a buyer wants an item.
func (s *Spread) Share(item int) float64 {
	if item == 0 {
		return s.upTo[0]
	}
	return s.upTo[item] - s.upTo[item-1]
}

// Units returns an item's share of the stock. All items get the same number of units; the units
// that remain go to the first items, one each.
func (s *Spread) Units(stock int64, item int) int64 {
	n := int64(len(s.upTo))
	units := stock / n
	if int64(item) < stock%n {
		units++
	}
	return units
}
