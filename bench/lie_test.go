package main

import (
	"strings"
	"testing"

	"oversell/internal/bench/benchtest"
)

// What a shop tells its buyers is compared with its orders, and the exit code tells.
func TestExitCodeTellsALie(t *testing.T) {
	for name, tt := range map[string]struct {
		lie   benchtest.Lie
		keys  string
		wants []string
	}{
		"the truth":                    {benchtest.None, "none", nil},
		"no id":                        {benchtest.NoID, "none", []string{"missing", "unreported", "replies that do not match an order in the database: 2", "orders that no buyer was told of: 2"}},
		"two orders of a double click": {benchtest.KeyTwice, "pairs", []string{"duplicates", "orders beyond the first for one idempotency key: 2"}},
	} {
		t.Run(name, func(t *testing.T) {
			shop := &benchtest.Shop{Lie: func(n int) benchtest.Lie {
				if n%10 == 0 {
					return tt.lie
				}
				return benchtest.None
			}}
			got := try(t, "-target", shop.Start(t), "-requests", "100", "-stock", "25", "-keys", tt.keys, "-strategies", "v6_watchdog", "-conditions", "calm")
			want := exitExpected
			if tt.lie != benchtest.None {
				want = exitUnexpected
				tt.wants = append(tt.wants, "drift (!)", "did not match")
			}
			if got.code != want || got.stderr != "" {
				t.Errorf("exit code %d, want %d\n%s%s", got.code, want, got.stdout, got.stderr)
			}
			for _, text := range tt.wants {
				if !strings.Contains(got.stdout, text) {
					t.Errorf("%q is not in\n%s", text, got.stdout)
				}
			}
		})
	}
}
