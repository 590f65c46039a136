package show

import (
	"math"
	"slices"

	"oversell/internal/lab"
)

// keyChanges are keys that have changed, with their state at one moment.
type keyChanges struct {
	at   float64
	keys []lab.Key
}

// then adds the changes of a later row. They replace older ones of the same
// keys.
func (c keyChanges) then(r row) keyChanges {
	all := slices.Clone(r.keys)
	for _, k := range c.keys {
		if !slices.ContainsFunc(all, func(later lab.Key) bool { return later.Name == k.Name }) {
			all = append(all, k.After(r.at-c.at))
		}
	}
	return keyChanges{r.at, all}
}

// tellRunOut adds to each row the keys that have expired since the previous row.
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

// lastSeen is the order of the last moment of a trace at which the state of Redis
// is known. After it, either commands were left out of the trace, or the trace
// ends.
func lastSeen(trace []lab.Event) int {
	if len(trace) == 0 || !trace[len(trace)-1].LeftOut {
		return math.MaxInt
	}
	for i, e := range slices.Backward(trace) {
		if e.Kind == lab.Command {
			return 2 * i
		}
	}
	return -1
}
