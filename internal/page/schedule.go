package page

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"sync"

	"golang.org/x/sync/semaphore"

	"oversell/internal/lab"
	"oversell/internal/lab/search"
	"oversell/internal/message"
	"oversell/internal/naming"
	"oversell/internal/page/runs"
	"oversell/internal/web/problem"
)

const (
	// maxSchedule is the maximum size of a request body with a schedule, in bytes. The longest
	// allowed schedule takes less.
	maxSchedule = 4 << 10

	// maxPlaying is the maximum number of schedules that are played at once. maxPlays is the
	// maximum number of schedules that are played or waiting.
	maxPlaying = 2
	maxPlays   = 32

	// maxWaiting is the maximum number of requests that wait for another search to end.
	maxWaiting = 4
)

// Schedules returns the handler of the part in which the reader is the scheduler:
//
//	GET  /api/schedule/levels  the strategies that can be scheduled, and the levels of the game
//	POST /api/schedule         {"strategy", "buyers", "moves", "goal"}: the state they lead to, and
//	                           whether the goal is reached
//	GET  /api/schedule/record  what the searches of all strategies have found before
//	GET  /api/schedule/search?strategy=…&buyers=…
//	                           searches again, through every schedule; needs the token, if
//	                           there is one, as it uses all processors for a long time
//	GET  /api/schedule/progress
//	                           how far the search under way is
//
// Replies do not depend on earlier ones: a schedule is played from its start each time. A search
// ends with its budget, the request or ctx. Only one search runs at a time, and none during a run
// of the bench. The result of a search is kept, unless the time limit ended it. The handler is safe
// for concurrent use. A strategy may have a short name.
func Schedules(
	ctx context.Context, token string, budget search.Budget, occupy Occupy, logger *slog.Logger,
) http.Handler {
	s := &schedules{
		ctx: ctx, budget: budget, occupy: occupy, logger: logger,
		plays: semaphore.NewWeighted(maxPlays), playing: semaphore.NewWeighted(maxPlaying),
		asking: semaphore.NewWeighted(1 + maxWaiting), searching: semaphore.NewWeighted(1),
		found: make(map[question]searched),
	}
	return problem.Routes{
		"GET /api/schedule/levels":   problem.Parameters(s.levels),
		"POST /api/schedule":         problem.Parameters(s.play),
		"GET /api/schedule/record":   problem.Parameters(s.record),
		"GET /api/schedule/progress": problem.Parameters(s.progress),
		"GET /api/schedule/search":   ownSite(problem.Guarded(token, problem.Bodiless(s.find))),
	}.Handler()
}

type schedules struct {
	ctx       context.Context // of all searches
	budget    search.Budget
	occupy    Occupy
	logger    *slog.Logger
	plays     *semaphore.Weighted // schedules that are played or wait
	playing   *semaphore.Weighted // schedules that are played
	asking    *semaphore.Weighted // requests that search or wait for a search
	searching *semaphore.Weighted // the search under way

	mu    sync.Mutex
	found map[question]searched
	far   progress
}

// question identifies a search.
type question struct {
	strategy string
	buyers   int
}

// searched is the result of a search. The page relies on its JSON form.
type searched struct {
	search.Result
	Wall int64 `json:"wall_ms"`
}

// progress is the progress of a search. The page relies on its JSON form.
type progress struct {
	Strategy string `json:"strategy,omitempty"` // empty: no search is under way
	Buyers   int    `json:"buyers,omitempty"`
	States   int    `json:"states"`
	Open     int    `json:"open"` // states that have not been explored yet
}

func (s *schedules) record(w http.ResponseWriter, _ *http.Request) {
	replyJSON(w, http.StatusOK, search.Recorded())
}

func (s *schedules) progress(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	far := s.far
	s.mu.Unlock()
	replyJSON(w, http.StatusOK, far)
}

// tell records the progress of the search.
func (s *schedules) tell(far progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.far = far
}

func (s *schedules) levels(w http.ResponseWriter, _ *http.Request) {
	replyJSON(w, http.StatusOK, struct {
		Levels []string    `json:"levels"`
		Game   []lab.Level `json:"game"`
	}{lab.Levels(), lab.Game()})
}

func (s *schedules) play(w http.ResponseWriter, r *http.Request) {
	var asked lab.Schedule
	if !problem.ReadBody(w, http.MaxBytesReader(w, r.Body, maxSchedule), &asked) {
		return
	}
	if !s.plays.TryAcquire(1) {
		s.failed(w, r, errPlays)
		return
	}
	defer s.plays.Release(1)
	if s.playing.Acquire(r.Context(), 1) != nil {
		s.failed(w, r, context.Cause(r.Context()))
		return
	}
	defer s.playing.Release(1)
	state, err := lab.Play(asked)
	if err != nil {
		s.failed(w, r, err)
		return
	}
	replyJSON(w, http.StatusOK, state)
}

var (
	errPlays = message.Errorf("%d schedules are already waiting to be played", maxPlays)
	errFull  = message.Errorf("%d requests are already waiting for a search", maxWaiting)
)

func (s *schedules) find(w http.ResponseWriter, r *http.Request) {
	asked, ok := problem.ReadQuery(w, r, "strategy", "buyers")
	if !ok {
		return
	}
	q, err := readQuestion(asked)
	if err != nil {
		s.failed(w, r, err)
		return
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	stop := context.AfterFunc(s.ctx, func() { cancel(runs.ErrClosed) })
	defer stop()
	result, err := s.answer(ctx, q)
	if err != nil {
		s.failed(w, r, err)
		return
	}
	replyJSON(w, http.StatusOK, result)
}

func readQuestion(asked map[string]string) (question, error) {
	q := question{naming.Expand(asked["strategy"], lab.Levels()), 2}
	var err error
	if text := asked["buyers"]; text != "" {
		if q.buyers, err = strconv.Atoi(text); err != nil {
			return q, lab.Refuse("buyers is a number, 2 or 3")
		}
	}
	_, err = lab.Scheduled(q.strategy, q.buyers)
	return q, err
}

// answer returns the result of a search, and searches if it is not known yet. Only one search runs
// at a time; other requests wait. A search ends with the request that began it, and the next
// request starts over.
func (s *schedules) answer(ctx context.Context, q question) (searched, error) {
	if result, ok := s.known(q); ok {
		return result, nil
	}
	if !s.asking.TryAcquire(1) {
		return searched{}, errFull
	}
	defer s.asking.Release(1)
	if s.searching.Acquire(ctx, 1) != nil {
		return searched{}, context.Cause(ctx)
	}
	defer s.searching.Release(1)
	if result, ok := s.known(q); ok {
		return result, nil
	}
	release, err := s.occupy(message.Newf("a search for a schedule of %s", q.strategy))
	if err != nil {
		return searched{}, err
	}
	defer release()
	subject, err := lab.Scheduled(q.strategy, q.buyers)
	if err != nil {
		return searched{}, err
	}
	defer s.tell(progress{})
	found, err := search.Search(ctx, search.Config{
		Subject: subject, Buyers: q.buyers, Faults: search.OneOfEach, Budget: s.budget,
		Progress: func(states, open int) { s.tell(progress{q.strategy, q.buyers, states, open}) },
	})
	result := searched{found, found.Wall.Milliseconds()}
	if err == nil {
		s.keep(q, result)
	}
	return result, err
}

// keep keeps a result that does not depend on the speed of the machine. There are few
// questions: each has a known strategy and number of buyers.
func (s *schedules) keep(q question, result searched) {
	if most := s.budget.States; result.Cut && (most == 0 || result.States <= most) {
		return // the time limit ended it
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.found[q] = result
}

func (s *schedules) known(q question) (searched, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	result, ok := s.found[q]
	return result, ok
}

// failed replies to a request that failed with err.
func (s *schedules) failed(w http.ResponseWriter, r *http.Request, err error) {
	refusal, refused := errors.AsType[lab.Refusal](err)
	switch {
	case refused:
		problem.Reply(w, http.StatusBadRequest, problem.CodeInvalid, refusal.Why)
	case errors.Is(err, runs.ErrBusy):
		problem.Reply(w, http.StatusConflict, "busy", message.Of(err))
	case errors.Is(err, runs.ErrClosed):
		problem.Reply(w, http.StatusServiceUnavailable, "closing", message.Of(err))
	case errors.Is(err, errFull):
		problem.Reply(w, http.StatusServiceUnavailable, "too_many_searches", message.Of(err))
	case errors.Is(err, errPlays):
		problem.Reply(w, http.StatusServiceUnavailable, "too_many_plays", message.Of(err))
	case r.Context().Err() != nil:
		problem.Reply(w, http.StatusServiceUnavailable, "cancelled", message.Text("the request was cancelled"))
	default:
		s.logger.Error("a schedule could not be played", "path", r.URL.Path, "error", err)
		problem.Reply(w, http.StatusInternalServerError, "internal",
			message.Text("the schedule could not be played"))
	}
}
