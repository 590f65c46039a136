// Package web is the shop's HTTP interface: it parses requests, calls the services and replies. It
// does not know how the stock is guarded or where it is kept.
package web

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"oversell/internal/cache"
	"oversell/internal/guard"
	"oversell/internal/holds"
	"oversell/internal/holds/payfault"
	"oversell/internal/message"
	"oversell/internal/naming"
	"oversell/internal/stock"
	"oversell/internal/web/problem"
)

// maxBody is the maximum length of a request's body, in bytes.
const maxBody = 4 << 10

// Strategy is the API's description of a strategy.
type Strategy struct {
	Name   string `json:"name"`
	Adds   string `json:"adds"`
	Breaks string `json:"breaks"`
	Cache  bool   `json:"cache"` // whether it can also guard the cache's loads

	// Keepers lists the backends whose stock the strategy can sell, and Limit says whether it
	// checks an item's limit per buyer. They are not set for a stage of holds.
	Keepers []stock.Backend `json:"keepers,omitempty"`
	Limit   bool            `json:"limit,omitempty"`

	// Servers names the servers that its lock needs besides Redis and the database, if any.
	Servers string `json:"-"`
}

// Config configures an API.
type Config struct {
	Stock      *stock.Service
	Cache      *cache.Reader
	Strategies []Strategy
	Absent     map[string]message.Message // by name: why this shop lacks a strategy
	Default    string                     // the strategy for requests that do not name one
	ForReads   string                     // the strategy for cached reads if Default cannot guard them
	Instance   string                     // unique among all instances
	Token      string                     // required for changes; "": not required
	OneEach    bool                       // buyers without the token get one unit, by the default strategy only
	Logger     *slog.Logger

	// Holds sells items by holds; nil: the shop has no routes for them. HoldStages are its stages,
	// and HoldStage is the stage for requests that do not name one. The payment provider signs its
	// webhooks with WebhookSecret.
	Holds         *holds.Service
	HoldStages    []Strategy
	HoldStage     string
	WebhookSecret []byte

	// HoldFaults sets the faults of single payments; nil if the provider is not in this process.
	HoldFaults *payfault.Faults

	// LockErrors are the errors of the strategies' locks that mean that a lock was not acquired.
	// They do not include the domain's own errors.
	LockErrors []error

	// Page serves all paths outside the API; nil: no page.
	Page http.Handler

	// Addr is the address to listen on, as host:port. Hosts are the names that the shop is served
	// under, besides the names of this machine; see ParseHosts.
	Addr  string
	Hosts []string

	// Check returns an error if a backend does not answer. Commands returns how many commands Redis
	// has counted since it started, or nil if Redis denies INFO.
	Check    func(ctx context.Context) error
	Commands func(ctx context.Context) (*int64, error)

	// Connections returns for how long, in total, database connections were in use, and how many
	// times one was returned to the pool; nil: there are no such metrics.
	Connections func() (held time.Duration, times int64)

	// Tracer makes spans of purchases; nil: they are not traced.
	Tracer trace.Tracer

	// Holders returns how many buyers are inside guarded sections; nil: there is no such metric.
	Holders func() int64
}

// API answers the shop's requests. It is safe for concurrent use.
type API struct {
	cfg      Config
	names    []string     // of the strategies
	strategy atomic.Value // string: the default strategy
	owners   atomic.Uint64
	metrics  *metrics
	outcomes []outcome
	failures guard.LogLimit // limits the log of backends' errors
	withheld guard.LogLimit // limits the log of details that clients must not see
}

// New returns an API.
func New(cfg Config) *API {
	a := &API{cfg: cfg, names: names(cfg.Strategies), metrics: newMetrics(cfg), outcomes: outcomesWith(cfg.LockErrors)}
	a.strategy.Store(cfg.Default)
	return a
}

// Close stops the API's background work. Requests may still run. The caller must call Wait
// afterwards.
func (a *API) Close() { a.metrics.sales.close() }

// Wait waits until the background work has ended, but no longer than limit.
func (a *API) Wait(limit time.Duration) { a.metrics.sales.wait(limit) }

// Handler returns the handler for all routes and the page, with the checks that every request
// passes first.
func (a *API) Handler() http.Handler {
	routes := a.routes()
	all := a.recovered(http.MaxBytesHandler(routes.Handler(), maxBody))
	if a.cfg.Page != nil {
		all = beside(all, slices.Collect(maps.Keys(routes)), a.cfg.Page)
	}
	return withHead(a.protected(all))
}

func (a *API) routes() problem.Routes {
	token := a.cfg.Token
	routes := problem.Routes{
		"GET /healthz":                     a.health,
		"GET /metrics":                     a.metrics.handler().ServeHTTP,
		"POST /api/items/{sku}/deduct":     problem.Parameters(a.deduct, "strategy"),
		"POST /api/items/{sku}/restock":    problem.Guarded(token, problem.Parameters(a.restock)),
		"GET /api/items/{sku}":             problem.Parameters(a.item, "strategy", "second_look"),
		"PUT /api/items/{sku}":             problem.Guarded(token, problem.Parameters(a.putItem)),
		"DELETE /api/items/{sku}":          problem.Guarded(token, problem.Parameters(problem.Bodiless(a.deleteItem))),
		"GET /api/categories":              problem.Parameters(a.categories, "strategy", "second_look"),
		"GET /api/audit/{sku}":             problem.Parameters(a.audit),
		"POST /api/audit/{sku}/repair":     problem.Guarded(token, problem.Parameters(problem.Bodiless(a.repair))),
		"GET /api/audit/{sku}/orders":      problem.Guarded(token, problem.Parameters(a.orders, "after", "limit")),
		"GET /api/items/{sku}/dead":        problem.Guarded(token, problem.Parameters(a.deadLetters)),
		"POST /api/items/{sku}/dead/retry": problem.Guarded(token, problem.Parameters(problem.Bodiless(a.retryDead))),
		"GET /api/orders/{id}":             problem.Parameters(a.order, "sku"),
		"GET /api/strategies":              problem.Parameters(a.strategies),
		"PUT /api/strategy":                problem.Guarded(token, problem.Parameters(a.putStrategy)),
	}
	if a.cfg.Holds != nil {
		maps.Copy(routes, a.holdRoutes())
	}
	return routes
}

// beside sends requests for the API's paths to the API, and all others to the page.
func beside(api http.Handler, patterns []string, page http.Handler) http.Handler {
	var fixed, prefixes []string
	for _, pattern := range patterns {
		_, path, _ := strings.Cut(pattern, " ")
		if prefix, _, parameters := strings.Cut(path, "{"); parameters {
			prefixes = append(prefixes, prefix)
		} else {
			fixed = append(fixed, path)
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

// recovered logs a handler's panic, and replies with an internal error.
func (a *API) recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			reason := recover()
			if reason == http.ErrAbortHandler {
				panic(reason)
			}
			if reason != nil {
				a.cfg.Logger.Error("a handler panicked", "path", r.URL.Path, "reason", reason)
				problem.Reply(w, http.StatusInternalServerError, "internal", message.Text("internal error"))
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// jsonType is the content type of replies.
const jsonType = "application/json; charset=utf-8"

// reply sends v as JSON.
func reply(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encoding a reply: %v", err)) // a bug in this program
	}
	w.Header().Set("Content-Type", jsonType)
	w.WriteHeader(status)
	_, _ = w.Write(body) // an error means that the client has left
}

func (a *API) health(w http.ResponseWriter, r *http.Request) {
	a.answer(w, r, map[string]any{"status": "ok", "instance": a.cfg.Instance}, a.cfg.Check(r.Context()))
}

func (a *API) strategies(w http.ResponseWriter, r *http.Request) {
	all := map[string]any{"default": a.strategy.Load(), "strategies": a.cfg.Strategies}
	if a.cfg.Holds != nil {
		all["holds"] = map[string]any{"default": a.cfg.HoldStage, "stages": a.cfg.HoldStages}
	}
	reply(w, http.StatusOK, all)
}

func (a *API) putStrategy(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Name *string `json:"name"`
	}
	if !problem.ReadBody(w, r.Body, &body) {
		return
	}
	if body.Name == nil {
		invalid(w, `name is missing: {"name":"v4_lua"}`)
		return
	}
	name := naming.Expand(*body.Name, a.names)
	if !slices.Contains(a.names, name) {
		a.unknownStrategy(w, name)
		return
	}
	a.strategy.Store(name)
	a.cfg.Logger.Info("default strategy switched", "strategy", name)
	reply(w, http.StatusOK, map[string]any{"default": name})
}

func (a *API) guardsReads(name string) bool {
	return slices.ContainsFunc(a.cfg.Strategies, func(s Strategy) bool { return s.Name == name && s.Cache })
}

func (a *API) unknownStrategy(w http.ResponseWriter, name string) {
	quoted, offered := problem.Quoted(name), strings.Join(a.names, ", ")
	detail := message.Newf("there is no strategy %s; the shop has: %s", quoted, offered)
	if why, absent := a.cfg.Absent[name]; absent {
		detail = message.Newf("there is no strategy %s here: %s; the shop has: %s", quoted, why, offered)
	}
	problem.Reply(w, http.StatusNotFound, "unknown_strategy", detail)
}

// names returns the names of strategies or stages.
func names(all []Strategy) []string {
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = s.Name
	}
	return names
}

// requested returns the strategy that the request names, or the default one. If there is no such
// strategy, it replies with an error and returns false.
func (a *API) requested(w http.ResponseWriter, r *http.Request) (string, bool) {
	name := naming.Expand(cmp.Or(r.URL.Query().Get("strategy"), a.strategy.Load().(string)), a.names)
	if !slices.Contains(a.names, name) {
		a.unknownStrategy(w, name)
		return "", false
	}
	return name, true
}
