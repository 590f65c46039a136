// Package shop assembles the flash sale and runs it: the backends, the catalog's guards,
// the stock service, the cache and the HTTP interface.
package shop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis/rueidislock"
	"go.opentelemetry.io/otel/trace"
	"gorm.io/gorm"

	"oversell/internal/backend"
	"oversell/internal/backend/lockservers"
	"oversell/internal/cache"
	"oversell/internal/catalog"
	"oversell/internal/figures"
	"oversell/internal/guard"
	"oversell/internal/holds"
	"oversell/internal/locks/thirdparty"
	"oversell/internal/reconcile"
	"oversell/internal/stock"
	"oversell/internal/web"
)

// Config is what a shop is made with. The zero values of TTL, Wait, Policy and Instance
// mean the defaults.
type Config struct {
	Addr     string            // to listen on, such as 127.0.0.1:8080
	Hosts    []string          // names that it is served under, besides this machine's own: see web.ParseHosts
	RedisURL string            // see backend.DialRedis
	DBURL    string            // see backend.DialDatabase
	Servers  *lockservers.Lazy // that some strategies need; nil: none
	Strategy string            // default strategy
	Token    string            // required for changes; "": not required
	Instance string            // unique among all instances; default: a new UUID

	TTL    time.Duration // lease of a lock; default 6 s
	Wait   time.Duration // longest wait for a lock; default 10 s
	Policy guard.Policy  // how to wait for a lock; default a line

	// Connections is the most connections to clients at once. The default is what the
	// limit on open files leaves when the shop has its own files and the rest of the
	// process has OtherFiles.
	Connections int
	OtherFiles  int

	// WriteTimeout is how long a client may take to read a piece of a reply before it is
	// cut off; default 10 s.
	WriteTimeout time.Duration

	// Unfenced makes the stock ignore fencing tokens, to show what they are for. Locks
	// without tokens behave the same.
	Unfenced bool

	// Mixed lets strategies that do not exclude each other sell one item at the same
	// time, to show what happens.
	Mixed bool

	// Reconcile is the pause between two searches for stranded units in the background; 0:
	// none. One of the shops that have it does it, see package reconcile.
	Reconcile time.Duration

	// HoldTTL, HoldLimit, HoldSweep and HoldSettle are those of holds.Config. Provider is where
	// payments go: "" for nowhere, OwnProvider, or a URL, whose webhooks WebhookSecret signs.
	// ProviderName is its name in the database, where each payment has that of the provider at
	// which it began; "": the URL. Not for OwnProvider, which has a new one each time.
	HoldTTL       time.Duration
	HoldLimit     int64
	HoldSweep     time.Duration
	HoldSettle    time.Duration
	Provider      string
	ProviderName  string
	WebhookSecret []byte

	// Consumer says how accepted orders are written. With NoConsumer the shop leaves that
	// to others, see Work. Backlog is how many accepted orders of an item may wait to be
	// written until buyers are refused; 0: the default of package stock.
	Consumer   stock.Consumer
	NoConsumer bool
	Backlog    int

	// RedisEnds says that Redis ends with the shop and the database does not. Then accepted orders
	// are written for as long as a purchase may take, and Run returns ErrLost if some remain.
	RedisEnds bool

	// Hurry, if not nil, makes Run wait for nothing more when it ends after Run's ctx.
	Hurry context.Context

	// AcceptReplicas is how many replicas of Redis must have an accepted order before its
	// buyer is told of it: see stock.Stream.
	AcceptReplicas int

	Catalog catalog.List
	Item    *stock.Item // put on sale unless an item with its SKU exists; nil: nothing
	Work    stock.Work  // what a holder does under the guard; nil: nothing
	// OneEach is that of web.Config.
	OneEach bool
	// QuickLoads leaves the work out of loads into the cache.
	QuickLoads bool
	Logger     *slog.Logger

	// Inside, if not nil, is told when a holder enters and leaves, by SKU.
	Inside figures.Inside

	// Tracer makes spans of purchases; nil: nothing does.
	Tracer trace.Tracer

	// DBHeld, if not nil, is told for how long each connection to the database was out of
	// the pool.
	DBHeld func(held time.Duration)

	// Page serves all paths that are not the API's; nil: no page. Its requests that do
	// not end by themselves must end when Run's ctx does.
	Page http.Handler

	// Hook, if not nil, sees every command to Redis. Tests break locks with it.
	Hook redis.Hook

	// AdjustHolds, if not nil, may change how items are sold by holds: cfg was made with b.
	// The shop calls what it returns at the end. The bench injects faults with it.
	AdjustHolds func(cfg *holds.Config, b holds.Backends) (closing func() error)

	// Ready is called once, with the address, when the shop serves requests.
	Ready func(addr string)
}

// The defaults of a Config.
const (
	// DefaultTTL is how long nobody sells after a holder was killed. It is shorter than
	// DefaultWait, so that waiters are still served then. A lock that is renewed every
	// third of it survives stalls and failed renewals of up to 4 s. A lock that is not
	// renewed must last for the work, in which one statement may take 5 s.
	DefaultTTL  = 6 * time.Second
	DefaultWait = 10 * time.Second
	// defaultWriteTimeout is the default of WriteTimeout.
	defaultWriteTimeout = 10 * time.Second
	// poolSize is the most connections to Redis of an instance. Waiters share them, so
	// that thousands can wait.
	poolSize = 128
	// readStrategy guards cached reads if the default strategy cannot.
	readStrategy = "local"
	// DefaultReconcile is how often the program shop looks for stranded units. A round
	// costs two reads for each item, and a count of the orders of those that were sold
	// since the last one.
	DefaultReconcile = 5 * time.Second
	// checkTimeout bounds a health check of the backends.
	checkTimeout = time.Second
)

func (c Config) withDefaults() Config {
	if c.TTL == 0 {
		c.TTL = DefaultTTL
	}
	if c.Wait == 0 {
		c.Wait = DefaultWait
	}
	if c.Policy == nil {
		c.Policy = &guard.Line{Delay: 2 * time.Millisecond}
	}
	if c.Instance == "" {
		c.Instance = uuid.NewString()
	}
	if c.Connections == 0 {
		c.Connections = maxConnections(openFiles(), c.OtherFiles)
	}
	if c.WriteTimeout == 0 {
		c.WriteTimeout = defaultWriteTimeout
	}
	if c.Hurry == nil {
		c.Hurry = context.Background()
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

// Run serves requests until ctx is cancelled. Then it turns waiters away, lets running
// sales end, and returns nil. If sales take longer than 4.5 seconds, for example because the
// database hangs, it closes the backends and returns ErrUnfinished: a unit may then be taken
// with no order. If accepted orders are lost with Redis it returns ErrLost. Clients that are slow
// to send or to read are cut off after 4 seconds.
func Run(ctx context.Context, cfg Config) error {
	cfg = cfg.withDefaults()
	if _, err := cfg.Catalog.Find(cfg.Strategy); err != nil {
		return err
	}
	watch := new(backend.RedisWatch)
	rdb, err := watch.Dial(ctx, cfg.RedisURL, poolSize)
	if err != nil {
		return err
	}
	defer closing(cfg.Logger, "the connections to Redis", rdb.Close)
	if cfg.Hook != nil {
		rdb.AddHook(cfg.Hook)
	}
	connections := &backend.Connections{Returned: cfg.DBHeld}
	db, err := backend.DialDatabaseThrough(ctx, cfg.DBURL, connections.Through)
	if err != nil {
		return err
	}
	defer closing(cfg.Logger, "the connections to the database", func() error { return closeDB(db) })
	if err := errors.Join(stock.Migrate(ctx, db), holds.Migrate(ctx, db)); err != nil {
		return err
	}
	paid, err := openPayments(ctx, cfg)
	if err != nil {
		return err
	}
	defer paid.close()
	at, err := cfg.Servers.Dial(ctx, cfg.TTL)
	if err != nil {
		return err
	}
	defer closing(cfg.Logger, "the connections to the servers of locks", at.Close)
	o := at.Add(catalog.Options{Redis: rdb, TTL: cfg.TTL, Policy: cfg.Policy, Backlog: cfg.Backlog, AcceptReplicas: cfg.AcceptReplicas, Rueidislock: thirdparty.NewRueidislock(rdb, rueidislock.LockerOption{KeyValidity: cfg.TTL})})
	defer closing(cfg.Logger, "the connections of rueidislock", o.Rueidislock.Close)
	served, absent := offered(cfg.Catalog, o, db)
	if why := absent[cfg.Strategy]; why != "" {
		return fmt.Errorf("the strategy %s is not available: %s", cfg.Strategy, why)
	}
	if err := prepare(ctx, served, cfg.Strategy, o); err != nil {
		return err
	}
	cfg.Catalog = served
	held, err := openHolds(cfg, rdb, db, paid)
	if err != nil {
		return err
	}
	defer closing(cfg.Logger, "the connections of the sale by holds", held.done)
	defer held.Close()
	p := assemble(cfg, o, db, watch, connections, absent, held, paid)
	defer p.api.Wait(sectionTimeout)
	defer p.close()
	if cfg.Item != nil {
		item := *cfg.Item
		item.Family = p.stock.Family(cfg.Strategy)
		if err := p.stock.Offer(ctx, item); err != nil {
			return err
		}
	}
	logBackends(ctx, cfg, rdb, db)
	if cfg.Reconcile > 0 {
		if err := reconcile.Migrate(ctx, db); err != nil {
			return err
		}
		defer reconcile.Start(ctx, reconcile.Config{Stock: p.stock, DB: db, Every: cfg.Reconcile, Logger: cfg.Logger})()
	}
	stop := p.consume(ctx)
	err = p.serve(ctx)
	stop()
	return errors.Join(err, p.lost(ctx))
}

// consume writes accepted orders until stop is called. It does not end with ctx: requests
// that are running then are still accepted.
func (p *parts) consume(ctx context.Context) (stop func()) {
	if p.cfg.NoConsumer {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	finish, end := context.WithCancel(p.cfg.Hurry)
	consumer := p.cfg.Consumer
	consumer.Finish = finish
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.stock.Consume(ctx, consumer)
	}()
	return func() {
		cancel()
		defer time.AfterFunc(p.finishTime(), end).Stop()
		<-done
		end()
	}
}

// logBackends logs the backends with their versions, and a right that the shop lacks in Redis. A
// server need not tell its version.
func logBackends(ctx context.Context, cfg Config, rdb redis.UniversalClient, db *gorm.DB) {
	redisName, redisErr := backend.RedisName(ctx, rdb, cfg.RedisURL)
	dbName, dbErr := backend.DatabaseName(ctx, db)
	if err := errors.Join(redisErr, dbErr); err != nil {
		cfg.Logger.Warn("a backend does not tell its version", "error", err)
	}
	if n, err := backend.RedisCommands(ctx, rdb); n == nil && err == nil {
		cfg.Logger.Warn("Redis refuses INFO to this user: audits have no redis_commands, " +
			"and a restart or failover of Redis that loses sales is not noticed")
	}
	cfg.Logger.Info("backends", "redis", redisName, "database", dbName)
}

func closeDB(db *gorm.DB) error {
	pool, err := db.DB()
	if err != nil {
		return err
	}
	return pool.Close()
}

func closing(log *slog.Logger, what string, close func() error) {
	if err := close(); err != nil {
		log.Error("closing "+what, "error", err)
	}
}

// parts are the parts of a running shop.
type parts struct {
	cfg   Config
	paid  *payments
	stock *stock.Service
	cache *cache.Reader
	api   *web.API

	closing time.Time // when it was told to end
}

func assemble(cfg Config, o catalog.Options, db *gorm.DB, watch *backend.RedisWatch, connections *backend.Connections, absent map[string]string, held *heldSale, paid *payments) *parts {
	rdb := o.Redis
	var holders atomic.Int64
	inside := func(key string, step int) {
		holders.Add(int64(step))
		if cfg.Inside != nil {
			cfg.Inside(key, step)
		}
	}
	sales := stock.Config{Holds: held.Service, DB: db, Redis: rdb, Changes: watch.Changes, History: backend.RedisHistory(rdb), Wait: cfg.Wait, Work: cfg.Work, Inside: inside, Unfenced: cfg.Unfenced, Mixed: cfg.Mixed, Logger: cfg.Logger}
	cfg.Catalog.Sell(&sales, o)
	p := &parts{cfg: cfg, paid: paid, stock: stock.New(sales)}
	cached := cache.Config{Redis: rdb, Guards: cfg.Catalog.Guards(o), Instance: cfg.Instance, Wait: cfg.Wait}
	if cfg.Work != nil && !cfg.QuickLoads {
		cached.Work = cfg.Work
	}
	p.cache = cache.New(cached)
	p.api = web.New(web.Config{
		Stock: p.stock, Cache: p.cache,
		Holds: held.Service, HoldStages: holdStages(), HoldStage: catalog.DefaultHoldStage, WebhookSecret: paid.secret,
		HoldFaults: held.faults, Ledger: paid.ledger(),
		Strategies: described(cfg.Catalog), Absent: absent, Default: cfg.Strategy, ForReads: readStrategy,
		LockErrors: []error{thirdparty.ErrGaveUp},
		Instance:   cfg.Instance, Token: cfg.Token, OneEach: cfg.OneEach, Logger: cfg.Logger, Page: cfg.Page, Addr: cfg.Addr, Hosts: cfg.Hosts,
		Check:       func(ctx context.Context) error { return check(ctx, rdb, db) },
		Commands:    func(ctx context.Context) (*int64, error) { return backend.RedisCommands(ctx, rdb) },
		Connections: connections.Held, Holders: holders.Load, Tracer: cfg.Tracer,
	})
	return p
}

func described(list catalog.List) []web.Strategy {
	all := make([]web.Strategy, len(list))
	for i, s := range list {
		all[i] = web.Strategy{Name: s.Name, Adds: s.Adds, Breaks: s.Breaks, Cache: s.GuardsLoads(), Keepers: keepers(s), Limit: s.Kind == catalog.Streamed, Servers: servers(s)}
	}
	return all
}

// keepers are where the stock may be for a strategy.
func keepers(s catalog.Strategy) []stock.Backend {
	switch {
	case s.InDatabase():
		return []stock.Backend{stock.InDatabase}
	case s.InRedis():
		return []stock.Backend{stock.InRedis}
	}
	return []stock.Backend{stock.InRedis, stock.InDatabase}
}

// check asks both backends for an answer.
func check(ctx context.Context, rdb redis.UniversalClient, db *gorm.DB) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	if err := rdb.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("asking Redis: %w", err)
	}
	pool, err := db.DB()
	if err != nil {
		return fmt.Errorf("asking the database: %w", err)
	}
	if err := pool.PingContext(ctx); err != nil {
		return fmt.Errorf("asking the database: %w", err)
	}
	return nil
}

func (p *parts) close() {
	p.api.Close()
	p.stock.Close()
	p.cache.Close()
}
