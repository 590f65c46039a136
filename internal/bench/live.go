package bench

import (
	"context"
	"sync"
	"time"

	"oversell/internal/figures"
	"oversell/internal/locks"
	"oversell/internal/web"
)

// Watcher is what a Progress also is if it wants to see how a row goes while it is
// under way. For its sake the item is audited again and again. What that costs Redis
// is not counted for the row, but for audits that failed on the way, and a shop may
// learn a little sooner by it that nothing is left.
type Watcher interface {
	Progress
	// Watch gives a function that tells how the row is doing, when its requests are
	// about to be let go. It is safe to be called at any time and by anybody, after
	// the row as well.
	Watch(look func() Live)
}

// Live is how a row is doing: what is known of it so far.
type Live struct {
	Elapsed time.Duration // since the requests were let go; 0: they were not yet
	Waiting int64         // outcomes that are still awaited

	Served, SoldOut, Failed, Unknown int64 // outcomes

	// Holders is how many are inside at this moment, also in a process that is
	// stopped, but not in one that was killed; -1: that is not known, as of a row
	// that is over, of the cache, and of shops that run already.
	Holders int64

	// MaxHolders is the most holders that were inside at once: of those whose
	// requests had been answered at the last audit, or as they were seen inside,
	// which they are every millisecond.
	MaxHolders int

	// Stock is what the last audit found, in passing: the stock and the orders are
	// not read at one moment. Audited is when, as Elapsed is; 0: there was none yet.
	Stock   figures.Stock
	Audited time.Duration
}

const (
	lookPause   = 100 * time.Millisecond // between two audits of a row under way
	glancePause = time.Millisecond       // between two looks at who is inside
	lookTimeout = time.Second
)

// watch audits a row while it is under way.
type watch struct {
	run  *run
	load load

	// price is how many commands an audit costs Redis.
	price int64

	stopped chan struct{}
	ended   sync.WaitGroup

	mu     sync.Mutex
	tally  *tally // nil: the requests were not let go yet
	last   Live
	looks  int64 // audits that got through
	gauged bool  // the fleet has gauges that may be read
}

// watched returns the watch of a row, or nil if nobody looks. What an audit costs
// Redis it finds out while nobody buys, by a second one: before is replaced by that.
func (r *run) watched(ctx context.Context, l load, before *web.Audit) (*watch, error) {
	if r.watcher == nil {
		return nil, nil
	}
	again, err := r.admin.audit(ctx, r.targets[0], r.sku)
	if err != nil {
		return nil, err
	}
	w := &watch{run: r, load: l, price: again.RedisCommands - before.RedisCommands, stopped: make(chan struct{})}
	*before = again
	r.watcher.Watch(w.live)
	return w, nil
}

// start begins the audits, which go on until stop is called or ctx ends. A nil
// watch does nothing.
func (w *watch) start(ctx context.Context, t *tally) {
	if w == nil {
		return
	}
	w.mu.Lock()
	w.tally, w.gauged = t, w.run.fleet != nil && w.run.fleet.legible() && w.run.cfg.Workload == locks.Deduct
	gauged := w.gauged
	w.mu.Unlock()
	w.ended.Go(func() { w.every(ctx, lookPause, w.look) })
	if gauged {
		w.ended.Go(func() { w.every(ctx, glancePause, w.glance) })
	}
}

// every looks again and again, until the watch is stopped.
func (w *watch) every(ctx context.Context, pause time.Duration, look func(context.Context)) {
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for {
		look(ctx)
		select {
		case <-ticker.C:
		case <-w.stopped:
			return
		case <-ctx.Done():
			return
		}
	}
}

// look audits once. That it fails says nothing: a shop may be away on purpose.
func (w *watch) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	at := w.tally.elapsed()
	found, err := w.run.admin.audit(ctx, w.run.bystander(), w.run.sku)
	if err != nil {
		return
	}
	holders := w.tally.mostHolders()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looks++
	w.last.MaxHolders, w.last.Stock, w.last.Audited = max(w.last.MaxHolders, holders), found.Stock, max(at, 1)
}

// glance sees who is inside. What that costs is next to nothing, and two may be
// inside together for moments only.
func (w *watch) glance(context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.holders()
}

// stop ends the audits, and waits for one that is under way: what it costs is to
// be known.
func (w *watch) stop() {
	if w == nil {
		return
	}
	close(w.stopped)
	w.ended.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gauged = false // the fleet may change
}

// cost is how many of the commands that Redis has counted were the watch's.
func (w *watch) cost() int64 {
	if w == nil {
		return 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.looks * w.price
}

func (w *watch) live() Live {
	w.mu.Lock()
	holders := w.holders()
	now, t := w.last, w.tally
	w.mu.Unlock()
	now.Holders = holders
	now.Waiting = w.load.awaited()
	if t != nil {
		t.tell(&now)
	}
	return now
}

// holders is how many are inside at this moment, or -1. The caller has locked mu.
func (w *watch) holders() int64 {
	if !w.gauged {
		return -1
	}
	n, ok := w.run.fleet.inside()
	if !ok {
		return -1
	}
	w.last.MaxHolders = max(w.last.MaxHolders, int(n))
	return n
}

// bystander is the address of a shop that nothing has been done to in this row.
func (r *run) bystander() string {
	if r.fleet != nil {
		for _, i := range r.fleet.members {
			if i.alive() && !i.paused.Load() && !i.cut.Load() {
				return i.url
			}
		}
	}
	return r.survivor()
}
