package bench

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"oversell/internal/catalog"
	"oversell/internal/fleet"
	"oversell/internal/web"
)

// The seams of a sale's critical section.
const (
	seamWork   fleet.Seam = "work"   // the holder has read the stock, but not written it yet
	seamUnlock fleet.Seam = "unlock" // the holder has written the stock, but not unlocked yet
)

// plan says what the holders in an instance do during one row. It applies in the work step of a sale
// and nowhere else: lock code does not know about it.
type plan struct {
	// Item is the item that is sold, or its key in the cache. If there are several items, it is the
	// first one, whose holders get the fault.
	Item  string        `json:"item"`
	Work  time.Duration `json:"work"`           // how long every holder works
	Fault fleet.Arm     `json:"fault,omitzero"` // at the seams of the item's holders

	// Gather is the time that the first holder of the instance works, so that waiters gather. Holders
	// that enter in the meantime work until the same moment.
	Gather time.Duration `json:"gather"`
}

// coldLoad is the time that loading a cold key takes.
const coldLoad = 100 * time.Millisecond

// plan returns the plan for a row on an item. The fault is injected early in the sale, but not
// before all instances take part in it.
func (c Config) plan(item string, condition catalog.Condition) plan {
	p := plan{Item: item, Work: c.Work}
	if c.Workload == catalog.Cache {
		p.Item = web.ItemKey(item)
		p.Gather = coldLoad
	}
	switch condition {
	case catalog.Slow:
		p.Fault = c.early(seamWork)
		p.Fault.Delay = c.long()
	case catalog.Late:
		p.Fault = c.early(seamUnlock)
		p.Fault.Delay = c.long()
	case catalog.Crash:
		if c.atSeams(condition) {
			if slices.Contains(c.Seams, SeamScript) {
				p.Fault.At = []fleet.Seam{SeamScript}
			}
			break
		}
		p.Fault = c.early(seamWork)
	case catalog.Pause, catalog.Partition, catalog.Failover:
		p.Fault = c.early(seamWork)
	}
	return p
}

// early returns a fault at a seam for one of the first holders of each instance.
func (c Config) early(at fleet.Seam) fleet.Arm {
	return fleet.Arm{At: []fleet.Seam{at}, Skip: int(max(1, c.firstTurns()/int64(4*c.shops()))) - 1}
}

// long returns a time that exceeds the ttl by enough for others to enter, but not by so much that they
// buy the whole stock. It allows for servers that end leases late.
func (c Config) long() time.Duration {
	if c.Workload == catalog.Hold { // also longer than a sweep may take to find that a hold has expired
		return c.TTL * 14 / 10
	}
	return c.TTL*13/10 + c.slack
}

// overtaken reports whether a fault of the condition lasts until another holder has read the stock.
func overtaken(condition catalog.Condition) bool {
	return condition == catalog.Pause || condition == catalog.Partition
}

// longest returns the longest time that a fault of the condition lasts: one that lets another holder
// overtake waits for it.
func (c Config) longest(condition catalog.Condition) time.Duration {
	if overtaken(condition) {
		return c.long() + c.TTL*7/10
	}
	return c.long()
}

// linger returns how long holders that entered while another was late stay inside after its unlock:
// long enough for the next one to enter, if it can, but not so long that their own lease expires. It
// must be longer than a tolerable stall, and so must the time between the end of the late holder's
// lease and its unlock.
func (c Config) linger() time.Duration { return c.TTL * 3 / 10 }

// delay returns how long the condition keeps an instance from selling.
func (c Config) delay(condition catalog.Condition) time.Duration {
	switch condition {
	case catalog.Calm, catalog.Crash:
		return 0
	case catalog.Failover:
		return failoverTime
	}
	return c.longest(condition) + c.linger()
}

// worker does the work of an instance's holders according to the plan, and counts them in the gauge. It
// is safe for concurrent use.
type worker struct {
	seams *fleet.Seams
	gauge *fleet.Words // or nil

	mu    sync.Mutex
	plan  plan
	begun bool      // a holder has entered
	until time.Time // no holder leaves before this time
}

// follow begins a row with its plan.
func (w *worker) follow(p plan) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.plan, w.begun, w.until = p, false, time.Time{}
	w.seams.Set(p.Fault)
	if w.gauge != nil {
		for word := range gaugeWords {
			w.gauge.Store(word, 0)
		}
	}
}

// count is the Inside of a stock.Config. Holders that are left over from an earlier row do not count.
func (w *worker) count(item string, step int) {
	if step > 0 {
		w.add(item, gaugeCame)
	} else {
		w.add(item, gaugeWent)
	}
}

// add adds one to a word of the gauge, for the plan's item.
func (w *worker) add(item string, word int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gauge != nil && item == w.plan.Item {
		w.gauge.Add(word, 1)
	}
}

// held records how long a connection to the database was out of the pool.
func (w *worker) held(d time.Duration) { w.gauge.Add(gaugeHeld, int64(d)) }

// stay keeps holders that enter from now on inside until the given time, so that they are at work
// when a late holder unlocks. If the late unlock deletes their lock, the next holder enters and
// reads the stock that they are about to change.
func (w *worker) stay(until time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keep(until)
}

// keep postpones the time before which no holder leaves. The caller must hold mu.
func (w *worker) keep(until time.Time) {
	if until.After(w.until) {
		w.until = until
	}
}

// begin returns the plan, and how long a holder that enters now should work.
func (w *worker) begin() (plan, time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.begun {
		w.begun = true
		w.keep(time.Now().Add(w.plan.Gather))
	}
	return w.plan, max(w.plan.Work, time.Until(w.until))
}

// work implements stock.Work. A holder that is held up is not interrupted when it loses its lock.
// It gets the loss as an error before it writes, unless it was parked by the bench: then it goes on
// as if it still held the lock.
func (w *worker) work(ctx context.Context, item string) (after func(), err error) {
	w.add(item, gaugeWork)
	p, work := w.begin()
	spend(work)
	if item != p.Item {
		return nil, context.Cause(ctx)
	}
	held := context.WithoutCancel(ctx)
	after = func() { w.seams.Reach(held, seamUnlock) }
	if w.seams.Reach(held, seamWork) {
		return after, nil
	}
	return after, context.Cause(ctx)
}

// spend waits for the time d. A sleep of less than a millisecond takes a millisecond or more, so for a
// short time spend reads the clock in a loop and yields the processor each time.
func spend(d time.Duration) {
	if d >= time.Millisecond {
		time.Sleep(d)
		return
	}
	for end := time.Now().Add(d); time.Now().Before(end); {
		runtime.Gosched()
	}
}
