package bench

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"oversell/internal/backend/lockservers"
	"oversell/internal/catalog"
	"oversell/internal/guard"
	"oversell/internal/proc"
	"oversell/internal/shop"
	"oversell/internal/stock"
)

// Serve is what an instance's process runs: a shop that takes its setup and its plans
// from in, and reports events to out. It returns nil when in ends, so that no instance
// outlives its bench, or when ctx is cancelled; or the error of a setup that cannot be
// read, or of the shop. Adjust, unless it is nil, may change the shop's configuration
// before it starts: tests break a lock with it.
func Serve(ctx context.Context, list catalog.List, in io.Reader, out, log io.Writer, adjust func(*shop.Config)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &server{Parent: proc.Listen[command, event](ctx, cancel, in, out), resume: make(chan struct{}, 1)}
	s.worker.park = s.park
	s.worker.overstays = func(until time.Time) { s.Send(event{Overstays: &until}) }
	with := s.Next(ctx).Setup
	cfg, err := s.setup(with)
	if err != nil {
		return err
	}
	cfg.Catalog = list
	cfg.Strategy = list[0].Name // every request names its own
	cfg.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	if s.counter.gauge != nil {
		// It stays open until the process ends: a sale that the shop no longer waits
		// for may still count.
		cfg.DBHeld = s.counter.held
		if with.Holders {
			cfg.Inside = s.counter.count
		}
	}
	if adjust != nil {
		adjust(&cfg)
	}
	s.stalls = proc.WatchStalls(tolerable(cfg.TTL), func(d time.Duration) { s.Send(event{Stalled: d}) })
	defer s.stalls.Stop()
	go s.obey(cfg.Logger)
	if with.Worker {
		return shop.Work(ctx, cfg)
	}
	return shop.Run(ctx, cfg)
}

// server is an instance's side of the conversation with the bench.
type server struct {
	*proc.Parent[command, event]
	worker  worker
	counter counter
	seam    seam
	stalls  *proc.StallWatch // from the setup on
	resume  chan struct{}
}

func (s *server) setup(with *setup) (shop.Config, error) {
	if with == nil {
		return shop.Config{}, cmp.Or(s.Err(), errors.New("the first command is not a setup"))
	}
	policy, err := guard.ParsePolicy(with.Policy)
	if err != nil {
		return shop.Config{}, err
	}
	if with.Gauge != "" {
		if s.counter.gauge, err = openGauge(with.Gauge); err != nil {
			return shop.Config{}, err
		}
	}
	s.seam.set(with.Seam)
	cfg := shop.Config{
		Addr: "127.0.0.1:0", RedisURL: with.RedisURL, DBURL: with.DBURL,
		Instance: with.Name, Token: with.Token,
		TTL: with.TTL, Wait: with.Wait, Policy: policy, Work: s.worker.work,
		Consumer: stock.Consumer{ClaimAfter: with.TTL}, // as long as a lock of a killed process lasts
		Unfenced: with.Unfenced, Servers: lockservers.Running(with.Servers), NoConsumer: with.NoConsumer, AcceptReplicas: with.Replicas,
		Ready: func(addr string) { s.Send(event{Addr: cmp.Or(addr, "none")}) }, // a worker has none
	}
	if with.NoConsumer {
		cfg.Hook = scriptHook{s}
	}
	if with.Seam != "" {
		cfg.Consumer.Seam = func(at string) error {
			s.reach(at)
			return nil
		}
	}
	return cfg, nil
}

// obey carries out commands until there are no more. Then a parked holder goes on, so
// that the shop can close.
func (s *server) obey(log *slog.Logger) {
	defer close(s.resume)
	for c := range s.Commands {
		switch {
		case c.Plan != nil:
			s.worker.follow(*c.Plan)
			s.counter.follow(c.Plan.Item)
			s.seam.set(c.Plan.Seam)
			s.stalls.Reset()
			s.Send(event{Planned: true})
		case c.Until != nil:
			s.worker.stay(*c.Until)
		case c.Resume:
			s.resume <- struct{}{}
		}
	}
	if err := s.Err(); err != nil {
		log.Error("the commands ended", "error", err)
	}
}

// park parks the one holder of a row that the fault is injected into.
func (s *server) park() {
	s.Send(event{Parked: true})
	<-s.resume
}
