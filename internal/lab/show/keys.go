package show

import (
	"math"
	"slices"

	"oversell/internal/lab"
)

// keyChanges are keys that have changed, as they are at a moment.
type keyChanges struct {
	at   float64
	keys []lab.Key
}

// then puts the changes of a later row before them.
func (c keyChanges) then(r row) keyChanges {
	all := slices.Clone(r.keys)
	for _, k := range c.keys {
		if !slices.ContainsFunc(all, func(later lab.Key) bool { return later.Name == k.Name }) {
			all = append(all, k.After(r.at-c.at))
		}
	}
	return keyChanges{r.at, all}
}

// tellRunOut adds to each row the keys whose ttls have run out since the row before it.
func tellRunOut(rows []row) {
	var known keyChanges
	for i, r := range rows {
		known = known.then(r)
		for _, k := range known.keys[len(r.keys):] {
			if k.Type == lab.Gone {
				rows[i].keys = append(rows[i].keys, k)
			}
		}
		known.keys = slices.DeleteFunc(known.keys, func(k lab.Key) bool { return k.Type == lab.Gone })
	}
}

// lastSeen is the order of the last moment of a trace at which what Redis has is
// known. From then on commands were left out of the trace, or else the trace ends.
func lastSeen(trace []lab.Event) int {
	if len(trace) == 0 || !trace[len(trace)-1].LeftOut() {
		return math.MaxInt
	}
	for i, e := range slices.Backward(trace) {
		if e.Kind == lab.Command {
			return 2 * i
		}
	}
	return -1
}
