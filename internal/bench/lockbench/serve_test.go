package lockbench_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"oversell/internal/backend"
	"oversell/internal/bench/lockbench"
	"oversell/internal/catalog"
)

func TestServeRefusesWhatItCannotDo(t *testing.T) {
	for name, test := range map[string]struct {
		commands string
		want     string
		is       error
	}{
		"no commands":       {"", "", nil},
		"no JSON":           {"hello\n", "reading a command", nil},
		"no setup":          {`{"start":"2026-01-01T00:00:00Z"}` + "\n", "not a setup", nil},
		"unknown contender": {`{"setup":{"contender":"v9","memory":true}}` + "\n", "", catalog.ErrName},
		"no Redis": {
			`{"setup":{"contender":"v7_queue","redis_url":"redis://127.0.0.1:1"}}` + "\n", "", backend.ErrUnreachable,
		},
		"no words": {`{"setup":{"contender":"v7_queue"},"words":{"path":"/no/such/file","n":1}}` + "\n", "opening shared memory", nil},
	} {
		t.Run(name, func(t *testing.T) {
			in, commands := io.Pipe() // it stays open, or the end of the commands comes first
			go func() {
				_, _ = io.WriteString(commands, test.commands)
				if test.commands == "" {
					_ = commands.Close()
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
	in, commands := io.Pipe()
	defer commands.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := lockbench.Serve(ctx, lockbench.Contenders(), in, io.Discard); err != nil {
		t.Error(err)
	}
}
