package holdsale

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"time"

	"oversell/internal/bench"
	"oversell/internal/fault"
	"oversell/internal/fleet"
	"oversell/internal/holds"
	"oversell/internal/shop"
	"oversell/internal/web"
)

// setup is what a shop's process is told first.
type setup struct {
	Name     string        `json:"name"`
	RedisURL string        `json:"redis_url"`
	DBURL    string        `json:"db_url"`
	Token    string        `json:"token"`
	TTL      time.Duration `json:"ttl"`
	Sweep    time.Duration `json:"sweep"`
	Settle   time.Duration `json:"settle"`
	Provider string        `json:"provider"` // of payments
	Secret   []byte        `json:"secret"`   // signs webhooks
}

// Serve is what a shop's process runs. It takes its setup and its commands from in, and reports
// events to out: see fleet.Serve.
func Serve(ctx context.Context, in io.Reader, out, log io.Writer) error {
	return fleet.Serve(ctx, in, out, func(ctx context.Context, with setup, s *fleet.Server) error {
		defer s.WatchStalls(bench.Tolerable(with.TTL))()
		hooks := newSeams(s.Seams)
		s.Obey(func(context.Context, json.RawMessage) (any, error) { return nil, nil }) // there are no orders
		return shop.Run(ctx, shop.Config{
			RedisURL: with.RedisURL, DBURL: with.DBURL, Instance: with.Name, Provider: with.Provider,
			Web:      web.Config{Addr: "127.0.0.1:0", Token: with.Token, WebhookSecret: with.Secret},
			Holds:    holds.Config{TTL: with.TTL, Sweep: with.Sweep, Settle: with.Settle},
			Strategy: "none", Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn})),
			Hook: hooks.redisHook(), Through: fault.Injector{Hook: hooks.pass}.Through, AdjustHolds: hooks.adjust,
			Ready: s.Ready,
		})
	})
}

// adjust marks the calls of the stages, and puts the seams beside the payments.
func (s *seams) adjust(cfg *holds.Config) {
	for name, stage := range cfg.Stages {
		cfg.Stages[name] = markedStage{stage, s}
	}
	if cfg.Payments != nil {
		cfg.Payments = seamPayments{cfg.Payments, s}
	}
}
