package redlock

import (
	"errors"
	"fmt"
)

// votes holds the nodes' answers to one request. A node that failed counts neither as yes nor as no.
type votes struct {
	heard   []bool // by node; true if the node has answered or failed
	yes, no int
	errs    []error
}

func (v *votes) count(a answer) {
	v.heard[a.node] = true
	switch {
	case a.err != nil:
		v.errs = append(v.errs, fmt.Errorf("node %d: %w", a.node, a.err))
	case a.yes:
		v.yes++
	default:
		v.no++
	}
}

// close counts the nodes that have not answered as failed.
func (v *votes) close(err error) {
	for i, heard := range v.heard {
		if !heard {
			v.count(answer{i, false, err})
		}
	}
}

// majority returns the smallest number of nodes that is more than half. Any two majorities have a
// node in common.
func (v votes) majority() int { return len(v.heard)/2 + 1 }

// open returns the number of nodes that have not answered yet.
func (v votes) open() int { return len(v.heard) - v.yes - v.no - len(v.errs) }

// won reports whether a majority said yes.
func (v votes) won() bool { return v.yes >= v.majority() }

// gone reports whether so many nodes said no that the remaining nodes cannot form a majority.
func (v votes) gone() bool { return len(v.heard)-v.no < v.majority() }

// answered reports whether a majority answered.
func (v votes) answered() bool { return v.yes+v.no >= v.majority() }

// decided reports whether no further answer can change TryLock's result.
func (v votes) decided() bool {
	hopeless := v.yes+v.open() < v.majority()
	return v.won() || hopeless && v.answered() || v.yes+v.no+v.open() < v.majority()
}

// settled reports whether the answers so far decide whether a hold still exists. Further answers cannot
// change that.
func (v votes) settled() bool { return v.won() || v.gone() && v.answered() }

// noQuorum returns an error that says how many nodes answered. It wraps ErrNoQuorum and the
// errors of the nodes.
func (v votes) noQuorum() error {
	return fmt.Errorf("%w: %d of %d did: %w", ErrNoQuorum, v.yes+v.no, len(v.heard), errors.Join(v.errs...))
}
