package bench

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"oversell/internal/bench/report"
	"oversell/internal/figures"
	"oversell/internal/guard"
)

// stream is a load of requests that are sent at planned times, at a constant rate,
// without waiting for earlier replies. A request is dropped if too many are in flight at
// its planned time.
//
// Latencies are measured from the planned time. Measured from the time a request was
// sent, the requests that a slow shop delayed would look as if nobody had waited:
// "coordinated omission" (Gil Tene, "How NOT to Measure Latency", 2013).
//
// Without a rate it is a burst whose requests are all planned for the start. Its connections are
// opened before, one for each request or fewer: then requests wait for one instead of being dropped.
type stream struct {
	rate     int
	planned  int
	duration time.Duration
	targets  []string
	request  func(i int, target string) (*http.Request, error)
	alive    func(target int) bool

	places  *places
	pool    *pool
	turns   chan struct{} // of a burst whose requests wait for a connection; nil: they do not wait
	dropped int64
	sent    int64
	last    time.Duration // when the last one was sent
	done    atomic.Int64  // outcomes, including dropped requests
}

// newStream returns the stream for cfg. Alive reports whether a target has not been killed.
func newStream(
	cfg Config, targets []string, request func(i int, target string) (*http.Request, error),
	alive func(target int) bool,
) (*stream, error) {
	for i, target := range targets {
		if _, err := request(i, target); err != nil {
			return nil, err
		}
	}
	inFlight := cmp.Or(cfg.InFlight, cfg.Requests)
	s := &stream{
		rate: cfg.Rate, planned: cfg.Requests, duration: cfg.Duration, targets: targets, request: request, alive: alive,
		places: newPlaces(inFlight), pool: newPool(inFlight),
	}
	if cfg.Rate == 0 {
		s.turns = make(chan struct{}, inFlight)
		s.pool.most = inFlight
	}
	return s, nil
}

// dialers bounds the connections that are opened at once, well below the backlog of a
// listener.
const dialers = 64

// connect opens the connections of a burst, to each target in turn.
func (s *stream) connect(ctx context.Context) error {
	var g errgroup.Group
	g.SetLimit(dialers)
	n := cap(s.turns)
	for i := range n {
		g.Go(func() error {
			t := i % len(s.targets)
			req, err := s.request(i, s.targets[t])
			if err != nil {
				return err
			}
			c, err := dial(ctx, req.URL)
			if err != nil {
				return fmt.Errorf("opening connection %d of %d to %s: %w", i+1, n, s.targets[t], err)
			}
			s.pool.fill(&conn{Conn: c, target: t})
			return nil
		})
	}
	return g.Wait()
}

// fire sends the requests, and returns when all have their outcome or ctx ends. No outcome takes
// longer than the limit.
func (s *stream) fire(ctx context.Context, limit time.Duration, t *tally) {
	t.earliest = s.places.earliest
	stop := context.AfterFunc(ctx, s.pool.cut)
	defer stop()
	var all sync.WaitGroup
	defer all.Wait()
	start := time.Now()
	t.begin(start)
	for i := range s.planned {
		due := s.due(i)
		if guard.Sleep(ctx, time.Until(start.Add(due))) != nil {
			return
		}
		if s.turns != nil {
			select {
			case s.turns <- struct{}{}:
			case <-ctx.Done():
				return
			}
		}
		place, ok := s.places.take()
		if !ok {
			s.dropped++
			s.done.Add(1)
			continue
		}
		s.sent++
		s.last = time.Since(start)
		all.Go(func() {
			defer s.leave(place)
			r := s.exchange(ctx, i, start.Add(due), limit)
			r.Request, r.At = i, time.Since(start)
			t.add(r)
			s.done.Add(1)
		})
	}
}

// leave gives a place back.
func (s *stream) leave(place int) {
	s.places.leave(place)
	if s.turns != nil {
		<-s.turns
	}
}

// due is the planned time of a request, after the start: those of a burst all go at once.
func (s *stream) due(i int) time.Duration {
	if s.rate == 0 {
		return 0
	}
	return time.Duration(i) * time.Second / time.Duration(s.rate)
}

// exchange sends the i-th request to the next target that is alive, and waits for the
// outcome.
func (s *stream) exchange(ctx context.Context, i int, due time.Time, limit time.Duration) reply {
	var r reply
	for n := range s.targets {
		target := (i + n) % len(s.targets)
		r = reply{Target: target, Code: codeNoConn}
		if !s.alive(target) {
			s.pool.forget(target) // the next target needs its files
			continue
		}
		req, err := s.request(i, s.targets[target])
		if err != nil {
			continue // newStream has checked it
		}
		c, err := s.pool.get(ctx, target, req, limit)
		if err != nil && s.alive(target) {
			break
		}
		if err != nil {
			s.pool.forget(target)
			continue // it was killed meanwhile
		}
		sent := time.Now()
		again := false
		r, again = c.exchange(req)
		r.Service = time.Since(sent)
		r.Latency = time.Since(due)
		s.pool.put(c, again)
		return r
	}
	return r
}

// awaited is how many outcomes are missing.
func (s *stream) awaited() int64 { return int64(s.planned) - s.done.Load() }

// close closes all connections.
func (s *stream) close() { s.pool.close() }

// figures returns the figures of a finished stream.
func (s *stream) figures(t *tally) *report.Open {
	took := max(s.duration, s.last)
	return &report.Open{
		Planned: int64(s.planned), Sent: s.sent, Dropped: s.dropped,
		AchievedRate: float64(s.sent) / took.Seconds(), Late: figures.Milliseconds(t.untimely),
		ServiceP50: t.service.ms(50), ServiceP99: t.service.ms(99), ServiceMax: t.service.ms(100),
	}
}
