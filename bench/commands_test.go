package main

import (
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"oversell/internal/backend/imitation"
)

// A strategy that needs newer commands of Redis runs where they are, and is refused in one line
// where they are not.
func TestStrategiesWithNewerCommands(t *testing.T) {
	got := try(t, small("-strategies", "v4_native", "-conditions", "calm,slow")...)
	if got.code != exitExpected {
		t.Errorf("embedded: exit code %d, stderr %q, stdout\n%s", got.code, got.stderr, got.stdout)
	}
	got = try(t, "-workload", "lock", "-requests", "100", "-strategies", "v4_native", "-instances", "2")
	if got.code != exitExpected || strings.Contains(got.stdout, "skipped") {
		t.Errorf("embedded, workload lock: exit code %d, stderr %q, stdout\n%s", got.code, got.stderr, got.stdout)
	}

	older := miniredis.RunT(t)
	imitation.Install(older, imitation.Redis70)
	url := "redis://" + older.Addr()
	got = try(t, small("-redis", url, "-strategies", "v4_native", "-conditions", "calm")...)
	want := "bench: cannot be run: strategy v4_native needs SET IFEQ with DELEX (Redis 8.4) or DELIFEQ (Valkey 9.0), and this Redis lacks it; -redis embedded has it\n"
	if got.code != exitFailed || got.stderr != want {
		t.Errorf("older: exit code %d, stderr %q, want %q", got.code, got.stderr, want)
	}
	got = try(t, "-redis", url, "-workload", "lock", "-requests", "100", "-strategies", "v4_native", "-instances", "2")
	if !strings.Contains(got.stdout, "needs SET IFEQ") {
		t.Errorf("older, workload lock: exit code %d, stderr %q, stdout\n%s", got.code, got.stderr, got.stdout)
	}
}

// All strategies are those that this Redis is known to run.
func TestAllLeavesOutWhatAnUnknownRedisMayLack(t *testing.T) {
	for redis, want := range map[string]bool{"embedded": true, "local": false, "redis://127.0.0.1:1": false} {
		o, err := parse([]string{"-redis", redis, "-strategies", "all"})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(strings.Join(o.Strategies, " "), "v4_native"); got != want {
			t.Errorf("-redis %s: v4_native is among all: %v, want %v", redis, got, want)
		}
	}
}
