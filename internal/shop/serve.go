package shop

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// The time limits of the HTTP server. Handlers may take as long as a wait for
// a lock and the work under it.
const (
	requestTimeout = 30 * time.Second
	idleTimeout    = 2 * time.Minute
)

// serve runs the HTTP server until ctx is cancelled or the server fails.
func (p *parts) serve(ctx context.Context) error {
	l, err := net.Listen("tcp", p.cfg.Addr)
	if err != nil {
		return fmt.Errorf("listening on %s: %w", p.cfg.Addr, err)
	}
	silent := newSilent()
	requests := &counted{Handler: p.api.Handler()}
	server := &http.Server{
		Handler:     requests,
		ReadTimeout: requestTimeout,
		IdleTimeout: idleTimeout,
		ConnState:   silent.track,
		ErrorLog:    slog.NewLogLogger(p.cfg.Logger.Handler(), slog.LevelWarn),
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	p.cfg.Logger.Info("open", "addr", l.Addr().String(), "strategy", p.cfg.Strategy, "instance", p.cfg.Instance)
	if p.cfg.Ready != nil {
		p.cfg.Ready(l.Addr().String())
	}
	select {
	case err := <-failed:
		return fmt.Errorf("serving on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	p.cfg.Logger.Info("closing")
	p.close()
	silent.close()
	return p.drain(context.WithoutCancel(ctx), server, requests, failed)
}
