package shop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"oversell/internal/payment"
)

// The time limits of the HTTP server. Handlers have none, because they may wait for a lock and do
// the work under it.
const (
	headerTimeout  = 5 * time.Second
	requestTimeout = 15 * time.Second
	idleTimeout    = 2 * time.Minute
	writeTimeout   = 10 * time.Second // for a client to read a piece of a reply
)

// ownFiles is how many open files a shop reserves for itself: for connections to Redis, the
// database and the lock servers, for an SQLite database, and some to spare.
const ownFiles = poolSize + 128

// maxConnections returns how many connections a shop accepts at the same time: the limit on open
// files minus those that the shop and the rest of the process need, but at least half of the limit.
func maxConnections(files, reserved int) int {
	return max(files-ownFiles-reserved, files/2)
}

// serve runs the HTTP server until ctx is cancelled or the server fails. The embedded payment provider
// own may be nil.
func (p *parts) serve(ctx context.Context, own *payment.Server) error {
	inner, err := net.Listen("tcp", p.cfg.Web.Addr)
	if err != nil {
		return fmt.Errorf("listening on %s: %w", p.cfg.Web.Addr, err)
	}
	if err := webhooksTo(own, p.cfg.Web.Addr, inner.Addr()); err != nil {
		return errors.Join(err, inner.Close())
	}
	most := maxConnections(OpenFiles(), p.cfg.OtherFiles)
	l := newConnections(inner, most, writeTimeout, p.cfg.Logger)
	requests := &counted{Handler: l.closeIfCrowded(p.api.Handler())}
	server := &http.Server{
		Handler:           requests,
		MaxHeaderBytes:    16 << 10, // net/http adds 4 KiB
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       requestTimeout,
		IdleTimeout:       idleTimeout,
		ConnState:         l.track,
		ErrorLog:          slog.NewLogLogger(p.cfg.Logger.Handler(), slog.LevelWarn),
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
	p.closing = time.Now()
	p.cfg.Logger.Info("closing")
	go p.close() // ends the waits at once, but then waits for a statement, which may hang; so does Run at its end
	l.closeSilent()
	return p.drain(context.WithoutCancel(ctx), server, requests, failed) // ctx has ended, and draining begins now
}
