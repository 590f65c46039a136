package page

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"

	"oversell/internal/lab"
	"oversell/internal/page/runs"
	"oversell/internal/stages"
	"oversell/internal/web"
	"oversell/internal/web/problem"
)

// Config is what a Page is made with.
type Config struct {
	Runs      *runs.Manager // of the part Run
	Token     string        // asked for where a run is started or stopped, and to search; "": nobody is asked
	Anomalies Measure       // of the part Break
	Budget    lab.Budget    // of a search of the part Schedule
	Logger    *slog.Logger  // nil: slog.Default
}

// Page is the handler of the page and of what it asks for. It is safe for
// concurrent use. Close must be called in the end.
type Page struct {
	http.Handler
	anomalies *Anomalies
}

// Occupy keeps runs of the bench from starting until leave is called. Its error
// wraps runs.ErrBusy while one is under way, or runs.ErrClosed.
type Occupy func(what string) (leave func(), err error)

// New returns a Page. What it has under way ends with ctx: the lab's run and the
// searches, and the streams of events with the Manager of the runs. It does not
// look where a request comes from that changes something: see web.Config.
func New(ctx context.Context, cfg Config) (*Page, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	all, err := stages.Stages()
	if err != nil {
		return nil, fmt.Errorf("reading the stages: %w", err)
	}
	read, err := Read(all)
	if err != nil {
		return nil, err
	}
	files, err := newFiles()
	if err != nil {
		return nil, err
	}
	p := &Page{anomalies: Lab(ctx, cfg.Anomalies, cfg.Runs.Occupy, cfg.Logger)}
	mux := http.NewServeMux()
	for path, h := range map[string]http.Handler{
		"/api/runs":     Runs(cfg.Runs, cfg.Token, cfg.Logger),
		"/api/lab":      p.anomalies,
		"/api/schedule": Schedules(ctx, cfg.Token, cfg.Budget, cfg.Runs.Occupy, cfg.Logger),
		"/api/stages":   read,
	} {
		mux.Handle(path, h)
		mux.Handle(path+"/", h)
	}
	mux.Handle("/", files)
	p.Handler = protected(mux)
	return p, nil
}

// Close ends what is under way, and waits for it.
func (p *Page) Close() { p.anomalies.Close() }

// policy lets the page load nothing but what the shop serves, and run nothing that
// is not in a file of the shop's.
const policy = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"

// protected has browsers take nothing for what it is not, and load and run nothing
// but the shop's.
func protected(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", policy)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Referrer-Policy", "no-referrer")
		h.ServeHTTP(w, r)
	})
}

// plain refuses requests with parameters in the query: the handler takes none.
func plain(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if _, ok := problem.ReadQuery(w, r); ok {
			next(w, r)
		}
	}
}

// guarded lets through only requests that show the token, if there is one.
func guarded(token string, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !web.Authorized(r, token) {
			web.Challenge(w)
			return
		}
		next(w, r)
	}
}

// bodiless refuses requests with a body. It is for those that last: only when a body has
// been read does the server see that the client has gone.
func bodiless(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			problem.Reply(w, http.StatusBadRequest, problem.CodeInvalid, "no body is allowed here")
			return
		}
		next(w, r)
	}
}

// ownSite turns away what a browser asks for on behalf of another site. That site
// would learn nothing from the reply; it is for what costs the shop much, or long.
// Who is no browser does not say where a request comes from.
func ownSite(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Sec-Fetch-Site") == "cross-site" {
			problem.Reply(w, http.StatusForbidden, "cross_origin", "another site may not ask for this")
			return
		}
		next(w, r)
	}
}
