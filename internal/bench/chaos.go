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
	"time"

	"github.com/google/uuid"
	"github.com/jedib0t/go-pretty/v6/table"

	"oversell/internal/bench/chaos"
	"oversell/internal/bench/sheet"
	"oversell/internal/figures"
	"oversell/internal/locks"
	"oversell/internal/stock"
	"oversell/internal/web"
)

// What a row under chaos is run with where nothing else is asked for.
const (
	ChaosRate     = 200 // buyers a second
	ChaosDuration = time.Minute
	ChaosTTL      = 3 * time.Second // more than a sale may take to go on, so that a lock that nobody unlocks shows

	// chaosSpare is how many units are left in the end if every buyer has bought one, so
	// that the item does not sell out while faults happen.
	chaosSpare = 500
)

// ChaosStock is enough units for all buyers of a row under chaos.
func ChaosStock(rate int, duration time.Duration) int64 {
	return int64(duration*time.Duration(rate)/time.Second) + chaosSpare
}

// chaotic reports whether the rows are run under chaos.
func (c Config) chaotic() bool { return slices.Contains(c.Conditions, locks.Chaos) }

// checkChaos returns an error where faults cannot be done, or mean nothing.
func (c Config) checkChaos() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: condition %s "+format, append([]any{ErrConfig, locks.Chaos}, args...)...)
	}
	switch {
	case len(c.Conditions) > 1:
		return bad("stands alone: its servers keep what they are told on disk, and those of other conditions do not")
	case c.Chaos == nil:
		return bad("does harm to Redis and the database, and needs some that the bench starts itself: embedded or local")
	case c.Instances < 2:
		return bad("does things to a whole process, and needs another that goes on: at least 2 instances")
	case c.Keys != NoKeys && c.Keys != UniqueKeys:
		return bad("gives each buyer an idempotency key, which cannot be %s", c.Keys)
	}
	return nil
}

// kinds are the faults that are drawn from.
func (c Config) kinds() ([]chaos.Kind, error) {
	can, cannot := c.Chaos.Kinds()
	for _, k := range c.Faults {
		if slices.Contains(cannot, k) {
			return nil, fmt.Errorf("%w: the fault %s needs a real server: -redis local -db local", ErrConfig, k)
		}
	}
	if len(c.Faults) > 0 {
		return c.Faults, nil
	}
	return can, nil
}

// runChaos runs all rows, each with the seed after that of the one before.
func runChaos(ctx context.Context, cfg Config, p Progress) (rows []Row, err error) {
	kinds, err := cfg.kinds()
	if err != nil {
		return nil, err
	}
	admin := newShopClient(uuid.NewString())
	defer admin.close()
	for repeat := 1; repeat <= cfg.Repeat; repeat++ {
		for _, name := range cfg.Strategies {
			strategy, err := cfg.Catalog.Find(name)
			if err != nil {
				return rows, err
			}
			p.Row(len(rows)+1, len(cfg.Strategies)*cfg.Repeat, name, locks.Chaos)
			r := &chaosRow{
				cfg: cfg, strategy: strategy, kinds: kinds, seed: cfg.Seed + uint64(repeat-1), admin: admin,
				sku: fmt.Sprintf("bench-%s-%d", cfg.ID, len(rows)+1),
			}
			row, err := r.run(ctx, p)
			if err != nil {
				return rows, fmt.Errorf("running %s under %s with seed %d: %w", name, locks.Chaos, r.seed, err)
			}
			row.Repeat = repeat
			rows = append(rows, row)
			p.Done(row)
		}
	}
	return rows, nil
}

// chaosRow is one row under chaos.
type chaosRow struct {
	cfg      Config
	strategy locks.Strategy
	kinds    []chaos.Kind
	seed     uint64
	sku      string
	admin    *shopClient
	shops    []*slot
	links    []*chaos.Link
}

func (r *chaosRow) run(ctx context.Context, p Progress) (row Row, err error) {
	defer func() { err = errors.Join(err, r.close(ctx.Err() != nil)) }()
	if err := r.start(ctx); err != nil {
		return Row{}, err
	}
	keeper := r.cfg.keeper(r.strategy, locks.Chaos)
	if err := r.admin.put(ctx, r.shops[0].URL(), r.sku, r.strategy.Name, r.cfg.Stock, keeper); err != nil {
		return Row{}, err
	}
	before, err := r.admin.audit(ctx, r.shops[0].URL(), r.sku)
	if err != nil {
		return Row{}, err
	}
	draw := chaos.Draw{Seed: r.seed, Kinds: r.kinds, Duration: r.cfg.Duration, TTL: r.cfg.TTL, Shops: r.cfg.Instances}
	t := newTally(chaosLimit)
	var told sync.Mutex
	awaited := int64(r.cfg.Requests)
	p.Waiting(func() int64 {
		told.Lock()
		defer told.Unlock()
		return awaited
	})
	t.begin(time.Now())
	found, err := chaos.Run(ctx, chaos.Config{
		Servers: r.cfg.Chaos, Shops: r.asShops(), Links: r.links, SKU: r.sku, SaleID: before.SaleID,
		Strategy: r.strategy.Name, Units: r.cfg.Stock,
		Seed: r.seed, Faults: draw.Faults(), Rate: r.cfg.Rate, InFlight: r.cfg.InFlight, Duration: r.cfg.Duration,
		TTL: r.cfg.TTL, HolderDies: r.strategy.Kind == locks.Guarded,
		Told: func(at time.Duration, o chaos.Outcome) {
			t.add(replyOf(at, o))
			told.Lock()
			defer told.Unlock()
			awaited--
		},
		Remaining: r.remaining,
	})
	if err != nil {
		return Row{}, err
	}
	return r.row(t, found), nil
}

// chaosLimit is longer than any buyer tries.
const chaosLimit = time.Minute

// start starts the shops, the first of which makes the tables.
func (r *chaosRow) start(ctx context.Context) error {
	p := r.cfg.plan(r.sku, locks.Calm) // what befalls holders here comes from outside
	for n := range r.cfg.Instances {
		link, err := r.cfg.Chaos.Link()
		if err != nil {
			return fmt.Errorf("leading a shop's connections through a relay: %w", err)
		}
		r.links = append(r.links, link)
		s := &slot{cfg: r.cfg, plan: p, setup: setup{
			RedisURL: link.RedisURL, DBURL: link.DBURL, Name: fmt.Sprintf("%s-%d", r.sku, n+1), Token: r.admin.token,
			TTL: r.cfg.TTL, Wait: r.cfg.Wait, Policy: r.cfg.Policy.String(), Unfenced: r.cfg.Unfenced, Servers: r.cfg.Servers,
		}}
		r.shops = append(r.shops, s)
		if err := s.Start(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (r *chaosRow) asShops() []chaos.Shop {
	shops := make([]chaos.Shop, len(r.shops))
	for i, s := range r.shops {
		shops[i] = s
	}
	return shops
}

// close ends the shops. Those of a row that was interrupted are killed: one that is
// stopped, or waits for a server that is, would take its time.
func (r *chaosRow) close(interrupted bool) error {
	var wg sync.WaitGroup
	for _, s := range r.shops {
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

// remaining asks the shops, one after the other, how many units are left.
func (r *chaosRow) remaining(ctx context.Context) (left int64, err error) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for end := time.Now().Add(settleTime); ; {
		for _, s := range r.shops {
			var found web.Audit
			if found, err = r.admin.audit(ctx, s.URL(), r.sku); err == nil {
				return found.Remaining, nil
			}
		}
		if time.Now().After(end) || !until(ctx, timer, time.Now().Add(settleTime/50)) {
			return 0, err
		}
	}
}

// replyOf is a buyer's outcome as that of one request, which took as long as all that
// the buyer tried.
func replyOf(at time.Duration, o chaos.Outcome) reply {
	r := reply{Target: o.Shop, At: at, Latency: o.Latency, Service: o.Service, Status: o.Status, Code: o.Code}
	if o.CutOff && o.Status != http.StatusOK && o.Code != "sold_out" {
		r.Status, r.Code = 0, codeCutOff // an earlier attempt may have bought something
	}
	r.Spans, _ = web.ParseHeld(o.Held) // what cannot be read witnesses nothing
	return r
}

// row computes the figures.
func (r *chaosRow) row(t *tally, found *chaos.Result) Row {
	sold := figures.Stock{
		Initial: r.cfg.Stock, Remaining: found.Remaining, Sold: found.Sold, Orders: found.Sold, Duplicates: found.Duplicates,
	}
	one := &run{cfg: r.cfg, strategy: r.strategy, cond: locks.Chaos, sku: r.sku}
	o := outcome{tally: t, wall: time.Since(t.start), sent: found.Sent, audit: web.Audit{Audit: stock.Audit{Stock: sold}}}
	o.open = &Open{
		Planned: found.Planned, Sent: found.Sent, Dropped: found.Dropped, AchievedRate: float64(found.Sent) / r.cfg.Duration.Seconds(),
		ServiceP50: t.service.ms(50), ServiceP99: t.service.ms(99), ServiceMax: t.service.ms(100),
	}
	row := one.row(o)
	row.AcknowledgedMissing, row.Unreported, row.Stranded = found.Missing, found.Unreported, found.Stranded
	row.Chaos, row.TTL = found, r.cfg.TTL.String()
	row.OversoldPossible = row.Oversold // nothing is under way any more
	row.Throughput = float64(found.Acknowledged-found.BoughtAtEnd) / r.cfg.Duration.Seconds()
	row.Verdict = chaosVerdict(found)
	may := r.strategy.UnderChaos(one.expectation(row.Keeper))
	row.Undecided, row.Differs = may.Undecided, chaosDiffers(may, found)
	row.Expected = row.Differs == ""
	return row
}

// chaosVerdict is the one word for what came of a row.
func chaosVerdict(found *chaos.Result) figures.Verdict {
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

// chaosDiffers says what of a row may not come of the strategy, or "".
func chaosDiffers(may locks.Leeway, found *chaos.Result) string {
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
			wrong = append(wrong, fmt.Sprintf("%s at %.1f s could not be done: %s", d.Kind, d.At, d.Error))
		}
	}
	if may.Undecided {
		return strings.Join(wrong[:min(len(wrong), 0)], "")
	}
	if !may.Sticks {
		for _, d := range found.Faults {
			if d.Late() {
				wrong = append(wrong, fmt.Sprintf("sold again %s after %s at %.1f s instead of within %.1f s", soldAgain(d), d.Kind, d.At, d.Limit))
			}
		}
		if !found.SoldOut {
			wrong = append(wrong, fmt.Sprintf("%d units could not be bought in the end", found.Remaining))
		}
	}
	return strings.Join(wrong, ", ")
}

// soldAgain says after which time the item was sold again.
func soldAgain(d chaos.Done) string {
	switch {
	case d.Skipped:
		return "-"
	case d.Again == nil:
		return "never"
	}
	return fmt.Sprintf("%.2f s", *d.Again)
}

// slot is a place for a shop, which is killed and started again. It implements
// chaos.Shop.
type slot struct {
	cfg   Config
	setup setup
	plan  plan

	mu      sync.Mutex
	shop    *instance // nil: none was started
	started int
	ended   bool // on purpose
}

// URL implements chaos.Shop.
func (s *slot) URL() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shop == nil || s.ended {
		return ""
	}
	return s.shop.url
}

// Start implements chaos.Shop.
func (s *slot) Start(ctx context.Context) error {
	cmd, err := s.cfg.Command()
	if err != nil {
		return err
	}
	s.started++
	with := s.setup
	with.Name = fmt.Sprintf("%s-%d", s.setup.Name, s.started)
	i, err := start(ctx, cmd, with, means{})
	if err != nil {
		return err
	}
	if err := i.follow(ctx, s.plan); err != nil {
		i.kill()
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shop, s.ended = i, false
	return nil
}

// current is the shop that runs; nil: none does. From then on it is known to have ended
// on purpose, if it is to end.
func (s *slot) current(ends bool) *instance {
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
	if i := s.current(true); i != nil {
		i.kill()
	}
}

// End implements chaos.Shop.
func (s *slot) End() {
	if i := s.current(true); i != nil {
		i.stop(stopTimeout)
	}
}

// Pause implements chaos.Shop.
func (s *slot) Pause() error {
	i := s.current(false)
	if i == nil {
		return errors.New("the shop to be stopped does not run")
	}
	return i.proc.Pause()
}

// Continue implements chaos.Shop.
func (s *slot) Continue() error {
	i := s.current(false)
	if i == nil {
		return errors.New("the shop that was stopped does not run")
	}
	return i.proc.Continue()
}

// Err implements chaos.Shop.
func (s *slot) Err() error {
	if i := s.current(false); i != nil && !i.alive() {
		return i.died()
	}
	return nil
}

// shownRows is how many rows the table tells all faults of. Of more rows it tells those
// of the ones that did not come out as they must.
const shownRows = 6

// faults tells of each row under chaos what came of it, and which faults there were.
func (r Report) faults() string {
	var b strings.Builder
	for _, row := range r.Rows {
		if row.Chaos == nil {
			continue
		}
		fmt.Fprintf(&b, "\n%s\n", row.ChaosLine())
		if len(r.Rows) <= shownRows || !row.Expected {
			b.WriteString(faultTable(row))
		}
	}
	return b.String()
}

// ChaosLine says in one line what came of a row under chaos; "" for another row.
func (r Row) ChaosLine() string {
	c := r.Chaos
	if c == nil {
		return ""
	}
	slowest, kind := 0.0, ""
	for _, d := range c.Faults {
		if d.Again != nil && *d.Again >= slowest {
			slowest, kind = *d.Again, string(d.Kind)
		}
	}
	text := fmt.Sprintf("%s, seed %d: acknowledged %d (%d of them in the end), acknowledged_missing %d, duplicates %d, unreported %d, oversold %d, stranded %d, foreign %d",
		r.Strategy, c.Seed, c.Acknowledged, c.BoughtAtEnd, c.Missing, c.Duplicates, c.Unreported, c.Oversold, c.Stranded, c.Foreign)
	if kind != "" {
		text += fmt.Sprintf("; sold again after %.2f s at the latest (%s)", slowest, kind)
	}
	return text
}

// faultTable draws the faults of a row.
func faultTable(row Row) string {
	heads := make([]sheet.Column, len(FaultTitles()))
	for i, title := range FaultTitles() {
		heads[i] = sheet.Column{Title: title, Left: i == 1 || i == 2}
	}
	t := sheet.New(heads)
	for _, line := range row.Faults() {
		cells := make(table.Row, len(line))
		for i, c := range line {
			cells[i] = c
		}
		t.AppendRow(cells)
	}
	return t.Render() + "\n"
}

// FaultTitles are those of the columns of Faults.
func FaultTitles() []string {
	return []string{"at s", "fault", "victim", "planned for s", "lasted s", "sold meanwhile", "sold again after s", "within s"}
}

// Faults are the lines of a table of the faults of a row.
func (r Row) Faults() [][]string {
	if r.Chaos == nil {
		return nil
	}
	var lines [][]string
	for _, d := range r.Chaos.Faults {
		what := string(d.Kind)
		if d.Amount > 0 {
			what += fmt.Sprintf(" by %.0f ms", d.Amount)
		}
		line := []string{fmt.Sprintf("%.2f", d.At), what, d.Victim, fmt.Sprintf("%.2f", d.For)}
		switch {
		case d.Skipped:
			line = append([]string{fmt.Sprintf("(%.2f)", d.Planned)}, line[1:]...)
			line = append(line, "not done", "", "", "")
		default:
			again := strings.TrimSuffix(soldAgain(d), " s")
			if d.Stalled >= 0.1 {
				again += fmt.Sprintf(", %.2f of it stalled", d.Stalled)
			}
			if d.Late() {
				again += " (!)"
			}
			line = append(line, fmt.Sprintf("%.2f", d.Lasted), fmt.Sprint(d.SoldIn), again, fmt.Sprintf("%.0f from the %s", d.Limit, d.From))
		}
		lines = append(lines, line)
	}
	return lines
}

// defaultsForChaos fills in what a row under chaos is run with.
func (c Config) defaultsForChaos() Config {
	c.Rate = cmp.Or(c.Rate, ChaosRate)
	c.Duration = cmp.Or(c.Duration, ChaosDuration)
	c.TTL = cmp.Or(c.TTL, ChaosTTL)
	c.Stock = cmp.Or(c.Stock, ChaosStock(c.Rate, c.Duration))
	c.Seed = cmp.Or(c.Seed, 1)
	return c
}
