package bench_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"oversell/internal/bench"
	"oversell/internal/catalog"
)

// slots is the number of hash slots of a Redis cluster.
const slots = 16384

// slot returns the hash slot of a key's hash tag: its CRC-16 (XMODEM), modulo the number of slots.
func slot(tag string) int {
	crc := uint16(0)
	for _, b := range []byte(tag) {
		crc ^= uint16(b) << 8
		for range 8 {
			high := crc&0x8000 != 0
			crc <<= 1
			if high {
				crc ^= 0x1021
			}
		}
	}
	return int(crc) % slots
}

// shard returns the primary that has the slot, if each primary has an equal range of slots.
func shard(slot, primaries int) int { return slot * primaries / slots }

// busiest returns the share of the buyers that the busiest primary serves. The number of the sale
// is part of the names of the n items.
func busiest(s *bench.Spread, n, sale, primaries int) float64 {
	shares := make([]float64, primaries)
	for i := range n {
		shares[shard(slot(fmt.Sprintf("sale-%d-item-%d", sale, i)), primaries)] += s.Share(i)
	}
	return slices.Max(shares)
}

// An item is on the primary that has the slot of the item's name. With few items, or with a few
// that nearly all buyers want, one primary serves most buyers, no matter how many primaries there
// are. Each figure is the median of 101 sales, whose items have different names.
func ExampleSpread_shards() {
	fmt.Println("the busiest primary's share of the buyers")
	fmt.Println("items   skew      3 primaries  6 primaries")
	for _, skew := range []string{"uniform", "zipf:1.1", "zipf:1.5"} {
		how, err := bench.ParseSkew(skew)
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, n := range []int{1, 10, 100, 1000} {
			fmt.Printf("%5d   %-8s", n, skew)
			for _, primaries := range []int{3, 6} {
				shares := make([]float64, 101)
				for sale := range shares {
					shares[sale] = busiest(bench.NewSpread(n, how, 1), n, sale, primaries)
				}
				slices.Sort(shares)
				fmt.Printf("  %9.0f %%", 100*shares[len(shares)/2])
			}
			fmt.Println()
		}
	}
	// Output:
	// the busiest primary's share of the buyers
	// items   skew      3 primaries  6 primaries
	//     1   uniform         100 %        100 %
	//    10   uniform          50 %         30 %
	//   100   uniform          36 %         21 %
	//  1000   uniform          34 %         18 %
	//     1   zipf:1.1        100 %        100 %
	//    10   zipf:1.1         56 %         47 %
	//   100   zipf:1.1         48 %         36 %
	//  1000   zipf:1.1         45 %         31 %
	//     1   zipf:1.5        100 %        100 %
	//    10   zipf:1.5         63 %         56 %
	//   100   zipf:1.5         59 %         50 %
	//  1000   zipf:1.5         57 %         48 %
}

// turnedAway sells the units of an item that is split into segments to buyers who come one after
// the other. Each buyer asks the given number of segments, the first of which is random. It returns
// how many buyers are told "sold out" while another segment has units, and how many units are left
// at the end.
func turnedAway(units int64, segments, asked, buyers int, seed uint64) (falsely int, left int64) {
	s := bench.NewSpread(segments, bench.Skew{}, seed)
	stock := make([]int64, segments)
	for i := range stock {
		stock[i] = s.Units(units, i)
	}
	left = units
	for buyer := range buyers {
		first, sold := s.Of(buyer), false
		for i := 0; i < asked && !sold; i++ {
			if at := (first + i) % segments; stock[at] > 0 {
				stock[at]--
				left--
				sold = true
			}
		}
		if !sold && left > 0 {
			falsely++
		}
	}
	return falsely, left
}

// The fewer units a segment has, the further its number of buyers is from its share. Each figure is
// the median of 101 seeds.
func ExampleSpread_segments() {
	fmt.Println("1,000 units; buyers told \"sold out\" while units were left, and units left at the end")
	fmt.Println("segments  asked  1,000 buyers  1,100 buyers  2,000 buyers")
	for _, c := range []struct{ segments, asked int }{{1, 1}, {2, 1}, {4, 1}, {8, 1}, {16, 1}, {64, 1}, {16, 2},
		{16, 4}, {16, 16}} {
		fmt.Printf("%8d  %5d", c.segments, c.asked)
		for _, buyers := range []int{1000, 1100, 2000} {
			falsely, left := make([]int, 101), make([]int64, 101)
			for seed := range falsely {
				falsely[seed], left[seed] = turnedAway(1000, c.segments, c.asked, buyers, uint64(seed))
			}
			slices.Sort(falsely)
			slices.Sort(left)
			fmt.Printf("  %5d, %5d", falsely[50], left[50])
		}
		fmt.Println()
	}
	// Output:
	// 1,000 units; buyers told "sold out" while units were left, and units left at the end
	// segments  asked  1,000 buyers  1,100 buyers  2,000 buyers
	//        1      1      0,     0      0,     0      0,     0
	//        2      1      9,     9     20,     0     20,     0
	//        4      1     20,    20     64,     0     64,     0
	//        8      1     32,    32    104,     4    125,     0
	//       16      1     50,    50    115,    15    221,     0
	//       64      1     97,    97    159,    59    681,     0
	//       16      2     29,    29    101,     1    104,     0
	//       16      4     16,    16     44,     0     44,     0
	//       16     16      0,     0      0,     0      0,     0
}

// docs/results.md has an entry for every sql_ strategy in its section on Vitess and TiDB.
func TestGuideHasEverySQLStrategy(t *testing.T) {
	guide, err := os.ReadFile("../../docs/results.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range catalog.Strategies() {
		has := slices.ContainsFunc(strings.Split(string(guide), "\n"), func(line string) bool {
			return strings.HasPrefix(line, "| `"+s.Name+"` |") && strings.Count(line, "|") == 5
		})
		if strings.HasPrefix(s.Name, "sql_") && !has {
			t.Errorf("no row for %s, with its statements, Vitess and TiDB", s.Name)
		}
	}
}
