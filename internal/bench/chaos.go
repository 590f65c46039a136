package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"oversell/internal/bench/report"
	"oversell/internal/catalog"
	"oversell/internal/figures"
	"oversell/internal/fleet"
	"oversell/internal/guard"
	"oversell/internal/message"
	"oversell/internal/web"
)

// The defaults of a row under chaos.
const (
	ChaosRate     = 200 // buyers a second
	chaosDuration = time.Minute
	chaosTTL      = 3 * time.Second // longer than a sale may take to recover, to show a lock that is never released

	// chaosSpare is added to the stock, so that the item does not sell out while faults are
	// injected even if every buyer buys a unit.
	chaosSpare = 500
)

// chaotic reports whether the rows are run under chaos.
func (c Config) chaotic() bool { return slices.Contains(c.Conditions, catalog.Chaos) }

const needsOwnServers = "condition chaos breaks Redis and the database: it needs servers that the bench starts, " +
	"embedded or local"

// checkChaos returns an error if faults cannot be injected, or if the config makes them
// meaningless.
func (c Config) checkChaos() error {
	switch {
	case len(c.Conditions) > 1:
		return Invalid("condition chaos cannot be combined with others: its servers write to disk, and theirs do not")
	case c.Chaos == nil:
		return Invalid(needsOwnServers)
	case c.Instances < 2:
		return Invalid("condition chaos kills and stops processes: it needs at least 2 instances")
	case c.Keys != UniqueKeys:
		return Invalid("condition chaos gives each buyer an idempotency key: -keys cannot be %s", c.Keys)
	case c.Duration > 0 && c.Duration < leastChaos:
		return Invalid("a duration of %v; condition chaos takes at least %v", c.Duration, leastChaos)
	}
	return nil
}

// kinds returns the kinds of faults to draw from.
func (c Config) kinds() ([]ChaosKind, error) {
	can := chaosKinds(c.Chaos.redis == nil, c.Chaos.db == nil)
	if len(c.Faults) == 0 {
		return can, nil
	}
	for _, k := range c.Faults {
		if !slices.Contains(can, k) {
			return nil, Invalid("the fault %s needs a real server: -redis local -db local", k)
		}
	}
	return c.Faults, nil
}

// chaosRow is a row under chaos in progress.
type chaosRow struct {
	*run
	patience time.Duration // how long a buyer keeps trying
	found    report.Chaos
	repeated atomic.Int64
	resale   resale
}

// do runs the row: it injects one fault after the other while buyers come, then sells the remaining
// units, and audits the sale.
func (c *chaosRow) do(ctx context.Context) (row report.Row, err error) {
	l, err := c.prepare(ctx)
	if err != nil {
		return report.Row{}, err
	}
	defer l.close()
	l.exchange = c.buy
	loading, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	o, err := c.observe(loading, l, nil, func(ctx, _ context.Context) error {
		err := c.inject(ctx)
		if err != nil {
			fail(err) // the sale cannot go on
		}
		return err
	})
	if err != nil {
		return report.Row{}, err
	}
	o.open.Late = 0 // a buyer's latency covers all attempts
	if err := c.sellOut(ctx, o.tally); err != nil {
		return report.Row{}, err
	}
	if err := c.shops.Crashed(fleet.ExitGrace); err != nil { // not checked since the last fault
		return report.Row{}, err
	}
	if err := c.audit(ctx, &o); err != nil {
		return report.Row{}, err
	}
	row = c.figures(o)
	c.judge(&row, o)
	return c.judged(row), nil
}

// The settings of buyers under chaos, for their retries.
const (
	chaosPatience  = 30 * time.Second
	attemptTimeout = 5 * time.Second
	firstBackoff   = 50 * time.Millisecond // upper bound of the first random pause; doubles with each attempt
	maxBackoff     = 2 * time.Second
)

// buy sends the request of one buyer, with an idempotency key. It retries at the next shop, after a
// growing random backoff or after Retry-After, until there is a final reply or the buyer has lost
// patience, which cuts off no attempt that has begun. All attempts together count as one request.
func (c *chaosRow) buy(ctx context.Context, n int, due time.Time, _ time.Duration) (r reply) {
	rng := rand.New(rand.NewPCG(c.cfg.Seed, uint64(n)))
	patient, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	shops, cutOff, failed := len(c.shops.Members()), false, false
	for shop, pause := n, firstBackoff; ; shop, pause = shop+1, min(2*pause, maxBackoff) {
		var again bool
		var after time.Duration
		r, again, after = c.attempt(ctx, n, shop%shops)
		cutOff, failed = cutOff || r.CutOff, failed || r.Status >= http.StatusInternalServerError
		if !again || guard.Sleep(patient, max(after, time.Duration(rng.Int64N(int64(pause))))) != nil {
			break
		}
		c.repeated.Add(1)
	}
	// A shop also answers with an error if it does not know whether its last write succeeded.
	r.Request, r.Latency, r.CutOff = n, time.Since(due), cutOff || failed
	if cutOff && r.Status != http.StatusOK && r.Code != "sold_out" {
		r.Status, r.Code = 0, codeCutOff // an earlier attempt may have bought something
	}
	return r
}

// attempt sends the request once. It reports whether to send the request again, and the minimum
// time to wait first.
func (c *chaosRow) attempt(ctx context.Context, n, shop int) (r reply, again bool, after time.Duration) {
	r = reply{Target: shop, Code: codeNoConn}
	m := c.shops.Members()[shop]
	if !m.Runs() {
		return r, true, 0
	}
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	req := c.cfg.request(n, c.strategy.Name, c.skus[0])
	req.prefer = "wait=3" // for strategies that write orders behind the sale
	// The error does not tell whether the request was sent: if a connection breaks, the request is
	// sent again over a new one, which may be refused.
	var wrote atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { wrote.Store(true) }})
	sent := time.Now()
	a := c.admin.send(ctx, m.URL, req, nil)
	r.Service = time.Since(sent)
	switch {
	case a.status == 0 && !wrote.Load():
		return r, true, 0
	case a.status == 0:
		r.Code, r.CutOff = codeCutOff, true
		return r, true, 0
	case a.status == http.StatusAccepted: // the order may still be lost
		r.Code, r.CutOff = codeCutOff, true
		return r, true, time.Second
	}
	r.Status, r.Code = a.status, a.code
	r.Spans, _ = web.ParseHeld(a.header.Get(web.HeldHeader)) // a header that cannot be read is ignored
	if a.status == http.StatusOK {
		if r.Order, r.Quantity = namedOrder(a.text); r.Order == "" {
			r.Status, r.Code = 0, codeNotAReply
			return r, false, 0
		}
		var order struct {
			Made time.Time `json:"created_at"`
		}
		_ = json.Unmarshal(a.text, &order) // an order without a time does not show that the item is sold again
		c.resale.sold(order.Made)
		return r, false, 0
	}
	r.Code = cmp.Or(codeOf(a.text), codeNotAReply)
	seconds, _ := strconv.Atoi(a.header.Get("Retry-After")) // 0 without the header
	return r, a.status >= http.StatusInternalServerError || a.status == http.StatusTooManyRequests,
		time.Duration(max(0, seconds)) * time.Second
}

// resale counts the buyers who were told of an order, and notices when the item is sold again. It
// is safe for concurrent use.
type resale struct {
	mu    sync.Mutex
	told  int64
	since time.Time      // an order made since then is awaited; zero: no order is awaited
	found chan time.Time // receives the time when a buyer is told of that order
}

// sold records that a buyer was told of an order that was made at the given time.
func (s *resale) sold(made time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told++
	if !s.since.IsZero() && !made.Before(s.since) {
		s.since = time.Time{}
		s.found <- time.Now()
	}
}

func (s *resale) acknowledged() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.told
}

// next returns a channel that receives the time when a buyer is first told of an order that was
// made at the given time or later. The time is truncated to milliseconds, as in an order. Only the
// channel that was returned last receives anything.
func (s *resale) next(from time.Time) <-chan time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since, s.found = from.Truncate(time.Millisecond), make(chan time.Time, 1)
	return s.found
}

const (
	// sellsWithin limits the time in which a sale must recover from a fault.
	sellsWithin = 2 * time.Second
	// steady is the shortest time from the recovery of the sale to the next fault.
	steady = 300 * time.Millisecond
	// shortestStall is the shortest stall that counts. It is longer than the delay of a timer on an
	// idle machine.
	shortestStall = 10 * time.Millisecond
	// endTimeout limits the time that it takes to end a fault.
	endTimeout = 30 * time.Second
)

// The values of report.Fault.From.
const (
	fromEnd   = "end"
	fromFault = "fault"
)

// inject injects one fault after the other. An error means that the sale cannot go on.
func (c *chaosRow) inject(ctx context.Context) error {
	start := time.Now()
	c.found.Seed = c.cfg.Seed
	stalls := fleet.WatchStalls(shortestStall, nil)
	defer stalls.Stop()
	for _, f := range c.cfg.drawFaults() {
		target := f.target()
		d := report.Fault{
			Kind: string(f.kind), Victim: target.String(), Message: target,
			Planned: f.at.Seconds(), For: f.lasts.Seconds(), Amount: float64(f.delay.Milliseconds()),
			From: fromEnd, Limit: sellsWithin.Seconds(), StopsFor: f.stopsHolder && f.lasts >= c.cfg.TTL,
		}
		if f.part == shopPart && c.strategy.Kind == catalog.Guarded { // its lock expires only after the ttl
			d.Limit += c.cfg.TTL.Seconds()
		}
		if f.kind == shopKill {
			d.From = fromFault
		}
		if guard.Sleep(ctx, time.Until(start.Add(f.at))) != nil {
			return context.Cause(ctx)
		}
		if time.Since(start)+f.lasts > c.cfg.Duration {
			d.Skipped = true
			c.found.Faults = append(c.found.Faults, d)
			continue
		}
		if err := c.strike(ctx, f, start, stalls, &d); err != nil {
			return err
		}
		c.found.Faults = append(c.found.Faults, d)
		c.found.StopsHolder = c.found.StopsHolder || d.StopsFor
		if guard.Sleep(ctx, steady) != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

// strike injects one fault, and waits until the item sells again or buyers have given up.
func (c *chaosRow) strike(
	ctx context.Context, f chaosFault, start time.Time, stalls *fleet.StallWatch, d *report.Fault,
) error {
	before, began := c.resale.acknowledged(), time.Now()
	d.At = began.Sub(start).Seconds()
	again, from, stalled := c.resale.next(began), began, stalls.Total()
	end, err := c.begin(ctx, f)
	if err != nil {
		d.Error = err.Error()
	}
	if guard.Sleep(ctx, f.lasts) != nil {
		return context.Cause(ctx) // everything is about to stop
	}
	if end != nil {
		ending, cancel := context.WithTimeout(ctx, endTimeout)
		defer cancel()
		if err := end(ending); err != nil {
			return errors.Join(context.Cause(ctx), fmt.Errorf("ending the fault %s: %w", f, err))
		}
	}
	d.Lasted, d.SoldIn = time.Since(began).Seconds(), c.resale.acknowledged()-before
	if d.From == fromEnd {
		from, stalled = time.Now(), stalls.Total()
		again = c.resale.next(from)
	}
	select {
	case at := <-again:
		d.Again = new(max(0, at.Sub(from).Seconds()))
	case <-time.After(min(chaosPatience, time.Until(start.Add(c.cfg.Duration+chaosPatience)))):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	d.Stalled = (stalls.Total() - stalled).Seconds()
	return c.shops.Crashed(0)
}

const (
	// lastBuyers is the number of concurrent buyers of the final sell-out.
	lastBuyers = 32
	// lastTime limits the final sell-out.
	lastTime = 90 * time.Second
	// backTime limits the time in which units that are neither sold nor on sale return to the
	// stock.
	backTime = 5 * time.Second
)

// sellOut sells the remaining units, because only a sold-out item shows whether it was oversold and
// whether units are stranded. Its buyers do not count as buyers of the load.
func (c *chaosRow) sellOut(ctx context.Context, t *tally) error {
	limited, cancel := context.WithTimeout(ctx, lastTime)
	defer cancel()
	c.found.Repeated = c.repeated.Load()
	before := c.resale.acknowledged()
	var next atomic.Int64
	next.Store(int64(c.cfg.Requests))
	for end := time.Now().Add(backTime); ; {
		var last sync.WaitGroup
		var over atomic.Bool
		for range lastBuyers {
			last.Go(func() {
				for !over.Load() && limited.Err() == nil {
					r := c.buy(limited, int(next.Add(1)), time.Now(), 0)
					t.note(r)
					if r.Code == "sold_out" {
						over.Store(true)
					}
				}
			})
		}
		last.Wait()
		c.found.SoldOut, c.found.BoughtAtEnd = over.Load(), c.resale.acknowledged()-before
		if !over.Load() || c.resale.acknowledged() >= c.cfg.Stock || time.Now().After(end) ||
			guard.Sleep(limited, backTime/10) != nil { // missing units may still return to the stock
			return context.Cause(ctx)
		}
	}
}

// judge compares the row with what the strategy may do under chaos.
func (c *chaosRow) judge(row *report.Row, o outcome) {
	c.found.Acknowledged = c.resale.acknowledged()
	c.found.Sold, c.found.Oversold, c.found.Stranded = row.Sold, row.Oversold, row.Stranded
	c.found.Missing, c.found.Duplicates = row.AcknowledgedMissing, row.Duplicates
	c.found.Unreported, c.found.Foreign, c.found.Remaining = row.Unreported, o.audits[0].Foreign, o.audits[0].Remaining
	c.found.MissingIDs, c.found.DuplicateIDs = o.compared[0].Named()
	row.Chaos = &c.found
	row.OversoldPossible = row.Oversold // no request is in flight any more
	row.Throughput = float64(row.Served) / c.cfg.Duration.Seconds()
	row.Verdict = chaosVerdict(row.Chaos)
	may := c.strategy.UnderChaos(c.expectation(row.Keeper))
	row.Differ(chaosDiffers(may, row.Chaos))
	row.Undecided = may.Undecided && row.Differs == ""
}

// chaosVerdict returns the verdict on a row under chaos.
func chaosVerdict(found *report.Chaos) figures.Verdict {
	switch {
	case found.Oversold > 0:
		return figures.Oversold
	case !found.SoldOut:
		return figures.Stuck
	case found.Stranded > 0 || found.Missing > 0 || found.Duplicates > 0 || found.Unreported > 0 ||
		found.Foreign > 0:
		return figures.Drift
	case found.Remaining > 0:
		return figures.Undersold
	}
	return figures.OK
}

// chaosDiffers describes how a row differs from what the strategy may do. The message is empty if it
// does not.
func chaosDiffers(may catalog.Leeway, found *report.Chaos) message.Message {
	var wrong []message.Message
	differ := func(format string, args ...any) { wrong = append(wrong, message.Newf(format, args...)) }
	count := func(n int64, format string) {
		if n > 0 {
			differ(format, n)
		}
	}
	count(found.Missing, "acknowledged_missing %d")
	count(found.Duplicates, "duplicates %d")
	count(found.Unreported, "orders that no buyer was told of: %d")
	count(found.Foreign, "foreign %d")
	if may.Undecided { // nothing else is promised
		return message.Join("%v, %v", wrong...)
	}
	excused := may.Always || may.Oversells != "" && found.StopsHolder || may.LosesLock
	if !excused {
		count(found.Oversold, "oversold %d")
	}
	if may.Strands == "" && !excused {
		count(found.Stranded, "stranded %d")
	}
	for _, d := range found.Faults {
		if d.Error != "" {
			differ("%s at %.1f s could not be injected: %s", d.Kind, d.At, d.Error)
		}
	}
	if !slices.ContainsFunc(found.Faults, func(d report.Fault) bool { return !d.Skipped }) {
		differ("no fault was injected: the sale was too short")
	}
	if !may.Sticks {
		for _, d := range found.Faults {
			if d.Late() {
				differ("%s at %.1f s: recovery %s (limit %.1f s)", d.Kind, d.At, d.Recovery(), d.Limit)
			}
		}
		if !found.SoldOut {
			differ("%d units were left after the final sell-out", found.Remaining)
		}
	}
	return message.Join("%v, %v", wrong...)
}

// defaultsForChaos fills in the defaults of the chaos condition.
func (c Config) defaultsForChaos() Config {
	c.Rate = cmp.Or(c.Rate, ChaosRate)
	c.Duration = cmp.Or(c.Duration, chaosDuration)
	c.Stock = cmp.Or(c.Stock, int64(c.Duration*time.Duration(c.Rate)/time.Second)+chaosSpare)
	c.Seed = cmp.Or(c.Seed, 1)
	if c.Keys == NoKeys {
		c.Keys = UniqueKeys
	}
	return c
}
