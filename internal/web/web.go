// Package web is the shop's HTTP interface: it parses, calls and replies. What
// a sale is, how stock is guarded and where things are kept it does not know.
package web

import (
	"context"
	"crypto/subtle"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/gin-gonic/gin"

	"oversell/internal/cache"
	"oversell/internal/stock"
	"oversell/internal/web/problem"
)

// maxBody bounds a request's body, in bytes.
const maxBody = 4 << 10

// Strategy is what the API tells about a strategy.
type Strategy struct {
	Name   string `json:"name"`
	Adds   string `json:"adds"`
	Breaks string `json:"breaks"`
	Cache  bool   `json:"cache"` // whether it can guard the cache's loads, too

	// Servers is what its lock lives on beside Redis and the database; "": nothing.
	Servers string `json:"-"`
}

// Config is what an API is made with.
type Config struct {
	Stock      *stock.Service
	Cache      *cache.Reader
	Strategies []Strategy
	Absent     map[string]string // by name: why the shop has a strategy not that others have
	Default    string            // name of the strategy for requests that name none
	ForReads   string            // the same for reads, while the default strategy cannot guard them
	Instance   string            // unique among all instances
	Token      string            // asked for where something is changed; "": nobody is asked
	Logger     *slog.Logger

	// Page serves all paths that are not the API's; nil: there are none.
	Page http.Handler

	// Addr is what the shop listens on, as host:port, and Hosts are names that it is
	// served under: see ParseHosts. This machine's own names need not be given.
	Addr  string
	Hosts []string

	// Check tells whether the backends answer; Commands how many commands
	// Redis has counted since it started.
	Check    func(ctx context.Context) error
	Commands func(ctx context.Context) (int64, error)
}

// API answers the shop's requests. It is safe for concurrent use.
type API struct {
	cfg      Config
	strategy atomic.Value // string: the default strategy
	owners   atomic.Uint64
	metrics  *metrics
	failures sparing // of the backends, for the log
	untold   sparing // what clients are not told, for the log
}

// New returns an API.
func New(cfg Config) *API {
	a := &API{cfg: cfg, metrics: newMetrics()}
	a.strategy.Store(cfg.Default)
	return a
}

// Handler returns the routes, and what every request goes through.
func (a *API) Handler() http.Handler { return a.around(a.routes()) }

func (a *API) routes() *gin.Engine {
	gin.SetMode(gin.ReleaseMode) // or it prints every route
	r := gin.New()
	r.HandleMethodNotAllowed = true
	r.RedirectTrailingSlash = false
	r.Use(gin.CustomRecoveryWithWriter(nil, a.recovered), limitBody)
	r.NoRoute(func(c *gin.Context) {
		reply(c, http.StatusNotFound, "no_such_path", "no such path")
	})
	r.NoMethod(func(c *gin.Context) {
		reply(c, http.StatusMethodNotAllowed, "wrong_method", "allowed here: "+c.Writer.Header().Get("Allow"))
	})

	get(r, "/healthz", a.health)
	get(r, "/metrics", gin.WrapH(a.metrics.handler()))
	none, reads := parameters(), parameters("strategy", "second_look")
	api := r.Group("/api")
	api.POST("/items/:sku/deduct", parameters("strategy"), a.deduct)
	get(api, "/items/:sku", reads, a.item)
	api.PUT("/items/:sku", a.guarded, none, a.putItem)
	api.DELETE("/items/:sku", a.guarded, none, a.deleteItem)
	get(api, "/categories", reads, a.categories)
	get(api, "/audit/:sku", none, a.audit)
	get(api, "/audit/:sku/orders", a.guarded, parameters("after", "limit"), a.orders)
	get(api, "/strategies", none, a.strategies)
	api.PUT("/strategy", a.guarded, none, a.putStrategy)
	return r
}

// around is what a request goes through before its route.
func (a *API) around(r *gin.Engine) http.Handler {
	var all http.Handler = r
	if a.cfg.Page != nil {
		all = beside(r, a.cfg.Page)
	}
	return withHead(notSniffed(a.sheltered(all)))
}

// get adds a route that answers HEAD as well, as every GET does.
func get(r gin.IRoutes, path string, handlers ...gin.HandlerFunc) {
	r.GET(path, handlers...)
	r.HEAD(path, handlers...)
}

// parameters refuses requests with other parameters in the query than these.
func parameters(allowed ...string) gin.HandlerFunc {
	return func(c *gin.Context) {
		if _, ok := problem.ReadQuery(c.Writer, c.Request, allowed...); !ok {
			c.Abort()
		}
	}
}

// beside has the API serve the paths of its routes, and the page all others.
func beside(api *gin.Engine, page http.Handler) http.Handler {
	var fixed, prefixes []string
	for _, route := range api.Routes() {
		if prefix, _, parameters := strings.Cut(route.Path, ":"); parameters {
			prefixes = append(prefixes, prefix)
		} else {
			fixed = append(fixed, route.Path)
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		below := func(prefix string) bool { return strings.HasPrefix(r.URL.Path, prefix) }
		if slices.Contains(fixed, r.URL.Path) || slices.ContainsFunc(prefixes, below) {
			api.ServeHTTP(w, r)
			return
		}
		page.ServeHTTP(w, r)
	})
}

func limitBody(c *gin.Context) {
	c.Request.Body = http.MaxBytesReader(c.Writer, c.Request.Body, maxBody)
}

func (a *API) recovered(c *gin.Context, reason any) {
	a.cfg.Logger.Error("a handler panicked", "path", c.Request.URL.Path, "reason", reason)
	reply(c, http.StatusInternalServerError, "internal", "the shop made a mistake")
}

// Challenge replies to who does not show the token.
func Challenge(w http.ResponseWriter) {
	w.Header().Set("WWW-Authenticate", `Bearer realm="oversell"`)
	problem.Reply(w, http.StatusUnauthorized, "no_token", "this needs the header Authorization: Bearer TOKEN")
}

// Authorized reports whether a request shows the token, or there is none to be
// shown.
func Authorized(r *http.Request, token string) bool {
	if token == "" {
		return true
	}
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return ok && subtle.ConstantTimeCompare([]byte(given), []byte(token)) == 1
}

// guarded lets through only who knows the token, if there is one.
func (a *API) guarded(c *gin.Context) {
	if Authorized(c.Request, a.cfg.Token) {
		return
	}
	c.Abort()
	Challenge(c.Writer)
}

func (a *API) health(c *gin.Context) {
	if err := a.cfg.Check(c.Request.Context()); err != nil {
		a.fail(c, err)
		return
	}
	c.JSON(http.StatusOK, gin.H{"status": "ok", "instance": a.cfg.Instance})
}

func (a *API) strategies(c *gin.Context) {
	c.JSON(http.StatusOK, gin.H{"default": a.strategy.Load(), "strategies": a.cfg.Strategies})
}

func (a *API) putStrategy(c *gin.Context) {
	var body struct {
		Name *string `json:"name"`
	}
	if !a.parse(c, &body) {
		return
	}
	if body.Name == nil {
		invalid(c, `name is missing: {"name":"v4_lua"}`)
		return
	}
	if !a.known(*body.Name) {
		a.unknownStrategy(c, *body.Name)
		return
	}
	a.strategy.Store(*body.Name)
	a.cfg.Logger.Info("default strategy switched", "strategy", *body.Name)
	c.JSON(http.StatusOK, gin.H{"default": *body.Name})
}

func (a *API) known(name string) bool {
	return slices.ContainsFunc(a.cfg.Strategies, func(s Strategy) bool { return s.Name == name })
}

func (a *API) guardsReads(name string) bool {
	return slices.ContainsFunc(a.cfg.Strategies, func(s Strategy) bool { return s.Name == name && s.Cache })
}

func (a *API) unknownStrategy(c *gin.Context, name string) {
	var names []string
	for _, s := range a.cfg.Strategies {
		names = append(names, s.Name)
	}
	detail := "there is no strategy " + problem.Quoted(name)
	if why := a.cfg.Absent[name]; why != "" {
		detail += " here: " + why
	}
	reply(c, http.StatusNotFound, "unknown_strategy", detail+"; the shop has: "+strings.Join(names, ", "))
}

// askedKey is where a request's context keeps the strategy that asked returned.
const askedKey = "strategy"

// asked returns the strategy that the request asks for, or the default one. It
// replies and returns false when there is no such strategy.
func (a *API) asked(c *gin.Context) (string, bool) {
	name := c.Query("strategy")
	if name == "" {
		name = a.strategy.Load().(string)
	}
	if !a.known(name) {
		a.unknownStrategy(c, name)
		return "", false
	}
	c.Set(askedKey, name)
	return name, true
}
