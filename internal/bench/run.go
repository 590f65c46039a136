package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"oversell/internal/backend"
	"oversell/internal/backend/lockservers"
	"oversell/internal/bench/report"
	"oversell/internal/catalog"
	"oversell/internal/figures"
	"oversell/internal/fleet"
)

// Run runs all rows of the config: see Rows. When it fails or ctx is cancelled, it returns the
// finished rows and the error, which comes from Check, a shop or a backend, or is the cause of ctx.
func Run(ctx context.Context, cfg Config, p Progress) (rows []report.Row, err error) {
	if err := cfg.WithDefaults().Check(); err != nil {
		return nil, err
	}
	if !cfg.running() {
		if cfg.embedded, err = backend.EmbeddedRedis(ctx, cfg.RedisURL); err != nil {
			return nil, err
		}
	}
	if cfg.chaotic() {
		if cfg.Faults, err = cfg.kinds(); err != nil {
			return nil, err
		}
	}
	all := cfg.WithDefaults()
	cfg.ID = all.ID // the rows begin with cfg
	b := &runner{asked: cfg, progress: p, token: cfg.Token, shops: shopsAt(all.Targets)}
	if !cfg.running() {
		b.token = uuid.NewString()
		if b.terms, err = lockservers.Ask(ctx, cfg.Servers); err != nil {
			return nil, err
		}
		b.shops = &shops{command: cfg.Command}
		b.shops.Fleet = fleet.New(b.shops.shop)
		if cfg.Workload == catalog.Hold {
			if b.provider, err = serveProvider(b.shops); err != nil {
				return nil, err
			}
			defer b.provider.close()
		}
		if err := b.configure(all); err != nil {
			return nil, err
		}
		defer func() { b.shops.Stop(stopTimeout) }()
	}
	b.admin = newAdmin(b.token)
	defer b.admin.CloseIdleConnections()
	if cfg.running() {
		if err := b.askTargets(ctx); err != nil {
			return nil, err
		}
	}
	defer func() { err = errors.Join(err, b.tidy(ctx.Err() != nil)) }()
	if b.provider != nil {
		b.buyers = newBuyers(b.shops)
		defer b.buyers.CloseIdleConnections()
	}
	return Rows(ctx, all, b.run, p)
}

// configure sets the setup of instances that start from now on.
func (b *runner) configure(cfg Config) (err error) {
	for _, t := range b.terms { // the rows of all strategies share the instances
		cfg.slack = max(cfg.slack, t.Slack)
	}
	_, watched := b.progress.(Watcher)
	b.shops.gauged = fleet.LiveWords && (watched || slices.ContainsFunc(cfg.Conditions, overtaken))
	s := setup{
		RedisURL: cfg.RedisURL, DBURL: cfg.DBURL, Servers: cfg.Servers, Name: cfg.ID, Token: b.token,
		TTL: cfg.TTL, Wait: cfg.Wait, Unfenced: cfg.Unfenced, Replicas: cfg.Replicas,
	}
	if cfg.Policy != nil {
		s.Policy = cfg.Policy.String()
	}
	if b.provider != nil {
		s.Provider, s.Ledger, s.Secret = b.provider.url, b.provider.url, b.provider.secret
	}
	if !cfg.chaotic() { // the duration of its faults is not known beforehand
		s.RedisURL, err = backend.WithReadTimeout(cfg.RedisURL, cfg.longest(catalog.Pause)+replyTime)
	}
	b.shops.setup = s
	return err
}

// replyTime is how long an instance waits for Redis in addition to the time for which it may be
// paused. So a reply that it was waiting for does not time out when the process goes on.
const replyTime = 2 * time.Second

// runner is a bench in progress.
type runner struct {
	asked    Config // without defaults: the defaults of a row depend on its condition
	progress Progress
	token    string
	shops    *shops
	provider *provider // nil unless the sale is by holds
	terms    map[catalog.Need]lockservers.Terms
	admin    client
	buyers   client   // of a sale by holds
	round    int      // the current round of repeats
	old      int      // number of skus when that round began
	sales    int      // number of sales so far, one for each row
	skus     []string // of items that have not been removed yet
}

// run runs a row once. The run is final if it is not comparable, if buyers were told something
// untrue, or if the bench did not start the shops, so that their stalls are unknown. A run of holds
// is final if the next ttl would be too long.
func (b *runner) run(ctx context.Context, of Case) (r Result, err error) {
	one := &run{cond: of.Condition, admin: b.admin, shops: b.shops, progress: b.progress, stalls: of.Stalls}
	do := one.do
	if b.provider != nil {
		h := &holdRow{run: one, provider: b.provider, client: b.buyers}
		if h.stage, err = catalog.FindHoldStage(of.Strategy); err != nil {
			return r, err
		}
		one.cfg = b.asked.WithDefaults() // the conditions do not change the defaults
		one.cfg.TTL = cmp.Or(of.TTL, one.cfg.TTL)
		do = h.do
	} else {
		if one.strategy, err = catalog.Strategies().Find(of.Strategy); err != nil {
			return r, err
		}
		one.cfg = b.asked.forRow(of, b.terms[one.strategy.Needs])
		one.spread = one.cfg.spread()
		if one.cfg.chaotic() {
			do = (&chaosRow{run: one, patience: chaosPatience}).do
		}
	}
	cfg := one.cfg
	if err := b.removeOld(ctx, of); err != nil {
		return r, err
	}
	if err := b.restart(cfg, of.Condition); err != nil {
		return r, err
	}
	if cfg.chaotic() {
		r.Seed = cfg.Seed
	}
	if !cfg.running() {
		r.TTL, r.Fleet = cfg.TTL, b.shops.Fleet
		if err := b.shops.Fill(ctx, cfg.Instances); err != nil {
			return r, err
		}
	}
	b.sales++
	one.skus = cfg.skus(b.sales) // its own, so that nothing left over from an earlier row counts
	b.skus = append(b.skus, one.skus...)
	r.Row, err = do(ctx)
	r.Missed = one.missed
	r.Final = cfg.running() || cfg.chaotic() || r.Verdict == figures.NotComparable || r.Untrue().String() != ""
	if b.provider != nil {
		r.Final = 2*cfg.TTL > maxHoldTTL
	}
	return r, err
}

// removeOld removes the items of the previous round when a new one begins: by then, late writes for
// them have arrived. If a row has many items, too many would pile up in a round, so they are
// removed one row later.
func (b *runner) removeOld(ctx context.Context, of Case) error {
	again := of.TTL > 0
	if again || b.asked.chaotic() || of.Repeat == b.round && !b.asked.many() {
		return nil
	}
	if err := b.remove(ctx, b.old); err != nil {
		return err
	}
	b.round, b.old = of.Repeat, len(b.skus)
	return nil
}

// restart replaces the instances if cfg or the condition needs different ones. Instances are not
// stopped after a row: the last ones are needed to tidy up.
func (b *runner) restart(cfg Config, c catalog.Condition) error {
	var relayed []string
	switch {
	case c == catalog.Partition && b.provider != nil:
		relayed = []string{toRedis, toDatabase, toProvider}
	case c == catalog.Partition:
		relayed = []string{toRedis}
	case c == catalog.Chaos:
		relayed = []string{toRedis, toDatabase}
	}
	noConsumer := cfg.atSeams(c)
	same := func(s setup) bool { return s.TTL == cfg.TTL && s.NoConsumer == noConsumer }
	if cfg.running() || same(b.shops.setup) && slices.Equal(b.shops.relayed, relayed) && c != catalog.Chaos {
		return nil
	}
	if err := b.shops.Crashed(0); err != nil {
		return err
	}
	b.shops.Stop(stopTimeout)
	err := b.configure(cfg)
	b.shops.relayed, b.shops.setup.NoConsumer = relayed, noConsumer
	return err
}

// tidy removes the items, orders and keys of the bench. After an interruption, instances may still
// be selling, and would write data again after its removal. So they are stopped, and a new one
// removes the data. A new one is also started if none has survived. The user is waiting, so this
// takes at most a few seconds.
func (b *runner) tidy(interrupted bool) error {
	if b.asked.chaotic() {
		if interrupted { // a stopped shop would not end by itself
			_ = b.shops.Each(func(m *fleet.Member) error { m.Kill(); return nil })
		}
		return nil // its servers and their data are thrown away
	}
	if len(b.skus) == 0 || !interrupted && b.shops.Survivor() != nil {
		return b.mayBeLeft(b.remove(context.Background(), len(b.skus)))
	}
	remove := b.remove
	if !b.asked.running() {
		b.shops.Stop(interruptGrace)
		remove = b.removeAnew
	}
	ctx, cancel := context.WithTimeout(context.Background(), interruptTimeout)
	defer cancel()
	return b.mayBeLeft(remove(ctx, len(b.skus)))
}

// mayBeLeft adds the names of the items that were not removed to the error that prevented their
// removal.
func (b *runner) mayBeLeft(err error) error {
	if err == nil {
		return nil
	}
	named, more := b.skus[:min(maxNamed, len(b.skus))], ""
	if len(b.skus) > len(named) {
		more = fmt.Sprintf(" and %d more", len(b.skus)-len(named))
	}
	return fmt.Errorf("%w; these may be left: %s%s", err, strings.Join(named, ", "), more)
}

// The time limits of an interrupted bench.
const (
	interruptGrace   = 2 * time.Second  // for the sales in progress
	interruptTimeout = 10 * time.Second // for the removal of the items
)

// maxNamed is the maximum number of remaining items that are named.
const maxNamed = 100

// removeAnew is like remove, but starts an instance for it.
func (b *runner) removeAnew(ctx context.Context, n int) error {
	b.shops.relayed = nil
	if b.asked.Failovers != nil {
		// The sentinels may be promoting a replica, or have no replica left. The Redis data is
		// thrown away with the servers, but the database may be the user's own.
		redis, err := backend.ServeRedis(ctx, "embedded")
		if err != nil {
			return fmt.Errorf("removing the bench's items: %w", err)
		}
		defer func() { _ = redis.Close() }() // it was empty
		defer b.shops.Stop(interruptGrace)
		b.shops.setup.RedisURL = redis.URL
	}
	if _, err := b.shops.Add(ctx); err != nil {
		return fmt.Errorf("removing the bench's items: %w", err)
	}
	return b.remove(ctx, n)
}

// removeTimeout limits the removal of one item.
const removeTimeout = 20 * time.Second

// remove removes the first n remaining items.
func (b *runner) remove(ctx context.Context, n int) error {
	shop := b.shops.Survivor()
	if shop == nil {
		return nil // no shop is left that could remove them
	}
	removed := 0
	// One after the other: the removals of several items wait for each other in SQLite, until some
	// of them time out.
	err := eachItem(ctx, b.progress, "removing items", n, 1, func(ctx context.Context, i int) error {
		ctx, cancel := context.WithTimeout(ctx, removeTimeout)
		defer cancel()
		if err := b.admin.at(shop.URL).remove(ctx, b.skus[i]); err != nil {
			return fmt.Errorf("removing the bench's items: %w", err)
		}
		removed++
		return nil
	})
	b.skus = b.skus[removed:]
	return err
}
