package stock

import (
	"sync/atomic"
	"time"
)

// pace bounds how many orders are written in one statement, by how long the last
// ones took: a database that has become slow is given fewer at a time, so that a
// statement ends well before it runs out of time. It is safe for concurrent use.
type pace struct {
	most int64
	next atomic.Int64
}

const (
	// paceTarget is how long a statement should take at most. It is a tenth of
	// the time that it has.
	paceTarget = dbTimeout / 10
	// paceStart is how many orders are written together before anything is known
	// of the database.
	paceStart = 32
)

func newPace(most int) *pace {
	p := &pace{most: int64(most)}
	p.next.Store(min(int64(most), paceStart))
	return p
}

// size is how many may be written together now.
func (p *pace) size() int { return int(p.next.Load()) }

// wrote tells how long it took to write n orders. Where there was room it doubles
// what may be written together, and otherwise fits it to the target.
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
