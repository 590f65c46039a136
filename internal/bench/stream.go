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
// Latencies are measured from the planned time. If they were measured from the time of sending,
// requests that a slow shop delayed would look as if no buyer had waited: "coordinated omission"
// (Gil Tene, "How NOT to Measure Latency", 2013).
//
// If there is no rate, the stream is a burst whose requests are all planned for the start. Its
// connections are opened beforehand, one for each request or fewer. If there are fewer, requests
// wait for a connection instead of being dropped.
type stream struct {
	rate     int
	planned  int
	duration time.Duration
	targets  []string
	request  func(i int, target string) (*http.Request, error)
	alive    func(target int) bool
	exchange func(ctx context.Context, i int, due time.Time, limit time.Duration) reply // once by default

	places  chan struct{} // a slot for each request in flight; used only if requests are sent at a rate
	pool    *pool
	dropped int64
	sent    int64
	last    time.Duration // when the last request was sent
	done    atomic.Int64  // outcomes, including dropped requests
}

// newStream returns the stream for cfg. The function alive returns false for targets that were
// killed.
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
	if cfg.Rate == 0 {
		inFlight = min(inFlight, cfg.Requests)
	}
	s := &stream{
		rate: cfg.Rate, planned: cfg.Requests, duration: cfg.Duration, targets: targets, request: request, alive: alive,
		places: make(chan struct{}, inFlight), pool: newPool(inFlight),
	}
	s.exchange = s.once
	if cfg.Rate == 0 {
		s.pool.most = inFlight
	}
	return s, nil
}

// dialers is the maximum number of connections that are opened at once, well below the backlog of a
// listener.
const dialers = 64

// connect opens the connections of a burst, to each target in turn.
func (s *stream) connect(ctx context.Context) error {
	var g errgroup.Group
	g.SetLimit(dialers)
	n := s.pool.keep
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

// fire sends the requests, and returns when all outcomes are known or ctx ends. A request fails if
// it takes longer than the limit.
func (s *stream) fire(ctx context.Context, limit time.Duration, t *tally) {
	stop := context.AfterFunc(ctx, s.pool.cut)
	defer stop()
	if s.rate == 0 {
		s.burst(ctx, limit, t)
		return
	}
	var all sync.WaitGroup
	defer all.Wait()
	start := time.Now()
	t.begin(start)
	for i := range s.planned {
		due := start.Add(time.Duration(i) * time.Second / time.Duration(s.rate))
		if guard.Sleep(ctx, time.Until(due)) != nil {
			return
		}
		select {
		case s.places <- struct{}{}:
		default:
			s.dropped++
			s.done.Add(1)
			continue
		}
		s.sent++
		s.last = time.Since(start)
		all.Go(func() {
			defer func() { <-s.places }()
			s.send(ctx, i, start, due, limit, t)
		})
	}
}

// burst sends as many requests at the start as there are connections. These requests are prepared
// beforehand, so that they are sent at the same time. The other requests follow as connections
// become free.
func (s *stream) burst(ctx context.Context, limit time.Duration, t *tally) {
	var start time.Time
	var next atomic.Int64
	gate := make(chan struct{})
	var ready, all sync.WaitGroup
	ready.Add(s.pool.keep)
	for range s.pool.keep {
		all.Go(func() {
			ready.Done()
			<-gate
			for i := int(next.Add(1)) - 1; i < s.planned && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				s.send(ctx, i, start, start, limit, t)
			}
		})
	}
	ready.Wait()
	start = time.Now()
	t.begin(start)
	close(gate)
	all.Wait()
}

// send sends the i-th request, which was due at a planned time, and counts its outcome.
func (s *stream) send(ctx context.Context, i int, start, due time.Time, limit time.Duration, t *tally) {
	r := s.exchange(ctx, i, due, limit)
	r.Request, r.At = i, time.Since(start)
	t.add(r)
	s.done.Add(1)
}

// once sends the i-th request to the next target that is alive, and waits for the
// outcome.
func (s *stream) once(ctx context.Context, i int, due time.Time, limit time.Duration) reply {
	var r reply
	for n := range s.targets {
		target := (i + n) % len(s.targets)
		r = reply{Target: target, Code: codeNoConn}
		if !s.alive(target) {
			s.pool.forget(target) // connections to the next target need their open files
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
			continue // it was killed in the meantime
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

// awaited returns the number of missing outcomes.
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
