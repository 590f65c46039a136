package search

import (
	"fmt"
	"strings"
)

// Faults is how many of each may happen in a schedule. Time may pass as often as there is
// something to wait for.
type Faults struct {
	Freezes int `json:"freezes"` // a process stops, and goes on later or not
	Kills   int `json:"kills"`   // a process dies
	Losses  int `json:"losses"`  // Redis executes a command, and the connection breaks in place of the reply
}

// OneOfEach is the budget of the table.
var OneOfEach = Faults{1, 1, 1}

// String names the faults.
func (f Faults) String() string {
	var words []string
	for _, w := range []struct {
		n    int
		word string
	}{{f.Freezes, "freeze"}, {f.Kills, "kill"}, {f.Losses, "lost reply"}} {
		if w.n > 0 {
			words = append(words, fmt.Sprintf("%d %s", w.n, w.word))
		}
	}
	if len(words) == 0 {
		return "no fault"
	}
	return strings.Join(words, ", ")
}
