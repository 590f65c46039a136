package search

import (
	"slices"

	"oversell/internal/lab"
)

// add adds what a move from a vertex has led to. It reports whether that is new.
func (x *explorer) add(from int, st step) (v int, fresh bool) {
	m := st.moves[0]
	for _, f := range []struct {
		goal  Goal
		found bool
	}{{Oversell, st.found.oversell}, {Overlap, st.found.overlap}, {ForeignDelete, st.found.foreign}, {SelfWait, st.found.selfWait}} {
		if _, ok := x.out.Breaks[f.goal]; f.found && !ok {
			x.out.Breaks[f.goal] = lab.MovesText(append(x.path(x.graph[from]), m))
		}
	}
	v, ok := x.seen[identity{sum: st.id.sum}] // from there everything is tried
	if !ok {
		v, ok = x.seen[st.id]
	}
	if !ok {
		v = x.vertex(st.s, from, st.moves)
		x.seen[st.id] = v
		x.graph[v].timed = m.Action == lab.Pass
	}
	if m.Action == lab.Step || m.Action == lab.Thaw || m.Action == lab.Pass {
		x.graph[from].next = append(x.graph[from].next, v)
	}
	return v, !ok
}

// path are the moves that lead to a vertex. Times that pass one after the other are one
// move.
func (x *explorer) path(v vertex) (moves []lab.Move) {
	for ; v.from >= 0; v = x.graph[v.from] {
		moves = append(moves, v.moves...)
	}
	slices.Reverse(moves)
	return moves
}

// findStuck finds the first state from which somebody who lives is never served, whatever
// happens, unless there is another fault.
func (x *explorer) findStuck() {
	before := make([][]int, len(x.graph))
	var open []int
	good := make([]bool, len(x.graph))
	for i, v := range x.graph {
		for _, n := range v.next {
			before[n] = append(before[n], i)
		}
		if v.done {
			good[i], open = true, append(open, i)
		}
	}
	for len(open) > 0 {
		last := open[len(open)-1]
		open = open[:len(open)-1]
		for _, i := range before[last] {
			if !good[i] {
				good[i], open = true, append(open, i)
			}
		}
	}
	if i := slices.Index(good, false); i >= 0 {
		x.out.Breaks[Stuck] = lab.MovesText(x.path(x.graph[i]))
	}
}
