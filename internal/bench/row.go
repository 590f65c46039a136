package bench

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"oversell/internal/bench/report"
	"oversell/internal/catalog"
	"oversell/internal/figures"
	"oversell/internal/fleet"
	"oversell/internal/guard"
	"oversell/internal/message"
	"oversell/internal/stock"
	"oversell/internal/web"
)

// run is one row in progress.
type run struct {
	cfg      Config
	strategy catalog.Strategy
	cond     catalog.Condition
	skus     []string // of the items
	spread   *Spread  // which item each buyer wants
	admin    client
	shops    *shops
	progress Progress
	faults   faults
	stalls   *fleet.StallWatch // of this process
	workers  *fleet.Fleet      // that write accepted orders; nil: the shops write them
	missed   bool              // the fault was not injected
}

// do runs the row: it puts the items on sale, sends the requests, waits for every outcome, and
// audits the sale.
func (r *run) do(ctx context.Context) (row report.Row, err error) {
	l, err := r.prepare(ctx)
	if err != nil {
		return report.Row{}, err
	}
	defer l.close()
	after, err := beforeFailover(ctx, r.cfg.Failovers, r.cond)
	if err != nil {
		return report.Row{}, err
	}
	defer func() { err = errors.Join(err, after()) }()
	shop := r.admin.at(r.survivor())
	first, err := shop.audit(ctx, r.skus[0])
	if err != nil {
		return report.Row{}, err
	}
	before, err := shop.audit(ctx, r.skus[0]) // the difference is the price of an audit
	if err != nil {
		return report.Row{}, err
	}
	w := r.watched(l)
	defer r.stopWorkers()
	o, err := r.observe(ctx, l, w, r.inject)
	if err != nil {
		return report.Row{}, err
	}
	if held, ok := r.shops.held(); ok {
		o.held = &held
	}
	if err := r.audit(ctx, &o); err != nil {
		return report.Row{}, err
	}
	if r.cond != catalog.Failover && before.RedisCommands != nil { // a new primary has its own count
		price := commandsBetween(first, before)
		o.commands = new(commandsBetween(before, o.audits[0]) - price*(w.audits()+o.settling))
	}
	row = r.figures(o)
	r.drained(&row, o)
	r.expect(&row, o)
	return r.judged(row), nil
}

// commandsBetween returns the number of commands that Redis executed between two audits, or 0 if
// they were not counted.
func commandsBetween(before, after web.Audit) int64 {
	if before.RedisCommands == nil || after.RedisCommands == nil {
		return 0
	}
	return *after.RedisCommands - *before.RedisCommands
}

// An audit reads the whole stream, so the pause between two audits grows.
const (
	minDrainPause = 10 * time.Millisecond
	maxDrainPause = 200 * time.Millisecond
	drainTime     = time.Minute // limit for writing the accepted orders
)

// settleTime limits the time that shops take to reconnect to Redis.
const settleTime = 10 * time.Second

// prepare puts the items on sale, gives the shops their plan, and prepares the requests.
func (r *run) prepare(ctx context.Context) (*stream, error) {
	if err := r.offer(ctx); err != nil {
		return nil, err
	}
	if !r.cfg.running() {
		if err := r.shops.follow(ctx, r.cfg.plan(r.skus[0], r.cond), r.unguarded()); err != nil {
			return nil, err
		}
	}
	request := func(i int, target string) (*http.Request, error) {
		return r.cfg.request(i, r.strategy.Name, r.skus[r.item(i)]).to(target)
	}
	var targets []string
	for _, m := range r.shops.Members() {
		targets = append(targets, m.URL)
	}
	s, err := newStream(r.cfg, targets, request, func(target int) bool { return !r.killed(target) })
	if err != nil {
		return nil, err
	}
	if r.cfg.Rate == 0 {
		if err := s.connect(ctx); err != nil {
			s.close()
			return nil, err
		}
	}
	r.progress.Waiting(Outcomes, s.awaited)
	return s, nil
}

// outcome holds the observations of a row.
type outcome struct {
	*tally
	wall        time.Duration
	sent        int64
	open        *report.Open         // of an open load
	notInjected error                // why the fault was not injected
	audits      []web.Audit          // by item
	compared    []figures.Comparison // by item, of a sale
	settled     time.Time            // when all accepted orders were written
	settling    int64                // number of audits of the first item until then
	commands    *int64               // nil: not counted
	held        *time.Duration       // time that database connections were out of the pools; nil: not measured
}

// observe sends the requests. In the meantime it injects faults and serves the watcher.
func (r *run) observe(
	ctx context.Context, l *stream, w *watch, inject func(ctx, load context.Context) error,
) (outcome, error) {
	loading, stop := context.WithCancel(ctx)
	defer stop()
	injected := make(chan error, 1)
	go func() { injected <- inject(ctx, loading) }()
	o := outcome{tally: newTally(r.limit() + r.cfg.Duration), sent: int64(r.cfg.Requests)}
	o.sale, o.items = r.cfg.Workload == catalog.Deduct, make([]itemTally, len(r.skus))
	o.of = r.item
	w.start(ctx, o.tally)
	l.fire(ctx, r.limit(), o.tally)
	o.wall = time.Since(o.start)
	w.stop()
	stop()
	o.notInjected = <-injected
	if ctx.Err() != nil {
		return o, context.Cause(ctx)
	}
	if r.cfg.Rate > 0 {
		o.open = l.figures(o.tally)
		o.sent = o.open.Sent
	}
	if !r.cfg.running() && r.notKilled(o.unknown) > 0 {
		return o, r.shops.Crashed(fleet.ExitGrace)
	}
	return o, nil
}

// inject injects the fault of the condition. The context load ends when all requests have their
// outcomes. The error says why the fault was not injected.
func (r *run) inject(ctx, load context.Context) error {
	switch {
	case r.cond == catalog.Calm:
		return nil
	case r.cfg.atSeams(r.cond):
		return r.killAtSeams(ctx, load)
	case r.cond == catalog.Failover:
		return r.failOver(ctx, load)
	case r.cond == catalog.Partition:
		return r.shops.inject(load, func(m *fleet.Member) error { return r.partition(load, m) })
	case r.cond.NeedsProcess():
		return r.shops.inject(load, func(m *fleet.Member) error { return r.crashOrPause(load, m) })
	}
	return r.overstayed(load)
}

// crashOrPause kills the process of the parked holder, or stops it for longer than the lease. The
// command to resume the holder is sent while the process is stopped, so that the holder writes before
// anything else in the process notices the pause.
func (r *run) crashOrPause(ctx context.Context, m *fleet.Member) error {
	if r.cond == catalog.Crash {
		r.faults.kill(m, "")
		return nil
	}
	outlast := r.outlast(ctx, m)
	if err := m.Pause(); err != nil {
		return errors.Join(err, m.Resume())
	}
	end := r.faults.begin(Stopped)
	outlast()
	err := errors.Join(m.Resume(), m.Continue())
	end()
	return err
}

// outlast returns a function that waits for longer than the lease of m's holder. On a slow machine it
// waits until a holder of another shop, who came after the call of outlast, has read the stock, but for
// no more than two leases.
func (r *run) outlast(ctx context.Context, m *fleet.Member) (wait func()) {
	before := r.shops.worked(m)
	return func() {
		_ = guard.Sleep(ctx, r.cfg.long())
		if r.cfg.Workload == catalog.Deduct { // the loads of a cache are not counted
			r.shops.succeeded(ctx, m, before, r.cfg.longest(r.cond)-r.cfg.long())
		}
	}
}

// stalled returns the longest stall so far in this row that was not injected.
func (r *run) stalled() time.Duration {
	return max(r.stalls.Get(), r.shops.Stalled())
}

// limit returns the time after which a missing outcome counts as unknown. It is longer than any
// request may take.
func (r *run) limit() time.Duration {
	return r.cfg.Wait + r.cfg.Work + 4*r.cfg.long() + 30*time.Second
}

// survivor returns the address of a running shop, if possible of one that is neither stopped nor
// cut off.
func (r *run) survivor() string {
	if m := r.shops.Survivor(); m != nil {
		return m.URL
	}
	return r.shops.Members()[0].URL
}

// figures computes the figures from what was observed.
func (r *run) figures(o outcome) report.Row {
	row := report.Row{
		Asked: report.Asked{
			Key:    report.Key{Strategy: r.strategy.Name, Condition: r.cond, Workload: r.cfg.Workload},
			Keeper: r.cfg.keeper(r.strategy, r.cond), Requests: r.cfg.Requests, Stock: r.cfg.Stock,
		},
		Load: report.Load{
			Served: o.served, SoldOut: o.soldOut, Failed: o.failed, Reasons: o.reasons, MaxHolders: o.mostHolders(),
			P50: o.latency.ms(50), P95: o.latency.ms(95), P99: o.latency.ms(99), Max: o.latency.ms(100),
			Wall: figures.Milliseconds(o.wall),
			Open: o.open, Percentiles: o.percentiles(o.open != nil), Timeline: o.timeline.figures(),
		},
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
	if r.cfg.Workload == catalog.Cache {
		r.judgeCache(&row, o)
	} else {
		r.judgeSale(&row, o)
	}
	return row
}

// judged sets whether the row was as expected, and the verdict NotComparable if the row cannot be
// judged.
func (r *run) judged(row report.Row) report.Row {
	row.Expected = row.Differs == ""
	if row.Undecided && !r.strategy.Comparable(r.cfg.embedded) {
		row.Verdict = figures.NotComparable
	}
	return row
}

// notKilled sums up the unknown outcomes of targets that were not killed. The audit may have missed
// their sales, because the shop is still running and may still be serving the requests. A killed
// process writes nothing any more.
func (r *run) notKilled(unknown map[int]int64) (n int64) {
	for target, missing := range unknown {
		if !r.killed(target) {
			n += missing
		}
	}
	return n
}

func (r *run) killed(target int) bool { return r.shops.Members()[target].Killed.Load() }

func (r *run) judgeCache(row *report.Row, o outcome) {
	row.Loads = o.audits[0].CacheLoads
	for _, n := range row.Loads {
		row.DBLoads += n
	}
	row.Throughput = float64(row.Served) / o.wall.Seconds()
	row.Verdict = figures.ColdKey(row.DBLoads, row.Served, row.Failed)
}

// expectation returns the row as a case of the catalog.
func (r *run) expectation(keeper stock.Backend) catalog.Case {
	return catalog.Case{
		Workload: r.cfg.Workload, Condition: r.cond, Instances: r.cfg.shops(),
		Requests: r.cfg.Requests, SecondLook: r.cfg.SecondLook, Unfenced: r.cfg.Unfenced,
		InDatabase: keeper == stock.InDatabase, Items: r.cfg.Items,
	}
}

// calm returns what is expected of the strategy under the calm condition.
func (r *run) calm(keeper stock.Backend) catalog.Expectation {
	calm := r.expectation(keeper)
	calm.Condition = catalog.Calm
	e, _ := r.strategy.Expect(calm)
	return e
}

// unguarded reports whether the strategy may oversell even under the calm condition.
func (r *run) unguarded() bool {
	return slices.Contains(r.calm(r.cfg.keeper(r.strategy, catalog.Calm)).Verdicts, figures.Oversold)
}

// expect compares the row with the catalog's expectation. A row without its fault is missed, unless it
// is worse than one under the calm condition: that must not be lost with a discarded run.
func (r *run) expect(row *report.Row, o outcome) {
	e, known := r.strategy.Expect(r.expectation(row.Keeper))
	check := func(e catalog.Expectation) message.Message {
		if r.cfg.Rate > 0 && r.cond != catalog.Failover || r.cfg.many() {
			e = gently(e)
		}
		return e.Check(catalog.Outcome{Verdict: row.Verdict, MaxHolders: row.MaxHolders, Loads: row.DBLoads})
	}
	var differs message.Message
	switch {
	case known && e.Undecided:
		row.Undecided = true
	case o.notInjected != nil:
		calm := check(r.calm(row.Keeper))
		r.missed = errors.Is(o.notInjected, errNotInjected) && calm.String() == ""
		differs = message.Join("%v; %v", message.Newf("the fault was not injected: %v", o.notInjected), calm)
	case !known:
		differs = message.Text("the catalog has no expectation for this case")
	default:
		differs = check(e)
		if differs.String() == "" && row.Verdict == figures.Drift && r.cfg.many() && r.cond == catalog.Crash {
			differs = r.unexplained(o, e.MaxHolders == 1)
		}
	}
	untrue := row.Untrue()
	row.Differ(message.Join("%v; %v", differs, untrue))
	if untrue.String() != "" { // no strategy may tell buyers something untrue, even if it may oversell
		row.Undecided = false
	}
}

// gently adapts an expectation to an open load or many items, where buyers rarely meet: a strategy
// that oversells in a burst may be ok in such a load, and one that holds must still hold.
func gently(e catalog.Expectation) catalog.Expectation {
	if slices.Contains(e.Verdicts, figures.Oversold) {
		e.Verdicts = append(slices.Clone(e.Verdicts), figures.OK)
	}
	return e
}
