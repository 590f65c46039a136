package lockbench_test

import (
	"math"
	"testing"

	"oversell/internal/bench/lockbench"
)

func TestJain(t *testing.T) {
	for name, test := range map[string]struct {
		given []int
		want  float64
	}{
		"all the same":         {[]int{7, 7, 7, 7}, 1},
		"one has it all":       {[]int{0, 9, 0, 0}, 1.0 / 4},
		"half have it all":     {[]int{5, 5, 0, 0}, 1.0 / 2},
		"one to three":         {[]int{1, 3}, 16.0 / 20},
		"one alone":            {[]int{3}, 1},
		"nothing to give":      {[]int{0, 0}, 0},
		"nobody to give it to": {nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := lockbench.Jain(test.given); math.Abs(got-test.want) > 1e-12 {
				t.Errorf("Jain(%v) = %v, want %v", test.given, got, test.want)
			}
		})
	}
}
