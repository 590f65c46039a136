package holdsale

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"oversell/internal/catalog"
	"oversell/internal/fault/sqlfault"
	"oversell/internal/holds"
	"oversell/internal/payment"
	"oversell/internal/proc"
	"oversell/internal/shop"
)

// setup is the first command to a process, through a pipe and not through arguments, because
// it may hold passwords.
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

// command is what the bench sends to a process: first the setup, later one of the others.
type command struct {
	Setup  *setup `json:"setup,omitempty"`
	Arm    *arm   `json:"arm,omitempty"`
	Resume bool   `json:"resume,omitempty"` // the call that waits at a seam may go on
}

// event is what a process reports to the bench: one of these.
type event struct {
	Addr    string        `json:"addr,omitempty"`    // it serves requests at this address
	Armed   bool          `json:"armed,omitempty"`   // its seams are armed
	Reached Seam          `json:"reached,omitempty"` // a call waits at this seam
	Delayed Seam          `json:"delayed,omitempty"` // a call is held up at this seam
	Stalled time.Duration `json:"stalled,omitempty"` // the process stalled for so long
}

// ServeShop is what a shop's process runs. It takes its setup and its commands from in, and
// reports events to out. It returns nil when in ends or ctx is cancelled, or the error of the
// shop.
func ServeShop(ctx context.Context, in io.Reader, out, log io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &server{Parent: proc.Listen[command, event](ctx, cancel, in, out), resume: make(chan struct{}, maxParked)}
	with := s.Next(ctx).Setup
	if with == nil {
		return cmp.Or(s.Err(), errors.New("the first command is not a setup"))
	}
	s.seams.park = s.park
	s.seams.delayed = func(at Seam) { s.Send(event{Delayed: at}) }
	s.stalls = proc.WatchStalls(tolerable(with.TTL), func(d time.Duration) { s.Send(event{Stalled: d}) })
	defer s.stalls.Stop()
	logger := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	go s.obey(logger)
	list := catalog.Strategies()
	return shop.Run(ctx, shop.Config{
		Addr: "127.0.0.1:0", RedisURL: with.RedisURL, DBURL: with.DBURL, Instance: with.Name, Token: with.Token,
		HoldTTL: with.TTL, HoldSweep: with.Sweep, HoldSettle: with.Settle, Provider: with.Provider, WebhookSecret: with.Secret,
		Catalog: list, Strategy: list[0].Name, Logger: logger, Hook: redisHook{&s.seams}, AdjustHolds: s.adjust,
		Ready: func(addr string) { s.Send(event{Addr: addr}) },
	})
}

// maxParked is more than the calls that wait at seams at the same time.
const maxParked = 64

// server is a shop's side of the conversation with the bench.
type server struct {
	*proc.Parent[command, event]
	seams  seams
	stalls *proc.StallWatch
	resume chan struct{}
}

// adjust makes the stages anew, on connections with seams. The shop closes what they use.
func (s *server) adjust(cfg *holds.Config, b holds.Backends) (closing func() error) {
	pool := sqlfault.Injector{Hook: s.seams.pass}.Pool(b.DB)
	b.DB = pool
	for name, stage := range catalog.Holds(b) {
		cfg.Stages[name] = markedStage{stage, &s.seams}
	}
	if cfg.Payments != nil {
		cfg.Payments = seamPayments{cfg.Payments, &s.seams}
	}
	err := quietWrites(cfg.DB, &s.seams)
	return func() error { return errors.Join(err, pool.Close()) }
}

// obey carries out commands until there are no more. Then a call that waits at a seam goes
// on, so that the shop can close.
func (s *server) obey(log *slog.Logger) {
	defer close(s.resume)
	for c := range s.Commands {
		switch {
		case c.Arm != nil:
			s.seams.set(*c.Arm)
			s.stalls.Reset()
			s.Send(event{Armed: true})
		case c.Resume:
			select {
			case s.resume <- struct{}{}:
			default: // nobody waits for so many
			}
		}
	}
	if err := s.Err(); err != nil {
		log.Error("the commands ended", "error", err)
	}
}

// park waits at a seam until the bench lets the call go on, or kills the process.
func (s *server) park(at Seam) {
	s.Send(event{Reached: at})
	<-s.resume
}

// ServeProvider is what the payment provider's process runs, as ServeShop is for a shop.
func ServeProvider(ctx context.Context, in io.Reader, out, log io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	parent := proc.Listen[command, event](ctx, cancel, in, out)
	with := parent.Next(ctx).Setup
	if with == nil {
		return cmp.Or(parent.Err(), errors.New("the first command is not a setup"))
	}
	p := payment.NewServer(payment.Config{
		Secret: with.Secret, Webhook: with.Webhook, RetryFrom: retryFrom, RetryMost: retryMost,
		Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listening for payments: %w", err)
	}
	parent.Send(event{Addr: l.Addr().String()})
	go func() {
		for range parent.Commands { // there are none; the end of the input ends ctx
		}
	}()
	return p.Serve(ctx, l)
}

// A webhook that was not accepted is sent again after retryFrom, and then after twice as long
// each time, up to retryMost.
const (
	retryFrom = 100 * time.Millisecond
	retryMost = 2 * time.Second
)
