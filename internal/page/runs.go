package page

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"oversell/internal/message"
	"oversell/internal/page/runs"
	"oversell/internal/page/texts"
	"oversell/internal/present"
	"oversell/internal/web/problem"
)

// maxSettings is the maximum size of a request body with a run's settings, in bytes.
const maxSettings = 4 << 10

// Runs returns the handler of the part Run, which starts benches and shows them:
//
//	GET  /api/runs/options          what can be chosen, and whether a token is needed
//	POST /api/runs                  starts a run, one at a time
//	GET  /api/runs                  the runs that are kept
//	GET  /api/runs/{id}             one of them, with its rows
//	POST /api/runs/{id}/stop        stops it
//	GET  /api/runs/{id}/report.html the bench's report, which needs no network; ?lang=zh in Chinese
//	GET  /api/runs/events           a stream of events
//
// A run does not belong to a client: it goes on when the client that started it is gone, and all
// clients see the same state. The handler is safe for concurrent use. Its streams end when the
// Manager is closed.
func Runs(m *runs.Manager, token string, logger *slog.Logger) http.Handler {
	h := &runsHandler{manager: m, token: token, logger: logger}
	return problem.Routes{
		"GET /api/runs/options":          problem.Parameters(h.options),
		"GET /api/runs/events":           ownSite(problem.Parameters(problem.Bodiless(h.events))),
		"HEAD /api/runs/events":          ownSite(problem.Parameters(streamHeader)),
		"GET /api/runs":                  problem.Parameters(h.list),
		"POST /api/runs":                 problem.Guarded(token, problem.Parameters(h.start)),
		"GET /api/runs/{id}":             problem.Parameters(h.get),
		"POST /api/runs/{id}/stop":       problem.Guarded(token, problem.Parameters(h.stop)),
		"GET /api/runs/{id}/report.html": h.report,
	}.Handler()
}

type runsHandler struct {
	manager *runs.Manager
	token   string
	logger  *slog.Logger
	streams admission
}

func (h *runsHandler) options(w http.ResponseWriter, _ *http.Request) {
	replyJSON(w, http.StatusOK, struct {
		TokenNeeded bool `json:"token_needed"`
		runs.Options
	}{h.token != "", h.manager.Options()})
}

func (h *runsHandler) list(w http.ResponseWriter, _ *http.Request) {
	replyJSON(w, http.StatusOK, map[string]any{"runs": h.manager.List()})
}

func (h *runsHandler) get(w http.ResponseWriter, r *http.Request) {
	run, err := h.manager.Get(r.PathValue("id"))
	if err != nil {
		h.failed(w, r, err)
		return
	}
	replyJSON(w, http.StatusOK, run)
}

func (h *runsHandler) start(w http.ResponseWriter, r *http.Request) {
	settings := h.manager.Defaults()
	if !problem.ReadBody(w, http.MaxBytesReader(w, r.Body, maxSettings), &settings) {
		return
	}
	id, err := h.manager.Start(settings)
	if err != nil {
		h.failed(w, r, err)
		return
	}
	h.logger.Info("a run of the bench was started", "run", id,
		"rows", len(settings.Strategies)*len(settings.Conditions), "requests", settings.Requests)
	w.Header().Set("Location", "/api/runs/"+id)
	replyJSON(w, http.StatusCreated, map[string]string{"id": id})
}

func (h *runsHandler) stop(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	if err := h.manager.Stop(id); err != nil {
		h.failed(w, r, err)
		return
	}
	replyJSON(w, http.StatusAccepted, map[string]any{"id": id, "state": runs.Stopping})
}

func (h *runsHandler) report(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	parameters, ok := problem.ReadQuery(w, r, "lang")
	if !ok {
		return
	}
	language, err := texts.OfBench(cmp.Or(parameters["lang"], texts.English))
	if err != nil {
		problem.Reply(w, http.StatusBadRequest, problem.CodeInvalid, message.Newf("lang: %s", err))
		return
	}
	var text bytes.Buffer
	if err := h.manager.Report(id, &text, present.Style{Language: language}); err != nil {
		h.failed(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Disposition", `attachment; filename="oversell-`+id+`.html"`) // the id exists
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(text.Bytes()) // an error means that the client is gone
}

// failed replies to a request that failed with err.
func (h *runsHandler) failed(w http.ResponseWriter, r *http.Request, err error) {
	for _, known := range []struct {
		err    error
		status int
		code   string
	}{
		{runs.ErrSettings, http.StatusBadRequest, problem.CodeInvalid},
		{runs.ErrUnknownRun, http.StatusNotFound, "unknown_run"},
		{runs.ErrBusy, http.StatusConflict, "busy"},
		{runs.ErrOccupied, http.StatusConflict, "occupied"},
		{runs.ErrNotRunning, http.StatusConflict, "not_running"},
		{runs.ErrNoReport, http.StatusConflict, "no_report"},
		{runs.ErrClosed, http.StatusServiceUnavailable, "closing"},
	} {
		if errors.Is(err, known.err) {
			problem.Reply(w, known.status, known.code, message.Of(err))
			return
		}
	}
	h.logger.Error("a run could not be shown", "path", r.URL.Path, "error", err)
	problem.Reply(w, http.StatusInternalServerError, "internal",
		message.Text("internal error; the shop's log says more"))
}

// streamHeader replies to HEAD.
func streamHeader(w http.ResponseWriter, _ *http.Request) { beginStream(w.Header()) }

// events sends server-sent events until the client goes away, the Manager is closed, or
// the stream has lasted for streamLife.
func (h *runsHandler) events(w http.ResponseWriter, r *http.Request) {
	leave, err := h.streams.enter(r, h.token != "" && problem.Authorized(r, h.token))
	if err != nil {
		problem.Reply(w, http.StatusServiceUnavailable, "too_many", message.Of(err))
		return
	}
	defer leave()
	s, err := newStream(w)
	if err != nil {
		return // the client is gone
	}
	end := time.Now().Add(streamLife)
	for subscription := h.manager.Subscribe(); err == nil && time.Now().Before(end); {
		err = h.next(r.Context(), subscription, s)
	}
}

// next waits for an event and sends it. An error means that there are no more events, or that the
// client is gone.
func (h *runsHandler) next(ctx context.Context, subscription *runs.Subscription, s *stream) error {
	quiet, cancel := context.WithTimeoutCause(ctx, heartbeat, errQuiet)
	defer cancel()
	e, err := subscription.Next(quiet)
	switch {
	case errors.Is(err, errQuiet):
		return s.still()
	case errors.Is(err, runs.ErrClosed):
		return errors.Join(err, s.send(0, event{"closing", struct{}{}}))
	case err != nil:
		return err
	}
	var events []event
	if e.List != nil {
		events = append(events, event{"list", map[string]any{"runs": e.List}})
	}
	for _, row := range e.Rows {
		events = append(events, event{"row", row})
	}
	return s.send(e.Version, append(events, event{"run", map[string]any{"run": e.Run}})...)
}
