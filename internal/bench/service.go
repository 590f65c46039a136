package bench

import (
	"time"

	"oversell/internal/catalog"
)

// Unserved says that nobody was served for longer than any fault of the bench explains,
// while buyers waited and units were left.
type Unserved struct {
	Since   time.Duration // when somebody was last served, like Live.Elapsed; 0: never
	At      time.Duration // when it had lasted too long
	Waiting int64         // buyers, when it was noticed
	Left    int64         // units that nobody has been seen to get
}

// service follows whether somebody is being served in a row.
type service struct {
	last   time.Duration // when somebody was last served
	sold   int64         // by the last audit
	broken *Unserved     // the first time
}

// patience is how long everybody may have to wait for one holder: for a fault of the bench, for
// the work itself, and for a stall.
// Before the first buyer is served, all requests have to arrive, which takes a busy machine
// longer: then it is the time after which the verdict is stuck.
func (c Config) patience(condition catalog.Condition, stalled time.Duration, first bool) time.Duration {
	patience := c.longest(condition) + c.Work + max(Tolerable(c.TTL), stalled)
	if first {
		return max(patience, c.stuckAfter())
	}
	return patience
}

// stuckAfter is how long nobody may hold the lock in the end before the verdict is stuck.
func (c Config) stuckAfter() time.Duration { return c.Wait / 2 }

// see looks at a row, and returns the first time that nobody was served for longer than
// patience, or nil. A buyer is served when the reply arrives; when an audit finds more sold,
// somebody was served too.
func (s *service) see(now Live, stock int64, patience func(first bool) time.Duration) *Unserved {
	s.last = max(s.last, now.ServedAt)
	if now.Stock.Sold > s.sold {
		s.last, s.sold = max(s.last, now.Audited), now.Stock.Sold
	}
	// A buyer who was served has a unit, also if the audits fail or the order is not written yet.
	left, end := stock-max(s.sold, now.Served), s.last+patience(s.last == 0)
	if s.broken == nil && now.Waiting > 0 && left > 0 && now.Elapsed > end {
		s.broken = &Unserved{Since: s.last, At: end, Waiting: now.Waiting, Left: left}
	}
	return s.broken
}
