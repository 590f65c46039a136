package holdsale

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"oversell/internal/bench"
	"oversell/internal/fault"
	"oversell/internal/fleet"
	"oversell/internal/holds"
	"oversell/internal/payment"
	"oversell/internal/shop"
	"oversell/internal/web"
)

// setup is what a process is told first.
type setup struct {
	Name     string        `json:"name"`
	RedisURL string        `json:"redis_url,omitempty"`
	DBURL    string        `json:"db_url,omitempty"`
	Token    string        `json:"token,omitempty"`
	TTL      time.Duration `json:"ttl,omitempty"`
	Sweep    time.Duration `json:"sweep,omitempty"`
	Settle   time.Duration `json:"settle,omitempty"`
	Provider string        `json:"provider,omitempty"` // of payments, for a shop
	Webhook  string        `json:"webhook,omitempty"`  // for the provider
	Secret   []byte        `json:"secret"`             // signs webhooks
}

// ServeShop is what a shop's process runs. It takes its setup and its commands from in, and
// reports events to out: see fleet.Serve.
func ServeShop(ctx context.Context, in io.Reader, out, log io.Writer) error {
	return fleet.Serve(ctx, in, out, func(ctx context.Context, with setup, s *fleet.Server) error {
		defer s.WatchStalls(bench.Tolerable(with.TTL))()
		hooks := newSeams(s.Seams)
		s.Obey(nothing)
		return shop.Run(ctx, shop.Config{
			RedisURL: with.RedisURL, DBURL: with.DBURL, Instance: with.Name, Provider: with.Provider,
			Web:      web.Config{Addr: "127.0.0.1:0", Token: with.Token, WebhookSecret: with.Secret},
			Holds:    holds.Config{TTL: with.TTL, Sweep: with.Sweep, Settle: with.Settle},
			Strategy: "none", Logger: logger(log),
			Hook: redisHook{hooks}, Through: fault.Injector{Hook: hooks.pass}.Through, AdjustHolds: hooks.adjust,
			Ready: s.Ready,
		})
	})
}

// nothing carries out an order: there are none.
func nothing(context.Context, json.RawMessage) (any, error) { return nil, nil }

func logger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelWarn}))
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

// ServeProvider is what the payment provider's process runs, as ServeShop is for a shop.
func ServeProvider(ctx context.Context, in io.Reader, out, log io.Writer) error {
	return fleet.Serve(ctx, in, out, func(ctx context.Context, with setup, s *fleet.Server) error {
		p := payment.NewServer(payment.Config{
			Secret: with.Secret, Webhook: with.Webhook, RetryFrom: retryFrom, RetryMost: retryMost, Logger: logger(log),
		})
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return fmt.Errorf("listening for payments: %w", err)
		}
		s.Ready(l.Addr().String())
		return p.Serve(ctx, l)
	})
}

// A webhook that was not accepted is sent again after retryFrom, and then after twice as long
// each time, up to retryMost.
const (
	retryFrom = 100 * time.Millisecond
	retryMost = 2 * time.Second
)
