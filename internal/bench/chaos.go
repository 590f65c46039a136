package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"oversell/internal/bench/chaos"
	"oversell/internal/bench/report"
	"oversell/internal/catalog"
	"oversell/internal/figures"
	"oversell/internal/fleet"
	"oversell/internal/guard"
	"oversell/internal/stock"
	"oversell/internal/web"
)

// The defaults of a row under chaos.
const (
	ChaosRate     = 200 // buyers a second
	chaosDuration = time.Minute
	chaosTTL      = 3 * time.Second // longer than a sale may take to recover, to show a lock that is never unlocked

	// chaosSpare is how many units are left if every buyer buys one, so that the item does
	// not sell out while faults are injected.
	chaosSpare = 500
)

// chaotic reports whether the rows are run under chaos.
func (c Config) chaotic() bool { return slices.Contains(c.Conditions, catalog.Chaos) }

// checkChaos returns an error if faults cannot be injected or have no meaning.
func (c Config) checkChaos() error {
	switch {
	case len(c.Conditions) > 1:
		return Invalid("condition chaos cannot be combined with others: its servers write to disk, and theirs do not")
	case c.Chaos == nil:
		return Invalid("condition chaos breaks Redis and the database: it needs servers that the bench starts, " +
			"embedded or local")
	case c.Instances < 2:
		return Invalid("condition chaos kills and stops processes: it needs at least 2 instances")
	case c.Keys != NoKeys && c.Keys != UniqueKeys:
		return Invalid("condition chaos gives each buyer an idempotency key: -keys cannot be %s", c.Keys)
	}
	return nil
}

// kinds are the faults to draw from.
func (c Config) kinds() ([]chaos.Kind, error) {
	can, cannot := c.Chaos.Kinds()
	for _, k := range c.Faults {
		if slices.Contains(cannot, k) {
			return nil, Invalid("the fault %s needs a real server: -redis local -db local", k)
		}
	}
	if len(c.Faults) > 0 {
		return c.Faults, nil
	}
	return can, nil
}

// runChaos runs all rows.
func runChaos(ctx context.Context, cfg Config, p Progress) ([]report.Row, error) {
	kinds, err := cfg.kinds()
	if err != nil {
		return nil, err
	}
	w := &chaotic{cfg: cfg, kinds: kinds, admin: newShopClient(uuid.NewString()), progress: p}
	defer w.admin.CloseIdleConnections()
	return Rows(ctx, cfg, w, p)
}

// chaotic is the workload deduct under chaos, whose buyers retry.
type chaotic struct {
	cfg      Config
	kinds    []chaos.Kind
	admin    *shopClient
	progress Progress
	rows     int // begun so far
}

// Row implements Workload. Each repetition has the next seed.
func (w *chaotic) Row(ctx context.Context, of Case) (result Result, err error) {
	strategy, err := catalog.Strategies().Find(of.Strategy)
	if err != nil {
		return result, err
	}
	w.rows++
	r := &chaosRow{run: run{
		cfg: w.cfg, strategy: strategy, cond: catalog.Chaos, admin: w.admin, progress: w.progress,
		skus: []string{fmt.Sprintf("bench-%s-%d", w.cfg.ID, w.rows)},
	}}
	draw := chaos.Draw{
		Seed: w.cfg.Seed + uint64(of.Repeat-1), Kinds: w.kinds, Duration: w.cfg.Duration, TTL: w.cfg.TTL,
		Shops: w.cfg.Instances,
	}
	if result.Row, err = r.sell(ctx, draw); err != nil {
		return result, fmt.Errorf("with seed %d: %w", draw.Seed, err)
	}
	result.Final = true
	return result, nil
}

// chaosRow is one row under chaos, with shops of its own.
type chaosRow struct {
	run
	slots []chaos.Shop // the run itself has started none
	links []*chaos.Link
}

// sell sells the item while faults are injected.
func (r *chaosRow) sell(ctx context.Context, draw chaos.Draw) (row report.Row, err error) {
	defer func() { err = errors.Join(err, r.close(ctx.Err() != nil)) }()
	if err := r.start(ctx); err != nil {
		return report.Row{}, err
	}
	sku, first := r.skus[0], r.admin.at(r.slots[0].URL())
	keeper := r.cfg.keeper(r.strategy, r.cond)
	if err := first.Put(ctx, sku, r.cfg.Stock, keeper, r.strategy.Name); err != nil {
		return report.Row{}, err
	}
	before, err := first.Audit(ctx, sku)
	if err != nil {
		return report.Row{}, err
	}
	t := newTally(chaosLimit)
	var awaited atomic.Int64
	awaited.Store(int64(r.cfg.Requests))
	r.progress.Waiting(Outcomes, awaited.Load)
	t.begin(time.Now())
	found, err := chaos.Run(ctx, chaos.Config{
		Servers: r.cfg.Chaos, Shops: r.slots, Links: r.links, SKU: sku, SaleID: before.SaleID,
		Strategy: r.strategy.Name, Units: r.cfg.Stock,
		Seed: draw.Seed, Faults: draw.Faults(), Rate: r.cfg.Rate, InFlight: r.cfg.InFlight, Duration: r.cfg.Duration,
		TTL: r.cfg.TTL, HolderDies: r.strategy.Kind == catalog.Guarded,
		Told: func(at time.Duration, o chaos.Outcome) {
			t.add(replyOf(at, o))
			awaited.Add(-1)
		},
		Remaining: r.remaining,
	})
	if err != nil {
		return report.Row{}, err
	}
	return r.judge(t, found), nil
}

// chaosLimit is longer than any buyer retries.
const chaosLimit = time.Minute

// start starts the shops. The first one creates the tables.
func (r *chaosRow) start(ctx context.Context) error {
	p := r.cfg.plan(r.skus[0], catalog.Calm) // faults come from outside
	for n := range r.cfg.Instances {
		link, err := chaos.NewLink(r.cfg.Chaos.RedisURL, r.cfg.Chaos.DBURL)
		if err != nil {
			return fmt.Errorf("relaying a shop's connections: %w", err)
		}
		r.links = append(r.links, link)
		s := &slot{cfg: r.cfg, plan: p, setup: r.cfg.setup(r.admin.Token)}
		s.setup.RedisURL, s.setup.DBURL, s.setup.Name = link.RedisURL, link.DBURL, fmt.Sprintf("%s-%d", r.skus[0], n+1)
		r.slots = append(r.slots, s)
		if err := s.Start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// close ends the shops. After an interrupted row they are killed: one that is stopped, or
// waits for a stopped server, would take long to end.
func (r *chaosRow) close(interrupted bool) error {
	var wg sync.WaitGroup
	for _, s := range r.slots {
		wg.Go(func() {
			if interrupted {
				s.Kill()
			}
			s.End()
		})
	}
	wg.Wait()
	var errs []error
	for _, l := range r.links {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// remaining asks the shops in turn how many units are left, until one answers.
func (r *chaosRow) remaining(ctx context.Context) (left int64, err error) {
	for end := time.Now().Add(settleTime); ; {
		for _, s := range r.slots {
			var found web.Audit
			if found, err = r.admin.at(s.URL()).Audit(ctx, r.skus[0]); err == nil {
				return found.Remaining, nil
			}
		}
		if time.Now().After(end) || guard.Sleep(ctx, settleTime/50) != nil {
			return 0, err
		}
	}
}

// replyOf turns a buyer's outcome into the reply to one request that took as long as all
// attempts together.
func replyOf(at time.Duration, o chaos.Outcome) reply {
	r := reply{Target: o.Shop, At: at, Latency: o.Latency, Service: o.Service, Status: o.Status, Code: o.Code}
	if o.CutOff && o.Status != http.StatusOK && o.Code != "sold_out" {
		r.Status, r.Code = 0, codeCutOff // an earlier attempt may have bought something
	}
	r.Spans, _ = web.ParseHeld(o.Held) // a header that cannot be read is ignored
	return r
}

// judge computes the figures.
func (r *chaosRow) judge(t *tally, found *report.Chaos) report.Row {
	sold := figures.Stock{
		Initial: r.cfg.Stock, Remaining: found.Remaining, Sold: found.Sold, Orders: found.Sold,
		Duplicates: found.Duplicates,
	}
	o := outcome{
		tally: t, told: make([]figures.Told, 1), wall: time.Since(t.start), sent: found.Sent,
		audits: []web.Audit{{Audit: stock.Audit{Stock: sold}}},
	}
	o.open = &report.Open{
		Planned: found.Planned, Sent: found.Sent, Dropped: found.Dropped,
		AchievedRate: float64(found.Sent) / r.cfg.Duration.Seconds(),
		ServiceP50:   t.service.ms(50), ServiceP99: t.service.ms(99), ServiceMax: t.service.ms(100),
	}
	row := r.row(o)
	row.AcknowledgedMissing, row.Unreported, row.Stranded = found.Missing, found.Unreported, found.Stranded
	row.Chaos, row.TTL = found, r.cfg.TTL.String()
	row.OversoldPossible = row.Oversold // no request is in flight any more
	row.Throughput = float64(found.Acknowledged-found.BoughtAtEnd) / r.cfg.Duration.Seconds()
	row.Verdict = chaosVerdict(found)
	may := r.strategy.UnderChaos(r.expectation(row.Keeper))
	row.Undecided, row.Differs = may.Undecided, chaosDiffers(may, found)
	row.Expected = row.Differs == ""
	if row.Undecided && !r.strategy.Comparable(r.cfg.embedded) {
		row.Verdict = figures.NotComparable
	}
	return row
}

// chaosVerdict is the verdict of a row under chaos.
func chaosVerdict(found *report.Chaos) figures.Verdict {
	switch {
	case found.Oversold > 0:
		return figures.Oversold
	case !found.SoldOut:
		return figures.Stuck
	case found.Stranded > 0 || found.Missing > 0 || found.Duplicates > 0 || found.Foreign > 0:
		return figures.Drift
	case found.Remaining > 0:
		return figures.Undersold
	}
	return figures.OK
}

// chaosDiffers says how a row differs from what the strategy may do, or "".
func chaosDiffers(may catalog.Leeway, found *report.Chaos) string {
	var wrong []string
	count := func(n int64, what string) {
		if n > 0 {
			wrong = append(wrong, fmt.Sprintf("%s %d", what, n))
		}
	}
	count(found.Missing, "acknowledged_missing")
	count(found.Duplicates, "duplicates")
	count(found.Foreign, "foreign")
	excused := may.Always || may.Oversells != "" && found.StopsHolder || may.LosesLock
	if !excused {
		count(found.Oversold, "oversold")
	}
	if may.Strands == "" && !excused {
		count(found.Stranded, "stranded")
	}
	for _, d := range found.Faults {
		if d.Error != "" {
			wrong = append(wrong, fmt.Sprintf("%s at %.1f s could not be injected: %s", d.Kind, d.At, d.Error))
		}
	}
	if may.Undecided {
		return ""
	}
	if !may.Sticks {
		for _, d := range found.Faults {
			if d.Late() {
				wrong = append(wrong, fmt.Sprintf("%s at %.1f s: recovery %s (limit %.1f s)", d.Kind, d.At,
					d.Recovery(), d.Limit))
			}
		}
		if !found.SoldOut {
			wrong = append(wrong, fmt.Sprintf("%d units were left after the final sell-out", found.Remaining))
		}
	}
	return strings.Join(wrong, ", ")
}

// slot holds a shop that is killed and restarted. It implements chaos.Shop.
type slot struct {
	cfg   Config
	setup setup
	plan  plan

	mu      sync.Mutex
	shop    *fleet.Member // nil before the first start
	started int
	ended   bool // by the bench
}

// URL implements chaos.Shop.
func (s *slot) URL() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shop == nil || s.ended {
		return ""
	}
	return s.shop.URL
}

// Start implements chaos.Shop.
func (s *slot) Start(ctx context.Context) error {
	s.started++
	with := s.setup
	with.Name = fmt.Sprintf("%s-%d", s.setup.Name, s.started)
	m, err := fleet.Run(ctx, fleet.Program{Name: "instance " + with.Name, Command: s.cfg.Command, Setup: with}, nil)
	if err != nil {
		return err
	}
	if err := m.Tell(ctx, order{Plan: &s.plan}, nil, orderTimeout); err != nil {
		m.Kill()
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shop, s.ended = m, false
	return nil
}

// current returns the running shop, or nil. With ends, the bench is about to end it.
func (s *slot) current(ends bool) *fleet.Member {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shop == nil || s.ended {
		return nil
	}
	s.ended = ends
	return s.shop
}

// Kill implements chaos.Shop.
func (s *slot) Kill() {
	if m := s.current(true); m != nil {
		m.Kill()
	}
}

// End implements chaos.Shop.
func (s *slot) End() {
	if m := s.current(true); m != nil {
		m.Close(stopTimeout)
	}
}

// Pause implements chaos.Shop.
func (s *slot) Pause() error {
	m := s.current(false)
	if m == nil {
		return errors.New("the shop to stop does not run")
	}
	return m.Pause()
}

// Continue implements chaos.Shop.
func (s *slot) Continue() error {
	m := s.current(false)
	if m == nil {
		return errors.New("the shop that was stopped does not run")
	}
	return m.Continue()
}

// Err implements chaos.Shop.
func (s *slot) Err() error {
	if m := s.current(false); m != nil {
		return m.Err()
	}
	return nil
}

// defaultsForChaos fills in the defaults of condition chaos.
func (c Config) defaultsForChaos() Config {
	c.Rate = cmp.Or(c.Rate, ChaosRate)
	c.Duration = cmp.Or(c.Duration, chaosDuration)
	c.TTL = cmp.Or(c.TTL, chaosTTL)
	c.Stock = cmp.Or(c.Stock, int64(c.Duration*time.Duration(c.Rate)/time.Second)+chaosSpare)
	c.Seed = cmp.Or(c.Seed, 1)
	return c
}
