// Package shop puts the flash sale together from its parts and runs it: the
// backends, the guards of the catalog, the domain, the cache and the HTTP
// interface.
package shop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"gorm.io/gorm"

	"oversell/internal/backend"
	"oversell/internal/backend/lockservers"
	"oversell/internal/cache"
	"oversell/internal/figures"
	"oversell/internal/locks"
	"oversell/internal/locks/thirdparty"
	"oversell/internal/stock"
	"oversell/internal/web"
)

// Config is what a shop is made with. The zero values of TTL, Wait, Policy and
// Instance stand for the defaults.
type Config struct {
	Addr     string            // to listen on, such as 127.0.0.1:8080
	Hosts    []string          // names that it is served under, besides this machine's own: see web.ParseHosts
	RedisURL string            // as backend.DialRedis takes it
	DBURL    string            // as backend.DialDatabase takes it
	Servers  *lockservers.Lazy // that some strategies need, which are not there without them; nil: none
	Strategy string            // default strategy
	Token    string            // asked for where something is changed; "": nobody is asked
	Instance string            // unique among all instances; default: a new UUID

	TTL    time.Duration // lease of a lock; default 6 s
	Wait   time.Duration // longest wait for a lock; default 10 s
	Policy locks.Policy  // how to wait for a lock; default a line

	// Connections is how many connections to clients are open at once; default
	// what the limit on open files leaves. Files are kept for the shop itself,
	// and OtherFiles for the rest of the process.
	Connections int
	OtherFiles  int

	// WriteTimeout is how long a client may take to read a piece of a reply
	// before it is cut off; default 10 s.
	WriteTimeout time.Duration

	// Unfenced has the stock leave fencing tokens alone, to show what that is
	// like. A lock that gives out none does not notice.
	Unfenced bool

	// Mixed lets strategies that do not keep each other out work on one item at
	// the same time, to show what that is like.
	Mixed bool

	Catalog locks.Catalog
	Item    *stock.Item // put on sale unless there is one with its SKU; nil: nothing
	Work    stock.Work  // what a holder does under the guard; nil: nothing
	Logger  *slog.Logger

	// Inside, unless it is nil, hears of those who sell under the guard, by SKU.
	Inside figures.Inside

	// Page serves all paths that are not the API's; nil: there are none. A request
	// of its that does not end by itself has to end when Run's ctx does.
	Page http.Handler

	// Hook, where it is not nil, sees every command that goes to Redis. It is
	// how a test breaks a lock from outside.
	Hook redis.Hook

	// Ready is called once, with the address, when requests are served.
	Ready func(addr string)
}

// The defaults of a Config.
const (
	// DefaultTTL is how long nobody sells after a holder was killed. So it is shorter
	// than DefaultWait, and those who wait are still served. A lock that is renewed
	// every third of it outlives stalls and failed renewals of up to 4 s; one that is
	// not must last for the work, in which a statement has 5 s.
	DefaultTTL  = 6 * time.Second
	DefaultWait = 10 * time.Second
	// defaultWriteTimeout is for a reply of any size that the buffers of the
	// operating system do not take, or a piece of it.
	defaultWriteTimeout = 10 * time.Second
	// poolSize is how many connections to Redis an instance may have. Waiters
	// share them, so that thousands can wait.
	poolSize = 128
	// readStrategy guards cached reads while the default strategy cannot.
	readStrategy = "local"
	// checkTimeout bounds a look at the health of the backends.
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
		c.Policy = &locks.Line{Delay: 2 * time.Millisecond}
	}
	if c.Instance == "" {
		c.Instance = uuid.NewString()
	}
	if c.Connections == 0 {
		c.Connections = places(openFiles(), c.OtherFiles)
	}
	if c.WriteTimeout == 0 {
		c.WriteTimeout = defaultWriteTimeout
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

// Run serves requests until ctx is cancelled, then turns away those who wait,
// lets the sales under way end, and returns nil. Sales that take longer than
// 4.5 seconds, such as those whose database hangs, lose their backends where
// they are, and Run returns ErrUnfinished: a unit may then be taken with no
// order. Clients that are slow to send or to read are cut off after 4 seconds.
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
	db, err := backend.DialDatabase(ctx, cfg.DBURL)
	if err != nil {
		return err
	}
	defer closing(cfg.Logger, "the connections to the database", func() error { return closeDB(db) })
	if err := stock.Migrate(ctx, db); err != nil {
		return err
	}
	at, err := cfg.Servers.Dial(ctx, cfg.TTL)
	if err != nil {
		return err
	}
	defer closing(cfg.Logger, "the connections to the servers of locks", at.Close)
	o := at.Add(locks.Options{Redis: rdb, TTL: cfg.TTL, Policy: cfg.Policy, Rueidislock: thirdparty.NewRueidislock(rdb, cfg.TTL)})
	defer closing(cfg.Logger, "the connections of rueidislock", o.Rueidislock.Close)
	catalog, absent := offered(ctx, cfg.Catalog, o, db)
	if why := absent[cfg.Strategy]; why != "" {
		return fmt.Errorf("the strategy %s cannot be had: %s", cfg.Strategy, why)
	}
	if err := meet(ctx, catalog, cfg.Strategy, o); err != nil {
		return err
	}
	cfg.Catalog = catalog
	p := assemble(cfg, o, db, watch, absent)
	defer p.close()
	if cfg.Item != nil {
		item := *cfg.Item
		item.Family = p.stock.Family(cfg.Strategy)
		if err := p.stock.Offer(ctx, item); err != nil {
			return err
		}
	}
	introduce(ctx, cfg, rdb, db)
	return p.serve(ctx)
}

// introduce logs what the shop runs on. A server that does not tell its
// version is none the worse for it.
func introduce(ctx context.Context, cfg Config, rdb redis.UniversalClient, db *gorm.DB) {
	redisName, redisErr := backend.RedisName(ctx, rdb, cfg.RedisURL)
	dbName, dbErr := backend.DatabaseName(ctx, db)
	if err := errors.Join(redisErr, dbErr); err != nil {
		cfg.Logger.Warn("a backend does not tell its version", "error", err)
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

// parts are what a running shop consists of.
type parts struct {
	cfg   Config
	stock *stock.Service
	cache *cache.Reader
	api   *web.API
}

func assemble(cfg Config, o locks.Options, db *gorm.DB, watch *backend.RedisWatch, absent map[string]string) *parts {
	rdb := o.Redis
	sales := stock.Config{DB: db, Redis: rdb, Changes: watch.Changes, Wait: cfg.Wait, Work: cfg.Work, Inside: cfg.Inside, Unfenced: cfg.Unfenced, Mixed: cfg.Mixed, Logger: cfg.Logger}
	sales.Use(cfg.Catalog, o)
	p := &parts{cfg: cfg, stock: stock.New(sales)}
	cached := cache.Config{Redis: rdb, Guards: cache.Guards(cfg.Catalog, o), Instance: cfg.Instance, Wait: cfg.Wait}
	if cfg.Work != nil {
		cached.Work = cfg.Work
	}
	p.cache = cache.New(cached)
	p.api = web.New(web.Config{
		Stock: p.stock, Cache: p.cache,
		Strategies: described(cfg.Catalog), Absent: absent, Default: cfg.Strategy, ForReads: readStrategy,
		Instance: cfg.Instance, Token: cfg.Token, Logger: cfg.Logger, Page: cfg.Page, Addr: cfg.Addr, Hosts: cfg.Hosts,
		Check:    func(ctx context.Context) error { return check(ctx, rdb, db) },
		Commands: func(ctx context.Context) (int64, error) { return backend.RedisCommands(ctx, rdb) },
	})
	return p
}

func described(catalog locks.Catalog) []web.Strategy {
	all := make([]web.Strategy, len(catalog))
	for i, s := range catalog {
		all[i] = web.Strategy{Name: s.Name, Adds: s.Adds, Breaks: s.Breaks, Cache: s.GuardsLoads(), Servers: servers(s)}
	}
	return all
}

// check asks both backends whether they are there.
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
	p.stock.Close()
	p.cache.Close()
}
