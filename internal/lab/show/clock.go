package show

import (
	"math"
	"strconv"
)

// A timeline of at least longRun milliseconds is shown in seconds.
const longRun = 10_000

// clock formats the moments of one timeline, all in one unit.
type clock struct {
	unit     string
	factor   float64
	decimals int
}

// newClock chooses the unit by the last moment, and uses decimals only where
// needed: in virtual time, moments are whole milliseconds.
func newClock(moments []float64) clock {
	c := clock{unit: "ms", factor: 1}
	for _, m := range moments {
		if m >= longRun {
			return clock{unit: "s", factor: 1000, decimals: 3}
		}
		if math.Abs(m-math.Round(m)) > 0.02 {
			c.decimals = 1
		}
	}
	return c
}

func (c clock) format(ms float64) string {
	return strconv.FormatFloat(ms/c.factor, 'f', c.decimals, 64)
}
