package bench

import (
	"context"
	"sync"
	"time"

	"oversell/internal/catalog"
	"oversell/internal/figures"
	"oversell/internal/guard"
)

// Watcher is a Progress that follows a row of one item while it runs. The bench then audits the
// item repeatedly. The audits may let a shop notice a little earlier that the item is sold
// out.
type Watcher interface {
	Progress
	// Watch is called when the requests of a row are about to be sent, with a function that returns
	// the state of the row. The function may be called at any time and concurrently, even after the
	// row.
	Watch(look func() Live)
}

// Live is the state of a row in progress.
type Live struct {
	Elapsed time.Duration // since the common start; 0 before
	Waiting int64         // missing outcomes

	Served, SoldOut, Failed, Unknown int64 // outcomes

	// Holders is the number of holders at this moment, including those of a stopped
	// process but not of a killed one; -1: unknown, as for a finished row, for the cache,
	// and for running shops.
	Holders int64

	// MaxHolders is the largest number of holders at once, as known from the replies up to the last
	// audit, or from the gauges, which are read every millisecond.
	MaxHolders int

	// Stock is the last audit, which does not read stock and orders at the same moment. Audited is
	// the time of the audit, measured like Elapsed; 0: there was no audit yet.
	Stock   figures.Stock
	Audited time.Duration

	ServedAt time.Duration // when the last buyer was served, like Elapsed; 0: no buyer was served yet
	Unserved *Unserved     // set once no buyer has been served for too long; nil: that has not happened
	Faults   []Fault       // that were injected so far
}

const (
	lookPause   = 100 * time.Millisecond // between two audits
	glancePause = time.Millisecond       // between two readings of the gauges
	lookTimeout = time.Second
)

// watch audits a row while it runs.
type watch struct {
	run  *run
	load *stream

	over  context.CancelFunc // no audit begins after it was called
	ended sync.WaitGroup

	mu    sync.Mutex
	tally *tally // nil before the start
	last  Live
	looks int64 // successful audits

	service service
	during  bool // the requests are in flight, so that the fleet does not change
}

// watched returns the watch of a row, or nil if there is no watcher.
func (r *run) watched(l *stream) *watch {
	watcher, ok := r.progress.(Watcher)
	if !ok {
		return nil
	}
	w := &watch{run: r, load: l}
	watcher.Watch(w.live)
	return w
}

// start begins the audits, which go on until stop is called or ctx ends. A nil
// watch does nothing.
func (w *watch) start(ctx context.Context, t *tally) {
	if w == nil {
		return
	}
	w.mu.Lock()
	w.tally, w.during = t, true
	w.mu.Unlock()
	var going context.Context
	going, w.over = context.WithCancel(ctx)
	w.ended.Go(func() {
		for ok := true; ok; ok = guard.Sleep(going, lookPause) == nil {
			w.look(ctx)
		}
	})
	if w.gauged() {
		w.ended.Go(func() {
			// Looks are cheap, and two holders may overlap only briefly.
			for ok := true; ok; ok = guard.Sleep(going, glancePause) == nil {
				w.mu.Lock()
				w.holders()
				w.mu.Unlock()
			}
		})
	}
}

// look makes one audit. It ignores an error: the shop may be down because of a fault.
func (w *watch) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	at := w.tally.elapsed()
	found, err := w.run.admin.at(w.run.survivor()).audit(ctx, w.run.skus[0])
	if err != nil {
		return
	}
	holders := w.tally.mostHolders()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looks++
	w.last.MaxHolders, w.last.Stock, w.last.Audited = max(w.last.MaxHolders, holders), found.Stock, max(at, 1)
}

// stop ends the audits, and waits for the last one, so that it counts.
func (w *watch) stop() {
	if w == nil {
		return
	}
	w.over()
	w.ended.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.during = false // the fleet may change
}

// audits returns the number of successful audits.
func (w *watch) audits() int64 {
	if w == nil {
		return 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.looks
}

func (w *watch) live() Live {
	w.mu.Lock()
	defer w.mu.Unlock()
	holders := w.holders()
	now := w.last
	now.Holders = holders
	now.Waiting = w.load.awaited()
	if w.tally == nil {
		return now
	}
	now.Faults = w.run.faults.after(w.tally.tell(&now))
	if w.during && w.run.cfg.Workload == catalog.Deduct {
		stalled := w.run.stalled()
		w.service.see(now, w.run.cfg.Stock, func(first bool) time.Duration {
			return w.run.cfg.patience(w.run.cond, stalled, first)
		})
	}
	now.Unserved = w.service.broken
	return now
}

// gauged reports whether the shops have gauges that count the holders of the row's item.
func (w *watch) gauged() bool { return w.run.shops.gauged && w.run.cfg.Workload == catalog.Deduct }

// holders returns the number of holders at this moment, or -1. The caller must hold mu.
func (w *watch) holders() int64 {
	if !w.during || !w.gauged() {
		return -1
	}
	n, ok := w.run.shops.inside()
	if !ok {
		return -1
	}
	w.last.MaxHolders = max(w.last.MaxHolders, int(n))
	return n
}

// Unserved says that buyers waited and units were left, but no buyer was served for longer than a
// fault of the bench can explain.
type Unserved struct {
	Since   time.Duration // when a buyer was last served, like Live.Elapsed; 0: never
	At      time.Duration // when the time since then became too long
	Waiting int64         // buyers that waited when this was noticed
	Left    int64         // units that were not known to be sold
}

// service follows whether buyers are being served in a row.
type service struct {
	last   time.Duration // when a buyer was last served
	sold   int64         // units sold, by the last audit
	broken *Unserved     // the first time that no buyer was served for too long; nil: never
}

// patience returns how long one holder may keep all others waiting because of a fault of the bench,
// its own work, and a stall. If no buyer has been served yet (first), the result is at least
// stuckAfter: all requests have to arrive first, which takes longer on a busy machine.
func (c Config) patience(condition catalog.Condition, stalled time.Duration, first bool) time.Duration {
	patience := c.longest(condition) + c.Work + max(Tolerable(c.TTL), stalled)
	if first {
		return max(patience, c.stuckAfter())
	}
	return patience
}

// stuckAfter returns how long the lock must be free at the end of a row for the verdict to be
// stuck.
func (c Config) stuckAfter() time.Duration { return c.Wait / 2 }

// see takes the state of a row, and returns the first time that no buyer was served for longer than
// patience, or nil. A buyer was served if a reply has arrived, or an audit finds more units sold.
func (s *service) see(now Live, stock int64, patience func(first bool) time.Duration) *Unserved {
	s.last = max(s.last, now.ServedAt)
	if now.Stock.Sold > s.sold {
		s.last, s.sold = max(s.last, now.Audited), now.Stock.Sold
	}
	// A buyer who was served has a unit, even if audits fail or the order is not written yet.
	left, end := stock-max(s.sold, now.Served), s.last+patience(s.last == 0)
	if s.broken == nil && now.Waiting > 0 && left > 0 && now.Elapsed > end {
		s.broken = &Unserved{Since: s.last, At: end, Waiting: now.Waiting, Left: left}
	}
	return s.broken
}
