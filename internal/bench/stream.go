package bench

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"oversell/internal/bench/report"
	"oversell/internal/figures"
	"oversell/internal/proc"
)

// stream is a load of requests that are sent at planned times, at a constant rate,
// without waiting for earlier replies. A request is dropped if too many are in flight at
// its planned time.
//
// Latencies are measured from the planned time. Measured from the time a request was
// sent, the requests that a slow shop delayed would look as if nobody had waited:
// "coordinated omission" (Gil Tene, "How NOT to Measure Latency", 2013).
type stream struct {
	rate     int
	planned  int
	duration time.Duration
	targets  []string
	request  func(i int, target string) (*http.Request, error)
	alive    func(target int) bool

	places  *places
	pool    *pool
	dropped int64
	sent    int64
	last    time.Duration // when the last one was sent
	done    atomic.Int64  // outcomes, including dropped requests
}

// newStream returns the stream for cfg. Alive reports whether a target has not been killed.
func newStream(cfg Config, targets []string, request func(i int, target string) (*http.Request, error), alive func(target int) bool) (*stream, error) {
	for i, target := range targets {
		if _, err := request(i, target); err != nil {
			return nil, err
		}
	}
	return &stream{
		rate: cfg.Rate, planned: cfg.Requests, duration: cfg.Duration, targets: targets, request: request, alive: alive,
		places: newPlaces(cfg.InFlight), pool: newPool(cfg.InFlight),
	}, nil
}

// fire implements load.
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
		if !proc.Sleep(ctx, time.Until(start.Add(due))) {
			return
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
			defer s.places.leave(place)
			r := s.exchange(ctx, i, start.Add(due), limit)
			r.Request, r.At = i, time.Since(start)
			t.add(r)
			s.done.Add(1)
		})
	}
}

// due is the planned time of a request, after the start.
func (s *stream) due(i int) time.Duration {
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

// awaited implements load.
func (s *stream) awaited() int64 { return int64(s.planned) - s.done.Load() }

// close implements load.
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
