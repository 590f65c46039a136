package redlock

import (
	"errors"
	"fmt"
)

// votes are the nodes' answers to one request. A node that failed has said
// neither yes nor no.
type votes struct {
	heard   []bool // by node
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

// close counts the nodes that were not heard as failed.
func (v *votes) close(err error) {
	for i, heard := range v.heard {
		if !heard {
			v.count(answer{i, false, err})
		}
	}
}

// majority is more than half: any two of them have a node in common.
func (v votes) majority() int { return len(v.heard)/2 + 1 }

// open is the number of nodes not heard yet.
func (v votes) open() int { return len(v.heard) - v.yes - v.no - len(v.errs) }

// won says that a majority said yes.
func (v votes) won() bool { return v.yes >= v.majority() }

// gone says that so many said no that the others are no majority.
func (v votes) gone() bool { return len(v.heard)-v.no < v.majority() }

// answered says that a majority said something.
func (v votes) answered() bool { return v.yes+v.no >= v.majority() }

// decided says that no further answer changes what TryLock returns.
func (v votes) decided() bool {
	hopeless := v.yes+v.open() < v.majority()
	return v.won() || hopeless && v.answered() || v.yes+v.no+v.open() < v.majority()
}

// settled says the same of a claim that was had: whether it is there still.
func (v votes) settled() bool { return v.won() || v.gone() && v.answered() }

// noQuorum is the error of too few answers.
func (v votes) noQuorum() error {
	return fmt.Errorf("%w: %d of %d did: %w", ErrNoQuorum, v.yes+v.no, len(v.heard), errors.Join(v.errs...))
}
