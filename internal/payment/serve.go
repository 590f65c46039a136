package payment

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"
)

// The time limits of Serve. Replies have none, because faults may delay them by up to maxFaultTime.
const (
	headerTimeout  = 5 * time.Second
	requestTimeout = 10 * time.Second
	closeTimeout   = 2 * time.Second // for replies that are being written
)

// Serve serves the provider on l and delivers its webhooks until ctx ends. It closes l.
// Webhooks that were not delivered by then are lost.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	ctx, stop := context.WithCancel(ctx)
	delivering := make(chan struct{})
	go func() {
		defer close(delivering)
		s.Deliver(ctx)
	}()
	defer func() { stop(); <-delivering }()
	server := &http.Server{
		Handler:           s,
		BaseContext:       func(net.Listener) context.Context { return ctx }, // ends delayed replies
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       requestTimeout,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(s.cfg.Logger.Handler(), slog.LevelWarn),
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serving the payment provider on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	err := server.Shutdown(closing)
	if errors.Is(err, context.DeadlineExceeded) {
		err = server.Close()
	}
	<-failed
	if err != nil {
		return fmt.Errorf("closing the payment provider: %w", err)
	}
	return nil
}

// The limits of a secret's length, in bytes.
const (
	minSecret = 16
	maxSecret = 4 << 10
)

// ReadSecret reads the secret that signs webhooks from a file, without the white space around it.
func ReadSecret(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("reading the secret of the webhooks: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err != nil {
		return nil, fmt.Errorf("reading the secret of the webhooks: %w", err)
	}
	secret := bytes.TrimSpace(text)
	if len(secret) < minSecret || len(text) > maxSecret {
		return nil, fmt.Errorf("the secret in %s must have %d to %d bytes: openssl rand -hex 32 > %s",
			name, minSecret, maxSecret, name)
	}
	return secret, nil
}
