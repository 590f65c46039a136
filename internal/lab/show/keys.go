package show

import (
	"math"
	"slices"

	"oversell/internal/lab"
)

// noKey is the type of a key that is not there any more.
const noKey = "none"

// keyChanges are keys that have changed, as they are at a moment.
type keyChanges struct {
	at   float64
	keys []lab.Key
}

// then adds the changes of a later row.
func (c keyChanges) then(r row) keyChanges {
	all := slices.Clone(r.keys)
	for _, k := range c.keys {
		if !slices.ContainsFunc(all, func(later lab.Key) bool { return later.Name == k.Name }) {
			all = append(all, aged(k, r.at-c.at))
		}
	}
	return keyChanges{r.at, all}
}

// aged is a key after some time in which only its ttl went on.
func aged(k lab.Key, passed float64) lab.Key {
	if k.TTL == nil {
		return k
	}
	left := *k.TTL - passed
	if left <= 0 {
		return lab.Key{Name: k.Name, Type: noKey}
	}
	k.TTL = &left
	return k
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
