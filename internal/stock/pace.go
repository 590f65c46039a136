package stock

import (
	"sync/atomic"
	"time"
)

// pace limits how many orders are written in one statement, by how long the last
// statement took: the slower the database, the fewer orders, so that a statement ends
// well before its timeout. It is safe for concurrent use.
type pace struct {
	most int64
	next atomic.Int64
}

const (
	// paceTarget is how long a statement should take at most.
	paceTarget = dbTimeout / 10
	// paceStart is how many orders the first statement has at most.
	paceStart = 32
)

func newPace(most int) *pace {
	p := &pace{most: int64(most)}
	p.next.Store(min(int64(most), paceStart))
	return p
}

// size is how many orders the next statement may have.
func (p *pace) size() int { return int(p.next.Load()) }

// wrote records how long it took to write n orders. The size doubles as long as that
// fits the target, and is cut down to what fits otherwise.
func (p *pace) wrote(n int, took time.Duration) {
	if n == 0 {
		return
	}
	fits := p.most
	if perOrder := int64(took) / int64(n); perOrder > 0 {
		fits = int64(paceTarget) / perOrder
	}
	p.next.Store(max(1, min(p.most, fits, 2*max(p.next.Load(), int64(n)))))
}
