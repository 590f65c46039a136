package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"

	"oversell/internal/backend/lockservers"
	"oversell/internal/fleet"
	"oversell/internal/guard"
	"oversell/internal/shop"
	"oversell/internal/stock"
	accepted "oversell/internal/stock/stream"
	"oversell/internal/web"
)

// Serve is the main function of an instance: it runs a shop that takes its setup and plans from in,
// and reports events to out: see fleet.Serve. If adjust is not nil, it may change the shop's
// configuration before the shop starts. Tests use it to break a lock.
func Serve(ctx context.Context, in io.Reader, out, log io.Writer, adjust func(*shop.Config)) error {
	return fleet.Serve(ctx, in, out, func(ctx context.Context, with setup, parent *fleet.Server) error {
		s := &server{Server: parent, worker: worker{seams: parent.Seams, gauge: parent.Words}}
		cfg, err := s.shop(with)
		if err != nil {
			return err
		}
		cfg.Strategy = "none" // every request names a strategy
		cfg.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))
		if adjust != nil {
			adjust(&cfg)
		}
		defer s.WatchStalls(Tolerable(cfg.TTL))()
		s.Obey(s.obey)
		if with.Worker {
			return shop.Work(ctx, cfg)
		}
		return shop.Run(ctx, cfg)
	})
}

// server implements the instance's side of the protocol with the bench.
type server struct {
	*fleet.Server
	worker worker
}

// shop returns the configuration of the instance's shop.
func (s *server) shop(with setup) (shop.Config, error) {
	var policy guard.Policy
	if with.Policy != "" {
		var err error
		if policy, err = guard.ParsePolicy(with.Policy); err != nil {
			return shop.Config{}, err
		}
	}
	s.Seams.Set(with.Fault)
	cfg := shop.Config{
		RedisURL: with.RedisURL, DBURL: with.DBURL, Servers: lockservers.Running(with.Servers),
		Instance: with.Name, TTL: with.TTL, Policy: policy, Unfenced: with.Unfenced,
		Web:        web.Config{Addr: "127.0.0.1:0", Token: with.Token},
		Stock:      stock.Config{Wait: with.Wait, Work: s.worker.work},
		Stream:     stock.Stream{Replicas: with.Replicas},
		Consumer:   accepted.Consumer{ClaimAfter: with.TTL}, // like the lock of a killed process
		NoConsumer: with.NoConsumer,
		Ready:      s.Ready,
	}
	if with.NoConsumer {
		cfg.Hook = scriptHook(s.Seams)
	}
	if with.Provider != "" {
		newHoldSeams(s.Seams).sell(&cfg, with)
	}
	if with.Worker {
		cfg.Consumer.Seam = func(at string) error {
			s.Seams.Reach(context.Background(), fleet.Seam(at))
			return nil
		}
	}
	if s.worker.gauge != nil {
		// The gauge stays open until the process ends: a sale that the shop no longer waits for may
		// still use it.
		cfg.DBHeld = s.worker.held
		if with.Holders {
			cfg.Stock.Inside = s.worker.count
		}
	}
	return cfg, nil
}

// obey carries out an order.
func (s *server) obey(_ context.Context, text json.RawMessage) (any, error) {
	var o order
	if err := json.Unmarshal(text, &o); err != nil {
		return nil, fmt.Errorf("reading an order: %w", err)
	}
	if o.Plan != nil {
		s.worker.follow(*o.Plan)
	}
	if o.Until != nil {
		s.worker.stay(*o.Until)
	}
	return nil, nil
}
