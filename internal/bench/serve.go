package bench

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"oversell/internal/backend/lockservers"
	"oversell/internal/locks"
	"oversell/internal/proc"
	"oversell/internal/shop"
)

// Serve is what an instance's process runs: a shop that takes its setup and
// its plans from in, and reports to out. It returns nil when in ends, so that no
// instance outlives its bench, or when ctx is cancelled; or the error of a setup
// that cannot be read, or the shop's. Adjust, unless it is nil, may change the
// shop's configuration before it starts: a test breaks a lock by it.
func Serve(ctx context.Context, catalog locks.Catalog, in io.Reader, out, log io.Writer, adjust func(*shop.Config)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &server{out: json.NewEncoder(out), goOn: make(chan struct{}, 1)}
	s.worker.park = s.park
	s.worker.struck = func(until time.Time) { s.tell(news{Struck: &until}) }
	lines := bufio.NewScanner(in)
	cfg, err := s.setup(lines)
	if err != nil {
		return err
	}
	cfg.Catalog = catalog
	cfg.Strategy = catalog[0].Name // every request names its own
	cfg.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	if s.counter.gauge != nil {
		// It stays open to the end of the process: a sale that the shop has given
		// up waiting for may still count.
		cfg.Inside = s.counter.count
	}
	if adjust != nil {
		adjust(&cfg)
	}
	s.stalls = proc.WatchStalls(tolerable(cfg.TTL), func(d time.Duration) { s.tell(news{Stalled: d}) })
	defer s.stalls.Stop()
	go func() {
		defer cancel()
		s.obey(lines, cfg.Logger)
	}()
	return shop.Run(ctx, cfg)
}

// server is the instance's side of the talk with the bench.
type server struct {
	worker  worker
	counter counter
	stalls  *proc.StallWatch // from the setup on
	goOn    chan struct{}

	mu  sync.Mutex
	out *json.Encoder
}

func (s *server) setup(lines *bufio.Scanner) (shop.Config, error) {
	if !lines.Scan() {
		return shop.Config{}, fmt.Errorf("reading the setup: %w", cmp.Or(lines.Err(), io.ErrUnexpectedEOF))
	}
	var o order
	if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
		return shop.Config{}, fmt.Errorf("reading the setup: %w", err)
	}
	if o.Setup == nil {
		return shop.Config{}, errors.New("reading the setup: the first order has none")
	}
	policy, err := locks.ParsePolicy(o.Setup.Policy)
	if err != nil {
		return shop.Config{}, err
	}
	if o.Setup.Gauge != "" {
		if s.counter.gauge, err = openGauge(o.Setup.Gauge); err != nil {
			return shop.Config{}, err
		}
	}
	return shop.Config{
		Addr: "127.0.0.1:0", RedisURL: o.Setup.RedisURL, DBURL: o.Setup.DBURL,
		Instance: o.Setup.Name, Token: o.Setup.Token,
		TTL: o.Setup.TTL, Wait: o.Setup.Wait, Policy: policy, Work: s.worker.work,
		Unfenced: o.Setup.Unfenced, Servers: lockservers.Running(o.Setup.Servers),
		Ready: func(addr string) { s.tell(news{Addr: addr}) },
	}, nil
}

// obey carries out orders until there are no more. Who is still parked then
// goes on, so that the shop can close.
func (s *server) obey(lines *bufio.Scanner, log *slog.Logger) {
	defer close(s.goOn)
	for lines.Scan() {
		var o order
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			log.Error("reading an order", "error", err)
			return
		}
		switch {
		case o.Plan != nil:
			s.worker.follow(*o.Plan)
			s.counter.follow(o.Plan.Item)
			s.stalls.Reset()
			s.tell(news{Planned: true})
		case o.Until != nil:
			s.worker.stay(*o.Until)
		case o.GoOn:
			s.goOn <- struct{}{}
		}
	}
	if err := lines.Err(); err != nil {
		log.Error("reading the orders", "error", err)
	}
}

// park is called by the one holder of a row that the process is struck with.
func (s *server) park() {
	s.tell(news{Parked: true})
	<-s.goOn
}

// tell sends news to the bench. That nobody listens any more shows in the end
// of the orders.
func (s *server) tell(n news) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.out.Encode(n)
}
