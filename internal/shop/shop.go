// Package shop assembles the flash sale and runs it: the backends, the catalog's guards,
// the stock service, the cache and the HTTP interface.
package shop

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis/rueidislock"

	"oversell/internal/backend"
	"oversell/internal/backend/lockservers"
	"oversell/internal/cache"
	"oversell/internal/catalog"
	"oversell/internal/guard"
	"oversell/internal/holds"
	"oversell/internal/locks/thirdparty"
	"oversell/internal/stock"
	"oversell/internal/stock/stream"
	"oversell/internal/web"
)

// Config configures a shop. Stock, Holds and Web are the configs of its parts. The shop itself sets
// their backends, strategies and logger, unless a comment says otherwise.
type Config struct {
	Stock stock.Config
	Holds holds.Config // Ledger is the name of Provider in the database; "": its URL
	Web   web.Config   // WebhookSecret is not used for OwnProvider

	RedisURL string               // see backend.DialRedis
	DBURL    string               // see backend.DialDatabase
	Servers  *lockservers.Servers // the servers that some strategies need; nil: none
	Strategy string               // default strategy
	Instance string               // unique among all instances; default: a new UUID
	Logger   *slog.Logger         // default: slog.Default

	TTL      time.Duration // lease of a lock; default 6 s
	Policy   guard.Policy  // how a buyer waits for a lock; default: a guard.Line
	Unfenced bool          // the stock does not check fencing tokens

	// OtherFiles is how many open files the rest of the process needs. The shop serves as many
	// connections at the same time as the limit on open files then allows.
	OtherFiles int

	// Reconcile is the pause between two searches for stranded units in the background; 0: there
	// are no such searches. See stock.Service.ReturnStranded.
	Reconcile time.Duration

	// Provider is the payment provider: "" for none, OwnProvider, or a URL.
	Provider string

	// Stream says how orders are accepted, and Consumer how they are written. With NoConsumer the
	// shop leaves writing to other processes; see Work.
	Stream     stock.Stream
	Consumer   stream.Consumer
	NoConsumer bool

	// RedisEnds says that Redis ends with the shop but the database does not. Then, when the shop
	// closes, it continues to write accepted orders for as long as it waits for purchases. Run
	// returns ErrLost if some orders remain.
	RedisEnds bool

	// If Hurry is not nil and ends after Run's ctx has ended, Run stops waiting.
	Hurry context.Context

	Item *stock.Item // put on sale unless an item with its SKU exists; may be nil

	// DBHeld, if not nil, is called each time a database connection is returned to the pool. The
	// argument is how long the connection was in use.
	DBHeld func(held time.Duration)

	// Hook, if not nil, sees every command to Redis, and Through wraps the connections to the
	// database. Tests and the bench inject faults with them.
	Hook    redis.Hook
	Through func(driver.Connector) driver.Connector

	// AdjustHolds, if not nil, may change how items are sold by holds. The bench injects faults
	// with it.
	AdjustHolds func(cfg *holds.Config)

	// Ready is called once, with the address, when the shop serves requests.
	Ready func(addr string)
}

// The defaults of a Config.
const (
	// DefaultTTL is the default ttl of a lock: how long no buyer is served after a holder was
	// killed. It is shorter than DefaultWait, so that waiters can still be served after that. A
	// lock that is renewed each time a third of its ttl has passed survives stalls and failed
	// renewals of up to 4 s. A lock that is not renewed must last as long as the work, and one
	// statement in it may take 5 s.
	DefaultTTL  = 6 * time.Second
	DefaultWait = 10 * time.Second
	// poolSize is the maximum number of an instance's connections to Redis. Waiters share them, so
	// that thousands can wait.
	poolSize = 128
	// readStrategy is the strategy that guards cached reads if the default strategy cannot.
	readStrategy = "local"
	// DefaultReconcile is the pause after which command shop looks for stranded units again. A round
	// costs two reads for each item, and a count of orders for each item that was sold since the last
	// round.
	DefaultReconcile = 5 * time.Second
	// checkTimeout limits a health check of the backends.
	checkTimeout = time.Second
)

func (c Config) withDefaults() Config {
	c.TTL = cmp.Or(c.TTL, DefaultTTL)
	c.Stock.Wait = cmp.Or(c.Stock.Wait, DefaultWait)
	c.Policy = cmp.Or[guard.Policy](c.Policy, &guard.Line{Delay: 2 * time.Millisecond})
	c.Instance = cmp.Or(c.Instance, uuid.NewString())
	c.Hurry = cmp.Or(c.Hurry, context.Background())
	c.Logger = cmp.Or(c.Logger, slog.Default())
	c.Stock.Logger, c.Holds.Logger, c.Web.Logger = c.Logger, c.Logger, c.Logger
	return c
}

// Run serves requests until ctx is cancelled. Then it refuses the waiters, lets running purchases
// end, and returns nil. If these take longer than 4.5 seconds, for example because the database
// hangs, it closes the backends and returns ErrUnfinished: units may then be taken without an
// order. If accepted orders are lost with Redis, it returns ErrLost. Clients that are slow to send
// or to read are disconnected after 4 seconds.
func Run(ctx context.Context, cfg Config) error {
	cfg = cfg.withDefaults()
	if _, err := catalog.Strategies().Find(cfg.Strategy); err != nil {
		return err
	}
	rdb, hangUp, err := cfg.dial(ctx)
	if err != nil {
		return err
	}
	defer hangUp()
	own, endPayments, err := openPayments(ctx, &cfg)
	if err != nil {
		return err
	}
	defer endPayments()
	at, err := cfg.Servers.Dial(ctx, cfg.TTL)
	if err != nil {
		return err
	}
	defer closing(cfg.Logger, "the connections to the servers of locks", at.Close)
	o := at.Add(catalog.Options{
		Redis: rdb, TTL: cfg.TTL, Policy: cfg.Policy, Unfenced: cfg.Unfenced, Stream: cfg.Stream,
		Rueidislock: thirdparty.NewRueidislock(rdb, rueidislock.LockerOption{KeyValidity: cfg.TTL}),
	})
	defer closing(cfg.Logger, "the connections of rueidislock", o.Rueidislock.Close)
	served, err := cfg.offer(ctx, o)
	if err != nil {
		return err
	}
	endHolds, err := openHolds(ctx, &cfg, own)
	if err != nil {
		return err
	}
	defer endHolds()
	p := assemble(cfg, served, o)
	defer p.api.Wait(sectionTimeout)
	defer p.close()
	if cfg.Item != nil {
		item := *cfg.Item
		item.Family = p.stock.Family(cfg.Strategy)
		if err := p.stock.Offer(ctx, item); err != nil {
			return err
		}
	}
	cfg.logBackends(ctx, rdb)
	if cfg.Reconcile > 0 {
		ctx, cancel := context.WithCancel(ctx)
		var returning sync.WaitGroup
		returning.Go(func() { p.stock.ReturnStranded(ctx, cfg.Reconcile) })
		defer returning.Wait()
		defer cancel()
	}
	stop := func() {}
	if !cfg.NoConsumer {
		stop = consume(ctx, cfg.Hurry, p.stock, cfg.Consumer, p.finishTime)
	}
	err = p.serve(ctx, own)
	stop()
	return errors.Join(err, p.lost(ctx))
}

// dial connects to the backends, and adds them to the config. The caller must call hangUp.
func (c *Config) dial(ctx context.Context) (rdb redis.UniversalClient, hangUp func(), err error) {
	watch := new(backend.RedisWatch)
	rdb, err = watch.Dial(ctx, c.RedisURL, poolSize)
	if err != nil {
		return nil, nil, err
	}
	if c.Hook != nil {
		rdb.AddHook(c.Hook)
	}
	connections := &backend.Connections{Returned: c.DBHeld}
	db, err := backend.DialDatabaseThrough(ctx, c.DBURL, func(inner driver.Connector) driver.Connector {
		inner = connections.Through(inner)
		if c.Through != nil {
			inner = c.Through(inner)
		}
		return inner
	})
	if err != nil {
		return nil, nil, errors.Join(err, rdb.Close())
	}
	pool, err := db.DB()
	if err != nil {
		return nil, nil, errors.Join(err, rdb.Close())
	}
	hangUp = func() {
		closing(c.Logger, "the connections to the database", pool.Close)
		closing(c.Logger, "the connections to Redis", rdb.Close)
	}
	if err := stock.Migrate(ctx, db); err != nil {
		hangUp()
		return nil, nil, err
	}
	c.Stock.DB, c.Stock.Redis, c.Stock.Changes, c.Stock.History = db, rdb, watch.Changes, backend.RedisHistory(rdb)
	c.Web.Check = func(ctx context.Context) error { return check(ctx, rdb, pool) }
	c.Web.Commands = func(ctx context.Context) (*int64, error) { return backend.RedisCommands(ctx, rdb) }
	c.Web.Connections = connections.Held
	return rdb, hangUp, nil
}

// consume writes accepted orders until stop is called. Then stop writes those that are left, for at
// most the time that finishTime returns, and not after hurry has ended. It does not end with ctx,
// because orders of running requests are still accepted.
func consume(
	ctx, hurry context.Context, s *stock.Service, consumer stream.Consumer, finishTime func() time.Duration,
) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	finish, end := context.WithCancel(hurry)
	consumer.Finish = finish
	var consuming sync.WaitGroup
	consuming.Go(func() { s.Consume(ctx, consumer) })
	return func() {
		cancel()
		defer time.AfterFunc(finishTime(), end).Stop()
		consuming.Wait()
		end()
	}
}

// logBackends logs the backends with their versions. It warns if a server does not tell its
// version, or if Redis denies the shop INFO.
func (c *Config) logBackends(ctx context.Context, rdb redis.UniversalClient) {
	redisName, redisErr := backend.RedisName(ctx, rdb, c.RedisURL)
	dbName, dbErr := backend.DatabaseName(ctx, c.Stock.DB)
	if err := errors.Join(redisErr, dbErr); err != nil {
		c.Logger.Warn("a backend does not report its version", "error", err)
	}
	if n, err := backend.RedisCommands(ctx, rdb); n == nil && err == nil {
		c.Logger.Warn("Redis does not let this user run INFO: audits have no redis_commands, and a restart or " +
			"failover of Redis that loses sales goes unnoticed")
	}
	c.Logger.Info("backends", "redis", redisName, "database", dbName)
}

func closing(log *slog.Logger, what string, close func() error) {
	if err := close(); err != nil {
		log.Error("closing "+what, "error", err)
	}
}

// parts holds the parts of a running shop.
type parts struct {
	cfg   Config
	stock *stock.Service
	cache *cache.Reader
	api   *web.API

	closing time.Time // when the shop began to close
}

// assemble makes the stock service, the cache and the API.
func assemble(cfg Config, served catalog.List, o catalog.Options) *parts {
	var holders atomic.Int64
	sales := cfg.Stock
	sales.Inside = func(key string, step int) {
		holders.Add(int64(step))
		if cfg.Stock.Inside != nil {
			cfg.Stock.Inside(key, step)
		}
	}
	served.Sell(&sales, o)
	p := &parts{cfg: cfg, stock: stock.New(sales)}
	p.cache = cache.New(cache.Config{
		Redis: sales.Redis, Guards: served.Guards(o), Instance: cfg.Instance, Wait: sales.Wait, Work: sales.Work,
	})
	api := cfg.Web
	api.Stock, api.Cache, api.Holders = p.stock, p.cache, holders.Load
	api.Strategies, api.Default, api.ForReads = described(served), cfg.Strategy, readStrategy
	api.LockErrors, api.Instance = []error{thirdparty.ErrGaveUp}, cfg.Instance
	p.api = web.New(api)
	return p
}

func described(list catalog.List) []web.Strategy {
	all := make([]web.Strategy, len(list))
	for i, s := range list {
		all[i] = web.Strategy{
			Name: s.Name, Adds: s.Adds, Breaks: s.Breaks, Cache: s.GuardsLoads(),
			Keepers: s.Keepers(), Limit: s.Kind == catalog.Streamed, Servers: servers(s),
		}
	}
	return all
}

// check checks that both backends answer.
func check(ctx context.Context, rdb redis.Cmdable, pool *sql.DB) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	if err := rdb.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("asking Redis: %w", err)
	}
	if err := pool.PingContext(ctx); err != nil {
		return fmt.Errorf("asking the database: %w", err)
	}
	return nil
}

func (p *parts) close() {
	p.api.Close()
	var all sync.WaitGroup // each may wait for a statement that hangs
	all.Go(p.stock.Close)
	all.Go(p.cache.Close)
	all.Wait()
}
