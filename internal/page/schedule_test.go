package page_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"oversell/internal/lab"
	"oversell/internal/lab/search"
	"oversell/internal/message"
	"oversell/internal/page"
	"oversell/internal/page/runs"
)

func newSchedules() http.Handler {
	return page.Schedules(context.Background(), "", search.Budget{States: 3000}, alone, slog.New(slog.DiscardHandler))
}

// alone always allows a search: no run is under way.
func alone(message.Message) (leave func(), err error) { return func() {}, nil }

// play sends a request that plays some moves.
func play(h http.Handler, body string) *httptest.ResponseRecorder {
	return ask(h, "POST", "/api/schedule", body)
}

func TestScheduleIsPlayed(t *testing.T) {
	w := play(newSchedules(), `{"strategy":"v2_ttl","buyers":2,"moves":"A.A.fA.p3000.B.tA"}`)
	state, err := lab.Play(lab.Schedule{Strategy: "v2_ttl", Buyers: 2, Moves: "A.A.fA.p3000.B.tA"})
	must(t, err)
	want, err := json.Marshal(state)
	must(t, err)
	if w.Code != http.StatusOK || w.Body.String() != string(want) {
		t.Errorf("got %d: %s; want %s", w.Code, w.Body, want)
	}
}

// A short name is enough wherever a strategy is named, and replies contain the full name.
func TestSchedulesTakeShortNames(t *testing.T) {
	h := newSchedules()
	w := play(h, `{"strategy":"v2","buyers":2,"moves":"A.A"}`)
	var got lab.State
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || got.Strategy != "v2_ttl" || got.Moves != "A.A" {
		t.Errorf("%d, %v: %.100s", w.Code, err, w.Body)
	}
	w = get(h, "/api/schedule/search?strategy=v2")
	if !strings.Contains(w.Body.String(), `"strategy":"v2_ttl"`) {
		t.Errorf("the search: %d %.100s", w.Code, w.Body)
	}
}

// The levels of the game have goals. The reply to a schedule says whether the requested goal is
// reached.
func TestScheduleIsPlayedForAGoal(t *testing.T) {
	h := newSchedules()
	var levels struct{ Game []lab.Level }
	w := get(h, "/api/schedule/levels")
	if err := json.Unmarshal(w.Body.Bytes(), &levels); err != nil || !reflect.DeepEqual(levels.Game, lab.Game()) {
		t.Errorf("got %+v, %v", levels.Game, err)
	}
	var got lab.State
	w = play(h, `{"strategy":"v1_setnx","buyers":2,"moves":"A.kA","goal":"stuck"}`)
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil ||
		!reflect.DeepEqual(got.Reached, []lab.Goal{lab.GoalStuck}) || !reflect.DeepEqual(got.Unserved, []string{"B"}) {
		t.Errorf("%v, reached %v, unserved %v", err, got.Reached, got.Unserved)
	}
}

// Concurrent requests for the same search lead to one search, and get the same reply.
func TestSearchIsMadeOnce(t *testing.T) {
	h := newSchedules()
	replies := make([]string, 4)
	var all sync.WaitGroup
	for i := range replies {
		all.Go(func() {
			replies[i] = get(h, "/api/schedule/search?strategy=v2_ttl&buyers=2").Body.String()
		})
	}
	all.Wait()
	for _, reply := range replies {
		// The replies include the duration of the search, so they are equal only if there was one
		// search.
		if reply != replies[0] || !strings.Contains(reply, `"oversell":"A.A.p3000.B.B.A.B"`) {
			t.Errorf("got %s and %s", reply, replies[0])
		}
	}
}

// A cancelled search has no result, and the next request starts over.
func TestSearchThatWasGivenUp(t *testing.T) {
	h := newSchedules()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/api/schedule/search?strategy=none", nil))
	checkReply(t, "a client that had given up", w, http.StatusServiceUnavailable, `"code":"cancelled"`)
	w = get(h, "/api/schedule/search?strategy=none")
	if !strings.Contains(w.Body.String(), `"oversell":"A.B.A.B"`) {
		t.Errorf("the next one got %d %s", w.Code, w.Body)
	}
}

// Schedules that cannot be played are refused. The tests of package problem cover requests that are
// invalid in general.
func TestWhatCannotBePlayedIsAProblem(t *testing.T) {
	h := newSchedules()
	const schedule = "/api/schedule"
	for _, tt := range []struct {
		method, path, body string
		status             int
		code, detail       string
	}{
		{"POST", schedule, `{"strategy":"v99","buyers":2}`, 400, "invalid", `unknown strategy \"v99\" (allowed: `},
		{"POST", schedule, `{"strategy":"nested","buyers":2}`, 400, "invalid", "nested"}, // short for two
		{"POST", schedule, `{"strategy":"none","buyers":2,"moves":"A","goal":"fame"}`, 400, "invalid", "unknown goal"},
		{"POST", schedule, `{"strategy":"none","buyers":4}`, 400, "invalid", "2 or 3 buyers"},
		{"POST", schedule, `{"strategy":"none","buyers":2,"moves":"A.D"}`, 400, "invalid", `move 2 is \"D\" (allowed`},
		{
			"POST", schedule, `{"strategy":"none","buyers":2,"moves":"A.A.A"}`,
			400, "invalid", "move 3, A: A has nothing to send",
		},
		{"POST", schedule, `{"strategy":"none","buyers":2,"stock":7}`, 400, "invalid", "stock"},
		{"GET", "/api/schedule", ``, 405, "wrong_method", "POST"},
		{"POST", "/api/schedule/search", ``, 405, "wrong_method", "GET, HEAD"},
		{"GET", "/api/schedule/search?strategy=v99", ``, 400, "invalid", "v99"},
		{"GET", "/api/schedule/search?strategy=none&buyers=many", ``, 400, "invalid", "2 or 3"},
		{"GET", "/api/schedule/search?strategy=none&depth=3", ``, 400, "invalid", "allowed here: strategy, buyers"},
		{"GET", "/api/schedule/search?strategy=none", `{}`, 400, "invalid", "no body"},
		{"POST", "/api/schedule?moves=A", `{"strategy":"none","buyers":2}`, 400, "invalid", "no parameter"},
		{"GET", "/api/schedule/more", ``, 404, "no_such_path", "no such path"},
	} {
		w := ask(h, tt.method, tt.path, tt.body)
		if w.Code != tt.status || w.Header().Get("Content-Type") != "application/problem+json" ||
			!strings.Contains(w.Body.String(), `"code":"`+tt.code+`"`) ||
			!strings.Contains(w.Body.String(), tt.detail) {
			t.Errorf("%s %s %.60s: got %d %s", tt.method, tt.path, tt.body, w.Code, w.Body)
		}
	}
}

// endless is the path of a search that takes longer than a test.
const endless = "/api/schedule/search?strategy=v9_cohort&buyers=3"

// The shop closes immediately, even while a search is running.
func TestSearchEndsWithTheShop(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	h := page.Schedules(ctx, "", search.Budget{}, func(message.Message) (func(), error) {
		cancel() // the shop is stopped when the search starts
		return func() {}, nil
	}, slog.New(slog.DiscardHandler))
	w := get(h, endless)
	checkReply(t, "while the shop closes", w, http.StatusServiceUnavailable, `"code":"closing"`)
}

// A search ends when its client closes the connection.
func TestSearchEndsWithItsClient(t *testing.T) {
	begun, left := make(chan struct{}), make(chan struct{})
	occupy := func(message.Message) (func(), error) {
		close(begun)
		return func() { close(left) }, nil
	}
	server := httptest.NewServer(
		page.Schedules(t.Context(), "", search.Budget{}, occupy, slog.New(slog.DiscardHandler)))
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", server.URL+endless, nil)
	must(t, err)
	gone := make(chan error, 1)
	go func() {
		res, err := server.Client().Do(req)
		if err == nil {
			res.Body.Close()
		}
		gone <- err
	}()
	<-begun
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("the client was answered: %v", err)
	}
	<-left
}

func TestNoSearchBesideARun(t *testing.T) {
	var err error
	left := 0 // how many times leave was called
	h := page.Schedules(t.Context(), "", search.Budget{}, func(message.Message) (func(), error) {
		return func() { left++ }, err
	}, slog.New(slog.DiscardHandler))
	err = fmt.Errorf("%w: 1234", runs.ErrBusy)
	w := get(h, "/api/schedule/search?strategy=none")
	checkReply(t, "beside a run", w, http.StatusConflict, `"code":"busy"`, "a run is under way: 1234")
	err = nil
	if w := get(h, "/api/schedule/search?strategy=none"); w.Code != http.StatusOK || left != 1 {
		t.Errorf("after it: %d %s; left %d times", w.Code, w.Body, left)
	}
	err = runs.ErrBusy
	checkReply(t, "what is known", get(h, "/api/schedule/search?strategy=none"), http.StatusOK)
}

// Only a few requests may wait for a search, and an invalid request is refused at once.
func TestFewWaitForASearch(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	begun := make(chan struct{})
	var once sync.Once
	h := page.Schedules(ctx, "", search.Budget{}, func(message.Message) (func(), error) {
		once.Do(func() { close(begun) }) // when the first search ends, the next one starts
		return func() {}, nil
	}, slog.New(slog.DiscardHandler))
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	all.Go(func() { get(h, endless) })
	<-begun
	full := make(chan string, 5)
	for range cap(full) { // four of these requests wait, and one is refused
		all.Go(func() {
			if w := get(h, endless); w.Code != http.StatusServiceUnavailable {
				t.Errorf("got %d %s", w.Code, w.Body)
			} else if !strings.Contains(w.Body.String(), `"code":"closing"`) {
				full <- w.Body.String()
			}
		})
	}
	if got := <-full; !strings.Contains(got, `"code":"too_many_searches"`) {
		t.Errorf("got %s", got)
	}
	checkReply(t, "a wrong question", get(h, "/api/schedule/search?strategy=v99"), http.StatusBadRequest)
}

// The recorded results are available before any search, and the progress of a search is available
// while it runs.
func TestRecordAndProgress(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	h := page.Schedules(ctx, "sesame", search.Budget{}, alone, slog.New(slog.DiscardHandler))
	var record search.Record
	w := get(h, "/api/schedule/record")
	if err := json.Unmarshal(w.Body.Bytes(), &record); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%v: %d %s", err, w.Code, w.Body)
	}
	if r, ok := record.Find("v9_cohort", 2); !ok || r.Breaks[lab.GoalOversell] != "" || r.States < 1000 {
		t.Errorf("of v9_cohort is on record: %+v", r)
	}
	far := func() (p struct {
		Strategy     string
		States, Open int
	}) {
		if err := json.Unmarshal(get(h, "/api/schedule/progress").Body.Bytes(), &p); err != nil {
			t.Error(err)
		}
		return p
	}
	if p := far(); p.Strategy != "" {
		t.Errorf("before a search: %+v", p)
	}
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	all.Go(func() { get(h, endless, "Authorization", "Bearer sesame") })
	for p := far(); p.Strategy != "v9_cohort" || p.States < 10 || p.Open < 1; p = far() {
		if t.Context().Err() != nil {
			t.Fatalf("no progress: %+v", p)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// The result of a search that was ended by the time limit depends on the machine, so the next
// request searches again.
func TestSearchThatWasCutShortIsNotKept(t *testing.T) {
	for _, tt := range []struct {
		budget   search.Budget
		searches int
	}{{search.Budget{Time: time.Nanosecond}, 2}, {search.Budget{States: 3}, 1}} {
		searches := 0
		h := page.Schedules(t.Context(), "", tt.budget, func(message.Message) (func(), error) {
			searches++
			return func() {}, nil
		}, slog.New(slog.DiscardHandler))
		for range 2 {
			checkReply(t, fmt.Sprintf("%+v", tt.budget), get(h, endless), http.StatusOK)
		}
		if searches != tt.searches {
			t.Errorf("%+v: searched %d times, want %d", tt.budget, searches, tt.searches)
		}
	}
}
