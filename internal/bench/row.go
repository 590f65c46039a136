package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"oversell/internal/figures"
	"oversell/internal/locks"
	"oversell/internal/stock"
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
	watcher  Watcher // nil: nobody looks
}

// do runs the row: it puts the item on sale, lets the requests go, waits for
// every outcome, and audits.
func (r *run) do(ctx context.Context) (row Row, err error) {
	if err := r.admin.put(ctx, r.targets[0], r.sku, r.strategy.Name, r.cfg.Stock, r.cfg.keeper(r.strategy, r.cond)); err != nil {
		return Row{}, err
	}
	if r.fleet != nil {
		if err := r.fleet.follow(ctx, r.cfg.plan(r.sku, r.cond)); err != nil {
			return Row{}, err
		}
	}
	after, err := r.beforeFailover(ctx)
	if err != nil {
		return Row{}, err
	}
	defer func() { err = errors.Join(err, after()) }()
	l, err := r.load(ctx)
	if err != nil {
		return Row{}, err
	}
	defer l.close()
	before, err := r.admin.audit(ctx, r.targets[0], r.sku)
	if err != nil {
		return Row{}, err
	}
	r.waiting(l.awaited)
	w, err := r.watched(ctx, l, &before)
	if err != nil {
		return Row{}, err
	}
	o, err := r.observe(ctx, l, w)
	if err != nil {
		return Row{}, err
	}
	if o.audit, err = r.settled(ctx); err != nil {
		return Row{}, err
	}
	if o.told, err = r.told(ctx, o); err != nil {
		return Row{}, err
	}
	// Another server than before has counted from its own beginning.
	if r.cond != locks.Failover {
		o.commands = new(o.audit.RedisCommands - before.RedisCommands - w.cost())
	}
	return r.row(o), nil
}

// settled audits the row. Where Redis was away for a while, the clients of a shop
// may need a moment to find it again.
func (r *run) settled(ctx context.Context) (found web.Audit, err error) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for end := time.Now().Add(settleTime); ; {
		found, err = r.admin.audit(ctx, r.survivor(), r.sku)
		away := r.cond == locks.Partition || r.cond == locks.Failover
		if err == nil || !away || time.Now().After(end) || !until(ctx, timer, time.Now().Add(settleTime/50)) {
			return found, err
		}
	}
}

// settleTime bounds that moment.
const settleTime = 10 * time.Second

// load is the requests of a row.
type load interface {
	// fire lets them go and returns when each has its outcome, of which none
	// takes longer than the limit, or ctx ends.
	fire(ctx context.Context, limit time.Duration, t *tally)
	// awaited is how many outcomes are still awaited.
	awaited() int64
	// close closes all connections.
	close()
}

// load makes the requests ready.
func (r *run) load(ctx context.Context) (load, error) {
	request := r.cfg.requests(r.strategy.Name, r.sku)
	if r.cfg.Rate == 0 {
		return open(ctx, r.targets, r.cfg.Requests, request)
	}
	return newStream(r.cfg, r.targets, request, func(target int) bool { return !r.killed(target) })
}

// outcome is what a row was observed to come to.
type outcome struct {
	*tally
	wall     time.Duration
	sent     int64
	open     *Open // of an open load
	struck   error // why the condition did not come about
	audit    web.Audit
	told     figures.Told // of a sale
	commands *int64       // nil: not counted
}

// observe fires the requests and meanwhile sees to the condition, and to who
// looks on.
func (r *run) observe(ctx context.Context, l load, w *watch) (outcome, error) {
	striking, stop := context.WithCancel(ctx)
	defer stop()
	struck := make(chan error, 1)
	go func() { struck <- r.befall(ctx, striking) }()
	o := outcome{tally: newTally(r.limit() + r.cfg.Duration), sent: int64(r.cfg.Requests)}
	o.sale = r.cfg.Workload == locks.Deduct
	w.start(ctx, o.tally)
	l.fire(ctx, r.limit(), o.tally)
	o.wall = time.Since(o.start)
	w.stop()
	stop()
	o.struck = <-struck
	if ctx.Err() != nil {
		return o, context.Cause(ctx)
	}
	if s, ok := l.(*stream); ok {
		o.open = s.figures(o.tally)
		o.sent = o.open.Sent
	}
	if r.fleet != nil && r.unresolved(o) > 0 {
		return o, r.fleet.fallen(lastGasp)
	}
	return o, nil
}

// befall sees to the condition until striking ends, which is when all requests have
// their outcomes. It returns why the condition did not come about.
func (r *run) befall(ctx, striking context.Context) error {
	switch {
	case r.fleet == nil || r.cond == locks.Calm:
		return nil
	case r.cond == locks.Failover:
		return r.failOver(ctx, striking)
	case r.cond == locks.Partition:
		return r.fleet.strike(striking, func(i *instance) error { return r.partition(striking, i) })
	case r.cond.NeedsProcess():
		return r.fleet.strike(striking, func(i *instance) error { return i.hit(striking, r.cond, r.cfg.long()) })
	}
	return r.fleet.watch(striking, func(until time.Time) error {
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
		Strategy: r.strategy.Name, Condition: r.cond, Workload: r.cfg.Workload, Keeper: r.cfg.keeper(r.strategy, r.cond),
		Requests: r.cfg.Requests, Stock: r.cfg.Stock, Open: o.open,
		Served: o.served, SoldOut: o.soldOut, Failed: o.failed, Reasons: o.reasons,
		MaxHolders: o.holders.Max(),
		P50:        o.latency.ms(50), P95: o.latency.ms(95), P99: o.latency.ms(99), Max: o.latency.ms(100),
		Percentiles: o.percentiles(o.open != nil),
		Timeline:    o.timeline.figures(),
		Wall:        milliseconds(o.wall),
	}
	if o.commands != nil {
		row.RedisCommands = new(float64(*o.commands) / float64(max(1, o.sent)))
	}
	if r.cfg.Rate > 0 {
		row.Rate, row.Duration = r.cfg.Rate, r.cfg.Duration.String()
	}
	for _, n := range o.unknown {
		row.Unknown += n
	}
	if r.cfg.Workload == locks.Cache {
		r.judgeCache(&row, o)
	} else {
		r.judgeSale(&row, o)
	}
	r.expect(&row, o)
	return row
}

// unresolved is the number of requests whose sale the audit cannot have seen
// yet: the shop they went to still runs, and may still be at work on them.
// What a killed process has not written it will never write.
func (r *run) unresolved(o outcome) int64 {
	var n int64
	for target, unknown := range o.unknown {
		if !r.killed(target) {
			n += unknown
		}
	}
	return n
}

func (r *run) killed(target int) bool {
	return r.fleet != nil && r.fleet.members[target].killed.Load()
}

func (r *run) judgeSale(row *Row, o outcome) {
	found := o.audit.Stock
	row.Sold = found.Sold
	row.Oversold = found.Oversold()
	row.OversoldPossible = found.OversoldPossible(r.unresolved(o))
	row.LostUpdates = found.LostUpdates()
	row.Undersold = found.Undersold(row.SoldOut + row.Failed)
	row.Stranded = found.Stranded()
	row.AcknowledgedMissing, row.Unreported, row.Uncompared = o.told.AcknowledgedMissing, o.told.Unreported, o.unkept
	row.Duplicates = max(found.Duplicates, o.told.Duplicates)
	row.Throughput = float64(row.Sold) / o.wall.Seconds()
	row.Verdict = figures.Run{
		Stock: found, Told: o.told, SoldOut: row.SoldOut, GaveUp: row.Failed, Unresolved: r.unresolved(o),
		Idle: o.start.Add(o.wall).Sub(o.left), StuckAfter: r.cfg.Wait / 2,
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

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }

// expectation is the case that the row is.
func (r *run) expectation(keeper stock.Keeper) locks.Case {
	return locks.Case{
		Workload: r.cfg.Workload, Condition: r.cond, Instances: r.cfg.shops(),
		Requests: r.cfg.Requests, SecondLook: r.cfg.SecondLook, Unfenced: r.cfg.Unfenced,
		InDatabase: keeper == stock.InDatabase,
	}
}

// expect compares the row with what the catalog says must come out.
func (r *run) expect(row *Row, o outcome) {
	e, known := r.strategy.Expect(r.expectation(row.Keeper))
	switch {
	case known && e.Undecided:
		row.Undecided = true
	case o.struck != nil:
		row.Differs = fmt.Sprintf("the condition did not come about: %v", o.struck)
	case !known:
		row.Differs = "the catalog says nothing of this"
	default:
		if r.cfg.Rate > 0 && r.cond != locks.Failover {
			e = gently(e)
		}
		row.Differs = e.Check(locks.Outcome{Verdict: row.Verdict, MaxHolders: row.MaxHolders, Loads: row.DBLoads})
	}
	// No strategy may tell buyers what is not so, not even one of which nothing else
	// is expected.
	if untrue := row.untrue(); untrue != "" {
		row.Undecided = false
		row.Differs = strings.Join(slices.DeleteFunc([]string{row.Differs, untrue}, func(s string) bool { return s == "" }), "; ")
	}
	row.Expected = row.Differs == ""
}

// gently is what an expectation comes to under an open load. What breaks in a
// burst may hold where buyers seldom meet; what holds must hold.
func gently(e locks.Expectation) locks.Expectation {
	if slices.Contains(e.Verdicts, figures.Oversold) {
		e.Verdicts = append(slices.Clone(e.Verdicts), figures.OK)
	}
	return e
}
