// Package web is the shop's HTTP interface: it parses requests, calls the service and
// replies. It does not know how stock is guarded, or where it is kept.
package web

import (
	"context"
	"crypto/subtle"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"
	"go.opentelemetry.io/otel/trace"

	"oversell/internal/cache"
	"oversell/internal/guard"
	"oversell/internal/holds"
	"oversell/internal/holds/payfault"
	"oversell/internal/payment"
	"oversell/internal/stock"
	"oversell/internal/stock/pace"
	"oversell/internal/web/problem"
)

// maxBody bounds a request's body, in bytes.
const maxBody = 4 << 10

// Strategy is the API's description of a strategy.
type Strategy struct {
	Name   string `json:"name"`
	Adds   string `json:"adds"`
	Breaks string `json:"breaks"`
	Cache  bool   `json:"cache"` // whether it can guard the cache's loads too

	// Keepers are where the stock of an item may be that the strategy sells, and Limit says
	// whether it checks an item's limit per buyer. A stage of holds has neither.
	Keepers []stock.Backend `json:"keepers,omitempty"`
	Limit   bool            `json:"limit,omitempty"`

	// Servers names the servers that its lock needs besides Redis and the database, if any.
	Servers string `json:"-"`
}

// Config is what an API is made with.
type Config struct {
	Stock      *stock.Service
	Cache      *cache.Reader
	Strategies []Strategy
	Absent     map[string]string // by name: why this shop lacks a strategy
	Default    string            // the strategy for requests that do not name one
	ForReads   string            // the strategy for such reads if Default cannot guard them
	Instance   string            // unique among all instances
	Token      string            // required for changes; "": not required
	OneEach    bool              // without the token a buyer takes one unit, by the default strategy
	Logger     *slog.Logger

	// Holds sells items by holds; nil: the shop has no routes for them. HoldStages are its
	// stages, and HoldStage is the one for requests that name none. The payment
	// provider signs its webhooks with WebhookSecret.
	Holds         *holds.Service
	HoldStages    []Strategy
	HoldStage     string
	WebhookSecret []byte

	// HoldFaults are those of single payments, and Ledger reads the provider's entries for a
	// sale, or only their number if they are more than most. Both are nil if the provider is
	// not in this process.
	HoldFaults *payfault.Faults
	Ledger     func(saleID string, most int) (entries []payment.Entry, number int)

	// LockErrors are those by which the locks of the strategies say that they were not
	// acquired, beside the domain's own.
	LockErrors []error

	// Page serves all paths that are not the API's; nil: no page.
	Page http.Handler

	// Addr is the address to listen on, as host:port. Hosts are the names that the shop
	// is served under, see ParseHosts, besides those of this machine.
	Addr  string
	Hosts []string

	// Check returns an error if a backend does not answer. Commands returns how many
	// commands Redis has counted since it started, or nil if it does not tell.
	Check    func(ctx context.Context) error
	Commands func(ctx context.Context) (*int64, error)

	// Connections returns for how long connections to the database were in use, together,
	// and how often one was returned to the pool; nil: there are no metrics of it.
	Connections func() (held time.Duration, times int64)

	// Tracer makes spans of purchases; nil: nothing does.
	Tracer trace.Tracer

	// Holders returns how many buyers are inside guarded sections; nil: there is no metric of it.
	Holders func() int64
}

// API answers the shop's requests. It is safe for concurrent use.
type API struct {
	cfg      Config
	strategy atomic.Value // string: the default strategy
	owners   atomic.Uint64
	metrics  *metrics
	outcomes []outcome
	failures pace.LogLimit // for the errors of backends
	withheld pace.LogLimit // for the details that clients do not get
}

// New returns an API.
func New(cfg Config) *API {
	a := &API{cfg: cfg, metrics: newMetrics(cfg), outcomes: outcomesWith(cfg.LockErrors)}
	a.strategy.Store(cfg.Default)
	return a
}

// Close tells what the API does in the background to end. Requests may still run. The caller must
// call Wait afterwards.
func (a *API) Close() { a.metrics.sales.close() }

// Wait waits until nothing runs in the background, but no longer than limit.
func (a *API) Wait(limit time.Duration) { a.metrics.sales.wait(limit) }

// Handler returns the handler of all routes and of the page, with what every request goes through
// before its route.
func (a *API) Handler() http.Handler {
	r := a.routes()
	var all http.Handler = r
	if a.cfg.Page != nil {
		all = beside(r, a.cfg.Page)
	}
	return withHead(notSniffed(a.protected(all)))
}

func (a *API) routes() *gin.Engine {
	gin.SetMode(gin.ReleaseMode) // otherwise gin prints every route
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
	api.DELETE("/items/:sku", a.guarded, none, bodiless, a.deleteItem)
	get(api, "/categories", reads, a.categories)
	get(api, "/audit/:sku", none, a.audit)
	api.POST("/audit/:sku/repair", a.guarded, none, bodiless, a.repair)
	get(api, "/audit/:sku/orders", a.guarded, parameters("after", "limit"), a.orders)
	get(api, "/items/:sku/dead", a.guarded, none, a.deadLetters)
	api.POST("/items/:sku/dead/retry", a.guarded, none, bodiless, a.retryDead)
	get(api, "/orders/:id", parameters("sku"), a.order)
	get(api, "/strategies", none, a.strategies)
	api.PUT("/strategy", a.guarded, none, a.putStrategy)
	if a.cfg.Holds != nil {
		a.holdRoutes(api)
	}
	return r
}

// get adds a route for GET and HEAD.
func get(r gin.IRoutes, path string, handlers ...gin.HandlerFunc) {
	r.GET(path, handlers...)
	r.HEAD(path, handlers...)
}

// parameters refuses requests with any other query parameter.
func parameters(allowed ...string) gin.HandlerFunc {
	return func(c *gin.Context) {
		if _, ok := problem.ReadQuery(c.Writer, c.Request, allowed...); !ok {
			c.Abort()
		}
	}
}

// bodiless refuses requests with a body.
func bodiless(c *gin.Context) {
	if !problem.NoBody(c.Writer, c.Request) {
		c.Abort()
	}
}

// beside serves the paths of the API's routes by the API, and all others by the page.
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
	reply(c, http.StatusInternalServerError, "internal", "internal error")
}

// Challenge replies to a request without the token.
func Challenge(w http.ResponseWriter) {
	w.Header().Set("WWW-Authenticate", `Bearer realm="oversell"`)
	problem.Reply(w, http.StatusUnauthorized, "no_token", "this needs the header Authorization: Bearer TOKEN")
}

// Authorized reports whether a request has the token. If token is "" every request is
// authorized. The name of the scheme may be in lower case (RFC 9110, section 11.1).
func Authorized(r *http.Request, token string) bool {
	if token == "" {
		return true
	}
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare([]byte(given), []byte(token)) == 1
}

// guarded refuses requests without the token, if one is required.
func (a *API) guarded(c *gin.Context) {
	if Authorized(c.Request, a.cfg.Token) {
		return
	}
	c.Abort()
	Challenge(c.Writer)
}

func (a *API) health(c *gin.Context) {
	a.answer(c, gin.H{"status": "ok", "instance": a.cfg.Instance}, a.cfg.Check(c.Request.Context()))
}

func (a *API) strategies(c *gin.Context) {
	reply := gin.H{"default": a.strategy.Load(), "strategies": a.cfg.Strategies}
	if a.cfg.Holds != nil {
		reply["holds"] = gin.H{"default": a.cfg.HoldStage, "stages": a.cfg.HoldStages}
	}
	c.JSON(http.StatusOK, reply)
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
	name := guard.Expand(*body.Name, a.names())
	if !a.known(name) {
		a.unknownStrategy(c, name)
		return
	}
	a.strategy.Store(name)
	a.cfg.Logger.Info("default strategy switched", "strategy", name)
	c.JSON(http.StatusOK, gin.H{"default": name})
}

func (a *API) known(name string) bool {
	return slices.ContainsFunc(a.cfg.Strategies, func(s Strategy) bool { return s.Name == name })
}

func (a *API) guardsReads(name string) bool {
	return slices.ContainsFunc(a.cfg.Strategies, func(s Strategy) bool { return s.Name == name && s.Cache })
}

func (a *API) unknownStrategy(c *gin.Context, name string) {
	detail := "there is no strategy " + problem.Quoted(name)
	if why := a.cfg.Absent[name]; why != "" {
		detail += " here: " + why
	}
	reply(c, http.StatusNotFound, "unknown_strategy", detail+"; the shop has: "+strings.Join(a.names(), ", "))
}

func (a *API) names() []string {
	names := make([]string, len(a.cfg.Strategies))
	for i, s := range a.cfg.Strategies {
		names[i] = s.Name
	}
	return names
}

// strategyKey is the key of the request's strategy in its gin.Context.
const strategyKey = "strategy"

// requested returns the strategy that the request names, or the default one. If there is
// no such strategy it replies and returns false.
func (a *API) requested(c *gin.Context) (string, bool) {
	name := c.Query("strategy")
	if name == "" {
		name = a.strategy.Load().(string)
	}
	if !a.known(name) {
		if name = guard.Expand(name, a.names()); !a.known(name) {
			a.unknownStrategy(c, name)
			return "", false
		}
	}
	c.Set(strategyKey, name)
	return name, true
}
