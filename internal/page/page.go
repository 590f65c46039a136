// Package page serves the shop's web page, and the API that only the page uses.
package page

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"

	"oversell/internal/lab/search"
	"oversell/internal/message"
	"oversell/internal/page/runs"
	"oversell/internal/web/problem"
)

// Config configures a Page.
type Config struct {
	Runs      *runs.Manager // of the part Run
	Token     string        // needed to start and stop a run, to search, and to change a class; "": none is needed
	Anomalies Measure       // of the part Break
	Budget    search.Budget // of a search through every schedule
	Class     *Class        // class that buys at this shop; nil: none
	Logger    *slog.Logger
}

// Page is the handler of the page and its API. It is safe for concurrent use. Close must
// be called in the end.
type Page struct {
	http.Handler
	anomalies *Anomalies
}

// Occupy keeps runs of the bench from starting until leave is called. Its error
// wraps runs.ErrBusy while one is under way, or runs.ErrClosed.
type Occupy func(what message.Message) (leave func(), err error)

// New returns a Page. The lab's run and the searches end with ctx. The event streams end with the
// Manager of the runs. Page does not check the origin of requests that change state: see
// web.Config.
func New(ctx context.Context, cfg Config) (*Page, error) {
	read, err := stageHandler()
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
		"/api/class":    classes(cfg.Class, cfg.Token),
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

// Close stops the lab's run and waits for it to finish.
func (p *Page) Close() { p.anomalies.Close() }

// policy is the content security policy: the page loads what the shop serves, and runs
// scripts only from its files.
const policy = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"

// protected sets the headers that protect the page in a browser.
func protected(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", policy)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Referrer-Policy", "no-referrer")
		h.ServeHTTP(w, r)
	})
}

// ownSite refuses requests that a browser sends on behalf of another site. That site could not read
// the reply, but the request would cost the shop much work. Only browsers say which site a request
// comes from.
func ownSite(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Sec-Fetch-Site") == "cross-site" {
			problem.Reply(w, http.StatusForbidden, "cross_origin",
				message.Text("requests from other sites are refused"))
			return
		}
		next(w, r)
	}
}

// replyJSON replies with v as JSON, which must not be cached.
func replyJSON(w http.ResponseWriter, status int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		slog.Error("writing a reply", "error", err)
		problem.Reply(w, http.StatusInternalServerError, "internal", message.Text("the reply could not be written"))
		return
	}
	w.Header().Set("Content-Type", types[".json"])
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(text) // an error means that the client is gone
}
