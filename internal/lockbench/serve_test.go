package lockbench_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"oversell/internal/backend"
	"oversell/internal/lockbench"
	"oversell/internal/locks"
)

func TestServeRefusesWhatItCannotDo(t *testing.T) {
	for name, test := range map[string]struct {
		orders string
		want   string
		is     error
	}{
		"no orders":         {"", "", nil},
		"no JSON":           {"hello\n", "reading an order", nil},
		"no setup":          {`{"start":"2026-01-01T00:00:00Z"}` + "\n", "none", nil},
		"unknown contender": {`{"setup":{"contender":"v9","memory":true}}` + "\n", "", locks.ErrName},
		"no Redis": {
			`{"setup":{"contender":"v7_queue","memory":true,"redis_url":"redis://127.0.0.1:1"}}` + "\n", "", backend.ErrUnreachable,
		},
		"no board": {`{"setup":{"contender":"v7_queue","board":"/no/such/file","crowd":1}}` + "\n", "board", nil},
	} {
		t.Run(name, func(t *testing.T) {
			in, orders := io.Pipe() // it stays open, or the end of the orders comes first
			go func() {
				_, _ = io.WriteString(orders, test.orders)
				if test.orders == "" {
					_ = orders.Close()
				}
			}()
			err := lockbench.Serve(t.Context(), lockbench.Contenders(), in, io.Discard)
			_ = in.Close()
			switch {
			case test.is != nil && !errors.Is(err, test.is):
				t.Errorf("got %v, want %v", err, test.is)
			case test.want == "" && test.is == nil && err != nil:
				t.Errorf("got %v", err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestServeEndsWithItsContext(t *testing.T) {
	in, orders := io.Pipe()
	defer orders.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := lockbench.Serve(ctx, lockbench.Contenders(), in, io.Discard); err != nil {
		t.Error(err)
	}
}
