package lockbench_test

import (
	"errors"
	"strings"
	"testing"

	"oversell/internal/lockbench"
)

func TestWriteTable(t *testing.T) {
	rows := []lockbench.Row{
		{
			Contender: "v7_queue", Contenders: 100, Processes: 4, Served: 75, Killed: 25, Throughput: 4821.4, Commands: 2.44,
			P50: 10.4, P99: 20, Max: 22, Spread: 2.11, Jain: 0.998, MaxHolders: 2, MaxHoldersRunning: 1, Verdict: lockbench.Late,
			Disturbed: &lockbench.Disturbed{Killed: 2, KilledAt: 7, Stopped: 1, StoppedAt: 8, Resumed: 3008},
		},
		{
			Contender: "liar", Contenders: 100, Processes: 1, Told: 99, NeverServed: 1, Idle: 1000, LostUpdates: -3,
			Reasons: map[string]int{"no room": 99}, Verdict: lockbench.Broken,
		},
		{Contender: "rueidislock", Skipped: "needs a real Redis", Verdict: lockbench.Skipped},
	}
	var out strings.Builder
	if err := lockbench.WriteTable(&out, rows); err != nil {
		t.Fatal(err)
	}
	const want = `          served  refused  never served  killed  deducts/s  cmds/deduct  p50  p99  max  max/p50  jain  holders  lost  verdict
───────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────
v7_queue      75        .             .      25       4821          2.4   10   20   22     2.11  1.00    2 (1)     .  late
liar           0       99             1       .          0          0.0    0    0    0        .     .        0    -3  broken
  v7_queue: process 2 was killed at 7 ms, process 1 was stopped from 8 to 3008 ms
  liar: 99 refused: no room
  liar: 1 never served; the last release was 1000 ms before the end
  rueidislock: needs a real Redis
`
	if got := out.String(); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

type full struct{}

var errFull = errors.New("no space")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestWriteTableSaysWhatFailed(t *testing.T) {
	if err := lockbench.WriteTable(full{}, nil); !errors.Is(err, errFull) {
		t.Errorf("got %v", err)
	}
}
