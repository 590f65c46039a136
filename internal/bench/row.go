package bench

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"oversell/internal/figures"
	"oversell/internal/locks"
	"oversell/internal/web"
)

// run is one row under way.
type run struct {
	cfg      Config
	strategy locks.Strategy
	cond     locks.Condition
	sku      string
	targets  []string
	admin    *shopClient
	fleet    *fleet // nil with shops that run already
	waiting  func(waiting func() int64)
}

// do runs the row: it puts the item on sale, opens all connections, lets the
// requests go, waits for every outcome, and audits.
func (r *run) do(ctx context.Context) (Row, error) {
	if err := r.admin.put(ctx, r.targets[0], r.sku, r.cfg.Stock); err != nil {
		return Row{}, err
	}
	if r.fleet != nil {
		if err := r.fleet.follow(ctx, r.cfg.plan(r.cond)); err != nil {
			return Row{}, err
		}
	}
	b, err := open(ctx, r.targets, r.cfg.Requests, r.cfg.requests(r.strategy.Name, r.sku))
	if err != nil {
		return Row{}, err
	}
	defer b.close()
	before, err := r.admin.audit(ctx, r.targets[0], r.sku)
	if err != nil {
		return Row{}, err
	}
	r.waiting(b.waiting.Load)
	o, err := r.burst(ctx, b)
	if err != nil {
		return Row{}, err
	}
	o.audit, err = r.admin.audit(ctx, r.survivor(), r.sku)
	if err != nil {
		return Row{}, err
	}
	o.commands = o.audit.RedisCommands - before.RedisCommands
	return r.row(o), nil
}

// outcome is what a row was observed to come to.
type outcome struct {
	replies  []reply
	start    time.Time
	wall     time.Duration
	struck   error // why the condition did not come about
	audit    web.Audit
	commands int64
}

// burst fires the requests and meanwhile sees to the condition.
func (r *run) burst(ctx context.Context, b *burst) (outcome, error) {
	striking, stop := context.WithCancel(ctx)
	defer stop()
	struck := make(chan error, 1)
	go func() { struck <- r.befall(striking) }()
	var o outcome
	o.replies, o.start = b.fire(ctx, r.limit())
	o.wall = time.Since(o.start)
	stop()
	o.struck = <-struck
	if ctx.Err() != nil {
		return o, context.Cause(ctx)
	}
	if r.fleet != nil && r.unresolved(o) > 0 {
		return o, r.fleet.fallen(lastGasp)
	}
	return o, nil
}

// befall sees to the condition until ctx ends, which is when the row is over.
// It returns why the condition did not come about.
func (r *run) befall(ctx context.Context) error {
	switch {
	case r.fleet == nil || r.cond == locks.Calm:
		return nil
	case r.cond.NeedsProcess():
		return r.fleet.strike(ctx, r.cond, r.cfg.long())
	}
	return r.fleet.watch(ctx, func(until time.Time) error {
		if r.cond == locks.Late {
			return r.fleet.stay(until.Add(r.cfg.linger()))
		}
		return nil
	})
}

// limit is how long to wait for an outcome before it counts as unknown: longer
// than any request can take by the rules of the row.
func (r *run) limit() time.Duration {
	return r.cfg.Wait + r.cfg.Work + 4*r.cfg.long() + 30*time.Second
}

// survivor is the address of a shop that runs.
func (r *run) survivor() string {
	if r.fleet != nil {
		if i := r.fleet.survivor(); i != nil {
			return i.url
		}
	}
	return r.targets[0]
}

// row computes the figures from what was observed.
func (r *run) row(o outcome) Row {
	row := Row{
		Strategy: r.strategy.Name, Condition: r.cond, Workload: r.cfg.Workload,
		Requests: r.cfg.Requests, Stock: r.cfg.Stock,
		Reasons: make(map[string]int64),
	}
	spans, last := r.count(&row, o)
	row.MaxHolders = figures.MaxHolders(spans)
	r.latencies(&row, o)
	row.RedisCommands = float64(o.commands) / float64(row.Requests)
	if r.cfg.Workload == locks.Cache {
		r.judgeCache(&row, o)
	} else {
		r.judgeSale(&row, o, last)
	}
	r.expect(&row, o)
	return row
}

// count sorts the replies by outcome. It returns when holders were inside the
// section, and when the last of them left it.
func (r *run) count(row *Row, o outcome) (spans []figures.Span, last time.Time) {
	last = o.start
	for _, reply := range o.replies {
		spans = append(spans, reply.Spans...)
		for _, s := range reply.Spans {
			if s.To.After(last) {
				last = s.To
			}
		}
		switch {
		case reply.Status == 0:
			row.Unknown++
			row.Reasons[reply.Code]++
		case reply.Status == http.StatusOK:
			row.Served++
		case reply.Code == "sold_out":
			row.SoldOut++
		default:
			row.Failed++
			row.Reasons[reply.Code]++
		}
	}
	return spans, last
}

// unresolved is the number of requests whose sale the audit cannot have seen
// yet: the shop they went to still runs, and may still be at work on them.
// What a killed process has not written it will never write.
func (r *run) unresolved(o outcome) int64 {
	var n int64
	for _, reply := range o.replies {
		if reply.Status == 0 && !r.killed(reply.Target) {
			n++
		}
	}
	return n
}

func (r *run) killed(target int) bool {
	return r.fleet != nil && r.fleet.members[target].killed.Load()
}

func (r *run) judgeSale(row *Row, o outcome, last time.Time) {
	found := o.audit.Stock
	row.Sold = found.Sold
	row.Oversold = found.Oversold()
	row.OversoldPossible = found.OversoldPossible(r.unresolved(o))
	row.LostUpdates = found.LostUpdates()
	row.Undersold = found.Undersold(row.SoldOut + row.Failed)
	row.Duplicates = found.Duplicates
	row.Throughput = float64(row.Sold) / o.wall.Seconds()
	row.Verdict = figures.Run{
		Stock: found, SoldOut: row.SoldOut, GaveUp: row.Failed, Unresolved: r.unresolved(o),
		Idle: o.start.Add(o.wall).Sub(last), StuckAfter: r.cfg.Wait / 2,
	}.Verdict()
}

func (r *run) judgeCache(row *Row, o outcome) {
	row.Loads = o.audit.CacheLoads
	for _, n := range row.Loads {
		row.DBLoads += n
	}
	row.Throughput = float64(row.Served) / o.wall.Seconds()
	row.Verdict = figures.CacheRun{Loads: row.DBLoads, Served: row.Served, GaveUp: row.Failed}.Verdict()
}

// latencies are those of a burst: all begin when the requests are let go, and
// the last to be served has waited for all others.
func (r *run) latencies(row *Row, o outcome) {
	h := hdrhistogram.New(1, max(2, o.wall.Microseconds()), 3)
	var longest int64
	for _, reply := range o.replies {
		if reply.Status != 0 {
			us := reply.Latency.Microseconds()
			longest = max(longest, us)
			_ = h.RecordValue(us) // it fails above the bound, which no reply is
		}
	}
	// The histogram rounds up by a thousandth, the longest is known as it is.
	ms := func(quantile float64) float64 { return float64(min(h.ValueAtQuantile(quantile), longest)) / 1e3 }
	row.P50, row.P95, row.P99, row.Max = ms(50), ms(95), ms(99), ms(100)
	row.Wall = milliseconds(o.wall)
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }

// expect compares the row with what the catalog says must come out.
func (r *run) expect(row *Row, o outcome) {
	e, known := r.strategy.Expect(locks.Case{
		Workload: r.cfg.Workload, Condition: r.cond, Instances: r.cfg.shops(),
		Requests: r.cfg.Requests, SecondLook: r.cfg.SecondLook,
	})
	switch {
	case o.struck != nil:
		row.Differs = fmt.Sprintf("the condition did not come about: %v", o.struck)
	case !known:
		row.Differs = "the catalog says nothing of this"
	default:
		row.Differs = e.Check(locks.Outcome{Verdict: row.Verdict, MaxHolders: row.MaxHolders, Loads: row.DBLoads})
	}
	row.Expected = row.Differs == ""
}
