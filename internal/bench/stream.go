package bench

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// stream is requests that are sent at planned times, at a constant rate, whether
// or not earlier ones were answered. One whose time comes while as many are
// under way as may be is dropped: it could not be sent in time.
//
// Latencies count from the planned time. Were they to count from the moment a
// request was sent, all those that a slow shop kept from being sent in time
// would count as if nobody had waited: "coordinated omission", as Gil Tene calls
// it ("How NOT to Measure Latency", 2013).
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
	done    atomic.Int64  // outcomes, those of what was dropped included
}

// newStream returns the stream that cfg asks for. Alive reports whether a
// target is there: to one that was killed nothing is sent.
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
	timer := time.NewTimer(0)
	defer timer.Stop()
	start := time.Now()
	t.begin(start)
	for i := range s.planned {
		due := s.due(i)
		if !until(ctx, timer, start.Add(due)) {
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

// due is when a request is to be sent, after the start.
func (s *stream) due(i int) time.Duration {
	return time.Duration(i) * time.Second / time.Duration(s.rate)
}

// until sleeps until a moment, unless it is past or ctx ends, and reports
// whether ctx has not ended.
func until(ctx context.Context, timer *time.Timer, moment time.Time) bool {
	wait := time.Until(moment)
	if wait <= 0 {
		return ctx.Err() == nil
	}
	timer.Reset(wait)
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// exchange sends the i-th request to the target whose turn it is, or the next
// one that is there, and waits for its outcome.
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
			continue // it was tried when the stream was made
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

// Open are the figures of a row whose requests were sent at a constant rate.
// Those of the row itself count from the planned times.
type Open struct {
	Planned      int64   `json:"planned"`
	Sent         int64   `json:"sent"`
	Dropped      int64   `json:"dropped"`       // too many were under way when their time came
	AchievedRate float64 `json:"achieved_rate"` // requests sent a second
	Late         float64 `json:"late_ms"`       // longest time by which one was sent too late
	ServiceP50   float64 `json:"service_p50_ms"`
	ServiceP99   float64 `json:"service_p99_ms"`
	ServiceMax   float64 `json:"service_max_ms"`
}

// figures are those of the stream when it is over.
func (s *stream) figures(t *tally) *Open {
	took := max(s.duration, s.last)
	return &Open{
		Planned: int64(s.planned), Sent: s.sent, Dropped: s.dropped,
		AchievedRate: float64(s.sent) / took.Seconds(), Late: milliseconds(t.untimely),
		ServiceP50: t.service.ms(50), ServiceP99: t.service.ms(99), ServiceMax: t.service.ms(100),
	}
}
