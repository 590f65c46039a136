package bench

import (
	"cmp"
	"context"
	"runtime"
	"sync"
	"time"

	"oversell/internal/backend/lockservers"
	"oversell/internal/locks"
)

// plan is what the holders in an instance do during one row. It takes hold in
// the work step of the domain and nowhere else: lock code knows nothing of it.
type plan struct {
	Item      string          `json:"item"` // that is sold
	Condition locks.Condition `json:"condition"`
	At        int             `json:"at"`   // which hold of the instance the condition befalls, from 1
	Work      time.Duration   `json:"work"` // how long every holder works
	Long      time.Duration   `json:"long"` // how long a slow or late holder takes: more than the ttl

	// Gather is how long the first holder of the instance works, and those
	// who come in meanwhile, so that a crowd gathers.
	Gather time.Duration `json:"gather"`
}

// coldLoad is what loading a cold key takes.
const coldLoad = 100 * time.Millisecond

// plan returns what the holders do in a row on an item under the condition. It
// befalls a hold early in the sale, but when all instances take part in it.
func (c Config) plan(item string, condition locks.Condition) plan {
	p := plan{
		Item: item, Condition: condition, Work: c.Work, Long: c.long(),
		At: int(max(1, c.turns()/int64(4*c.shops()))),
	}
	if c.Workload == locks.Cache {
		p.Gather = coldLoad
	}
	return p
}

// long is over the ttl by enough for others to come in meanwhile, and by not so
// much that they buy all there is. Who gives the leases may be late to end them.
func (c Config) long() time.Duration { return c.TTL*13/10 + c.slack }

// on is the config of a row whose leases are given on the terms.
func (c Config) on(t lockservers.Terms) Config {
	c.TTL, c.slack = t.Lease(cmp.Or(c.TTL, DefaultTTL)), t.Slack
	return c
}

// linger is for how long those who come in while a holder is late stay, once it
// has let go: long enough for the next one to come in, if it can, and not so long
// that they overstay their own lease. Their stay begins when the late one's lease
// ends; it must bear a stall that is tolerable, and so must the gap before it.
func (c Config) linger() time.Duration { return c.TTL * 3 / 10 }

// delay is for how long the condition keeps an instance from selling.
func (c Config) delay(condition locks.Condition) time.Duration {
	switch condition {
	case locks.Calm, locks.Crash:
		return 0
	case locks.Failover:
		return failoverTime
	}
	return c.long() + c.linger()
}

// worker does the work of an instance's holders by the plan of the row. It is
// safe for concurrent use.
type worker struct {
	// park is called by the holder whom the process is to be struck with. It
	// says so to the bench, and returns when the bench lets it go on.
	park func()
	// struck is called by a slow or late holder. It tells the bench until when.
	struck func(until time.Time)

	mu    sync.Mutex
	plan  plan
	begun bool      // somebody has come in
	holds int       // those whom the condition may befall
	until time.Time // nobody leaves before
}

// follow begins a row.
func (w *worker) follow(p plan) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.plan, w.begun, w.holds, w.until = p, false, 0, time.Time{}
}

// stay keeps those who come in from now on inside until then, so that they are
// at work when a late holder lets go. If it deletes their lock instead of its
// own, the next one comes in and reads what they are about to change.
func (w *worker) stay(until time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keep(until)
}

// keep moves the time before which nobody leaves. The caller has locked mu.
func (w *worker) keep(until time.Time) {
	if until.After(w.until) {
		w.until = until
	}
}

// begin returns the plan and how long a hold that begins now works.
func (w *worker) begin() (plan, time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.begun {
		w.begun = true
		w.keep(time.Now().Add(w.plan.Gather))
	}
	return w.plan, max(w.plan.Work, time.Until(w.until))
}

// befallen counts a hold and reports whether the condition befalls it.
func (w *worker) befallen() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.holds++
	return w.holds == w.plan.At
}

// work implements stock.Work. A slow holder is not cut short when it is told
// that its lock is lost, but it learns of it before it writes. For the late one
// only those count who did write: an optimistic holder may fail to.
func (w *worker) work(ctx context.Context, _ string) (after func(), err error) {
	p, work := w.begin()
	spend(work)
	if p.Condition == locks.Late {
		after = func() {
			if w.befallen() {
				w.takeLong(p)
			}
		}
		return after, context.Cause(ctx)
	}
	if !w.befallen() {
		return nil, context.Cause(ctx)
	}
	switch p.Condition {
	case locks.Slow:
		w.takeLong(p)
	case locks.Crash, locks.Pause, locks.Partition, locks.Failover:
		w.park()
		return nil, nil // it goes on as if nothing had happened
	}
	return nil, context.Cause(ctx)
}

// spend takes as long as it is told. A sleep of less than a millisecond takes a
// millisecond or more; work as short as that is done on the processor, which it
// leaves to others after each look at the clock.
func spend(d time.Duration) {
	if d >= time.Millisecond {
		time.Sleep(d)
		return
	}
	for end := time.Now().Add(d); time.Now().Before(end); {
		runtime.Gosched()
	}
}

func (w *worker) takeLong(p plan) {
	w.struck(time.Now().Add(p.Long))
	time.Sleep(p.Long)
}
