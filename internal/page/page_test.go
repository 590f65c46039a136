package page_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"oversell/internal/lab"
	"oversell/internal/lab/anomalies"
	"oversell/internal/lab/search"
	"oversell/internal/message"
	"oversell/internal/page"
	"oversell/internal/page/runs"
)

// newPage returns a page that is closed at the end of the test. The config lacks a manager, a budget and a
// logger.
func newPage(t *testing.T, cfg page.Config) *page.Page {
	t.Helper()
	cfg.Budget, cfg.Logger = search.Budget{States: 100}, slog.New(slog.DiscardHandler)
	cfg.Runs = runs.New(t.Context(), runs.Config{Logger: cfg.Logger})
	t.Cleanup(cfg.Runs.Close)
	p, err := page.New(t.Context(), cfg)
	must(t, err)
	t.Cleanup(p.Close)
	return p
}

// get sends a GET request.
func get(h http.Handler, path string, headers ...string) *httptest.ResponseRecorder {
	return ask(h, "GET", path, "", headers...)
}

// ask sends a request, and returns the reply. Headers are pairs of names and values.
func ask(h http.Handler, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(method, path, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w
}

// checkReply checks the status of a reply, and that its body contains the texts.
func checkReply(t *testing.T, what string, w *httptest.ResponseRecorder, status int, texts ...string) {
	t.Helper()
	missing := func(text string) bool { return !strings.Contains(w.Body.String(), text) }
	if w.Code != status || slices.ContainsFunc(texts, missing) {
		t.Errorf("%s: %d %.500s", what, w.Code, w.Body)
	}
}

func TestPageHasItsParts(t *testing.T) {
	p := newPage(t, page.Config{})
	for path, kind := range map[string]string{
		"/": "text/html; charset=utf-8", "/page/app.js": "text/javascript; charset=utf-8",
		"/page/style.css": "text/css; charset=utf-8",
		"/api/runs":       "application/json; charset=utf-8", "/api/runs/options": "application/json; charset=utf-8",
		"/api/stages": "application/json; charset=utf-8", "/api/schedule/levels": "application/json; charset=utf-8",
	} {
		w := get(p, path)
		if w.Code != http.StatusOK || w.Header().Get("Content-Type") != kind || w.Body.Len() == 0 {
			t.Errorf("%s: %d, %s, %d bytes", path, w.Code, w.Header().Get("Content-Type"), w.Body.Len())
		}
		policy := w.Header().Get("Content-Security-Policy")
		if !strings.HasPrefix(policy, "default-src 'self';") || strings.Contains(policy, "unsafe") ||
			w.Header().Get("X-Content-Type-Options") != "nosniff" ||
			w.Header().Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%s: %v", path, w.Header())
		}
	}
	for _, path := range []string{
		"/page", "/page/", "/page/index.html", "/page/no.js", "/index.html", "/api", "/api/more",
		"/api/stages/v1_setnx",
	} {
		w := get(p, path)
		if w.Code != http.StatusNotFound || w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d, %s", path, w.Code, w.Header().Get("Content-Type"))
		}
	}
	checkReply(t, "POST /", ask(p, "POST", "/", ""), http.StatusMethodNotAllowed)
}

func TestFilesAreSentOnceAndSmall(t *testing.T) {
	p := newPage(t, page.Config{})
	plain := get(p, "/page/app.js")
	packed := get(p, "/page/app.js", "Accept-Encoding", "br, gzip;q=0.8")
	r, err := gzip.NewReader(bytes.NewReader(packed.Body.Bytes()))
	must(t, err)
	unpacked, err := io.ReadAll(r)
	if err != nil || !bytes.Equal(unpacked, plain.Body.Bytes()) || packed.Body.Len() >= plain.Body.Len() ||
		packed.Header().Get("Content-Encoding") != "gzip" {
		t.Errorf("packed: %v, %d bytes of %d, %v", err, packed.Body.Len(), plain.Body.Len(), packed.Header())
	}
	if plain.Header().Get("Vary") != "Accept-Encoding" || plain.Header().Get("ETag") == packed.Header().Get("ETag") {
		t.Errorf("plain %v, packed %v", plain.Header(), packed.Header())
	}
	if w := get(p, "/page/app.js", "Accept-Encoding", "gzip;q=0"); w.Header().Get("Content-Encoding") != "" {
		t.Error("who does not take gzip gets it")
	}
	w := get(p, "/page/app.js", "Accept-Encoding", "gzip", "If-None-Match", packed.Header().Get("ETag"))
	if w.Code != http.StatusNotModified || w.Body.Len() != 0 {
		t.Errorf("a client that has it gets %d and %d bytes", w.Code, w.Body.Len())
	}
}

// Another site cannot make a visitor's browser send expensive requests, even though that site could
// not read the reply.
func TestOtherSitesAskForNothingThatCosts(t *testing.T) {
	p := newPage(t, page.Config{Anomalies: func(context.Context, func(done, of int)) (lab.Report, error) {
		t.Error("the lab was run")
		return lab.Report{}, nil
	}})
	for _, path := range []string{
		"/api/lab", "/api/lab/lost-update/none", "/api/runs/events", "/api/schedule/search?strategy=none",
	} {
		w := get(p, path, "Sec-Fetch-Site", "cross-site")
		checkReply(t, path, w, http.StatusForbidden, `"code":"cross_origin"`)
	}
	for _, path := range []string{"/", "/api/runs"} {
		checkReply(t, path, get(p, path, "Sec-Fetch-Site", "cross-site"), http.StatusOK)
	}
}

// Starting and stopping a run, searching, and changing the class need the token.
func TestWhatCostsAsksForTheToken(t *testing.T) {
	p := newPage(t, page.Config{Token: "sesame", Class: page.NewClass("hot")})
	checkReply(t, "the options", get(p, "/api/runs/options"), http.StatusOK, `"token_needed":true`)
	for _, tt := range []struct {
		method, path, body string
		status             int // with the token
	}{
		{"POST", "/api/runs", `{"requests":0}`, http.StatusBadRequest},
		{"POST", "/api/runs/nobody/stop", "", http.StatusNotFound},
		{"GET", "/api/schedule/search?strategy=none", "", http.StatusOK},
		{"PUT", "/api/class", `{"work_ms":5}`, http.StatusOK},
	} {
		w := ask(p, tt.method, tt.path, tt.body, "Authorization", "Bearer sesame")
		checkReply(t, tt.path, w, tt.status)
		for _, headers := range [][]string{nil, {"Authorization", "Bearer open"}, {"Authorization", "sesame"}} {
			w := ask(p, tt.method, tt.path, tt.body, headers...) // also when the result of the search is known
			checkReply(t, fmt.Sprint(tt.path, headers), w, http.StatusUnauthorized, `"code":"no_token"`)
		}
	}
	checkReply(t, "to play", play(p, `{"strategy":"none","buyers":2,"moves":""}`), http.StatusOK)
}

// The recorded matrix is available before the lab has run, and contains all anomalies that the page
// shows first.
func TestMatrixBeginsWithTheRecord(t *testing.T) {
	p := page.Lab(t.Context(), measureSome, func(message.Message) (func(), error) { return nil, runs.ErrBusy },
		slog.New(slog.DiscardHandler))
	t.Cleanup(p.Close)
	var matrix struct{ Cells []lab.Cell }
	must(t, json.Unmarshal(get(p, "/api/lab/recorded").Body.Bytes(), &matrix))
	recorded := make(map[string]bool)
	for _, c := range matrix.Cells {
		recorded[c.Anomaly] = true
		if c.Outcome == "" || c.Outcome != lab.Recorded()[c.Strategy][c.Anomaly] {
			t.Errorf("%s on %s: %q", c.Anomaly, c.Strategy, c.Outcome)
		}
	}
	named := regexp.MustCompile(`(?s)const (?:taught|controls) = \[(.*?)\]`).
		FindAllStringSubmatch(readAsset(t, "choice.js"), -1)
	for _, list := range named {
		for name := range strings.SplitSeq(list[1], ",") {
			if name = strings.Trim(name, "\" \n"); !recorded[name] {
				t.Errorf("choice.js names %q, which is not an anomaly", name)
			}
		}
	}
	if len(named) != 2 || len(recorded) != len(anomalies.All()) {
		t.Errorf("%d lists, %d anomalies", len(named), len(recorded))
	}
}

// While a run is under way, the lab does not start. It starts at the first request after the run.
func TestNothingBeginsBesideARun(t *testing.T) {
	var busy atomic.Bool
	busy.Store(true)
	p := page.Lab(t.Context(), measureSome, func(message.Message) (func(), error) {
		if busy.Load() {
			return nil, runs.ErrBusy
		}
		return func() {}, nil
	}, slog.New(slog.DiscardHandler))
	t.Cleanup(p.Close)
	all := len(lab.Subjects()) * len(anomalies.All())
	for range 3 {
		w := get(p, "/api/lab")
		if w.Code != http.StatusAccepted || w.Body.String() != fmt.Sprintf(`{"done":0,"of":%d}`, all) {
			t.Errorf("beside a run: %d %s", w.Code, w.Body)
		}
	}
	busy.Store(false)
	checkReply(t, "after the run", awaitMatrix(t, p), http.StatusOK)
}

// measureSome runs a small part of the lab.
func measureSome(ctx context.Context, progress func(done, of int)) (lab.Report, error) {
	cfg := lab.Config{Subjects: lab.Subjects()[:2], Scenarios: anomalies.All()[:2], Redis: lab.Embedded}
	done := 0
	return lab.Run(ctx, cfg, func(lab.Cell) {
		done++
		progress(done, 4)
	})
}

// awaitMatrix requests the matrix until the lab has finished.
func awaitMatrix(t *testing.T, p http.Handler) *httptest.ResponseRecorder {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if w := get(p, "/api/lab"); w.Code != http.StatusAccepted {
			return w
		}
	}
	t.Fatal("the lab is not ready after a minute")
	return nil
}

func TestLabIsRunOnceForAll(t *testing.T) {
	var ran atomic.Int64
	goOn := make(chan struct{})
	p := newPage(t, page.Config{Anomalies: func(ctx context.Context, progress func(done, of int)) (lab.Report, error) {
		ran.Add(1)
		progress(1, 4)
		<-goOn
		return measureSome(ctx, progress)
	}})
	get(p, "/api/lab")
	for far := ""; far != `{"done":1,"of":4}`; time.Sleep(time.Millisecond) {
		w := get(p, "/api/lab/lost-update/none")
		far = w.Body.String()
		if w.Code != http.StatusAccepted || w.Header().Get("Retry-After") == "" {
			t.Fatalf("while the lab runs: %d %s", w.Code, far)
		}
	}
	close(goOn)
	w := awaitMatrix(t, p)
	var matrix struct {
		Manifest  lab.Manifest
		Losses    []lab.Loss
		Anomalies []lab.Anomaly
		Cells     []struct {
			lab.Cell
			Events int
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &matrix); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d, %v: %.200s", w.Code, err, w.Body)
	}
	if len(matrix.Anomalies) != 2 || len(matrix.Cells) != 4 || len(matrix.Manifest.Strategies) != 2 ||
		!matrix.Manifest.Virtual {
		t.Errorf("the matrix is %+v", matrix)
	}
	if !slices.Equal(matrix.Losses, lab.Losses()) || !slices.Contains(matrix.Losses, matrix.Anomalies[0].Loss) {
		t.Errorf("the losses are %v, and one is %q", matrix.Losses, matrix.Anomalies[0].Loss)
	}
	for _, brief := range matrix.Cells {
		var cell lab.Cell
		w := get(p, "/api/lab/"+brief.Anomaly+"/"+brief.Strategy)
		err := json.Unmarshal(w.Body.Bytes(), &cell)
		if err != nil || cell.Outcome != brief.Outcome || cell.Note != brief.Note || len(cell.Trace) != brief.Events {
			t.Errorf("%v: the cell is %+v, in the matrix %+v", err, cell, brief)
		}
		if brief.Trace != nil || w.Header().Get("ETag") == "" {
			t.Errorf("the matrix has the trace of %s, or the cell no ETag", brief.Anomaly)
		}
	}
	w = get(p, "/api/lab/lost-update/loc")
	checkReply(t, "by a short name", w, http.StatusOK, `"strategy":"local"`)
	for _, path := range []string{"/api/lab/lost-update/v9", "/api/lab/v9/none", "/api/lab/lost-update%2Fnone/none"} {
		w := get(p, path)
		checkReply(t, path, w, http.StatusNotFound, "unknown_cell")
	}
	if n := ran.Load(); n != 1 {
		t.Errorf("the lab was run %d times", n)
	}
}

func TestLabThatFailedIsRunAgain(t *testing.T) {
	var ran atomic.Int64
	p := newPage(t, page.Config{Anomalies: func(ctx context.Context, progress func(done, of int)) (lab.Report, error) {
		if ran.Add(1) == 1 {
			return lab.Report{}, errors.New("no luck at 10.0.0.7")
		}
		return measureSome(ctx, progress)
	}})
	if w := awaitMatrix(t, p); w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "luck") {
		t.Errorf("it failed: %d %s", w.Code, w.Body)
	}
	checkReply(t, "the next time", awaitMatrix(t, p), http.StatusOK)
}

// Closing the page cancels the lab instead of waiting for it.
func TestLabEndsWithThePage(t *testing.T) {
	p := newPage(t, page.Config{Anomalies: func(ctx context.Context, _ func(done, of int)) (lab.Report, error) {
		<-ctx.Done()
		return lab.Report{}, ctx.Err()
	}})
	get(p, "/api/lab")
	p.Close() // without the cancellation, this would hang
}
