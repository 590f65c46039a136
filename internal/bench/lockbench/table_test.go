package lockbench_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/text"

	"oversell/internal/bench/lockbench"
	"oversell/internal/page/texts"
	"oversell/internal/page/texts/textstest"
	"oversell/internal/present"
)

func TestTable(t *testing.T) {
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
	const want = `                            never          deducts     cmds                  max
          served  refused  served  killed       /s  /deduct  p50  p99  max  /p50  jain  holders  lost  verdict
────────────────────────────────────────────────────────────────────────────────────────────────────────────────
v7_queue      75        .       .      25     4821      2.4   10   20   22  2.11  1.00    2 (1)     .  late
liar           0       99       1       .        0      0.0    0    0    0     .     .        0    -3  broken
  v7_queue: process 2 was killed at 7 ms, process 1 was stopped from 8 to 3008 ms
  liar: 99 refused: no room
  liar: 1 never served; the last release was 1000 ms before the end
  rueidislock: needs a real Redis
`
	if got := lockbench.Table(rows, present.Style{}); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// The table fits a terminal of 120 columns, and names what it does without.
func TestTableFitsATerminal(t *testing.T) {
	longest := lockbench.Row{
		Contender: "v6_watchdog+backoff:1ms-64ms", Contenders: 200000, Processes: 4, Served: 199000, Throughput: 15967,
		Commands: 12345.6, P50: 600000, P99: 600000, Max: 600000, Spread: 10.25, Jain: 0.98, MaxHolders: 2, MaxHoldersRunning: 1, Verdict: lockbench.NotComparable,
	}
	unlucky := longest
	unlucky.Told, unlucky.NeverServed, unlucky.Killed, unlucky.LostUpdates = 199000, 199000, 50000, -199000
	for name, tt := range map[string]struct {
		rows    []lockbench.Row
		without string // columns left out
	}{
		"nobody is refused or killed": {[]lockbench.Row{longest, longest}, "lost, killed, never served, refused"},
		"all that can happen":         {[]lockbench.Row{longest, unlucky}, "max/p50, jain, p99"},
	} {
		out := lockbench.Table(tt.rows, present.Style{})
		for line := range strings.Lines(out) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 120 {
				t.Errorf("%s: a line is %d wide: %s", name, n, line)
			}
		}
		if want := "left out to fit the width: " + tt.without + " (-json has them)\n"; !strings.Contains(out, want) {
			t.Errorf("%s: want %q in\n%s", name, want, out)
		}
	}
}

// In Chinese only names and the texts of errors are in English.
func TestTableInChinese(t *testing.T) {
	l := textstest.New(t, texts.OfBench)
	var rows []lockbench.Row
	for _, v := range []lockbench.Verdict{lockbench.Broken, lockbench.Late, lockbench.Starved, lockbench.GaveUp, lockbench.AllServed, lockbench.NotComparable} {
		rows = append(rows, lockbench.Row{
			Contender: "v6_watchdog+backoff:1ms-64ms", Verdict: v, Served: 199000, Told: 1, NeverServed: 2, Idle: 3, Killed: 4, Lost: 5, LostUpdates: 6,
			Throughput: 15967, Commands: 12345.6, P50: 600000, P99: 600000, Max: 600000, Spread: 10.25, Jain: 0.98, MaxHolders: 2,
			Reasons: map[string]int{"E1": 1}, Releases: map[string]int{"E2": 1},
			Disturbed: &lockbench.Disturbed{Killed: 2, KilledAt: 7, Stopped: 1, StoppedAt: 8, Resumed: 3008},
		})
	}
	rows[0].Disturbed = &lockbench.Disturbed{}
	out := lockbench.Table(rows, present.Style{Language: l})
	if len(l.Untold) > 0 {
		t.Errorf("no Chinese for %q", l.Untold)
	}
	for _, want := range []string{"饿死", "正常", "此处不可比：v6_watchdog", "个被拒：E1", "进程 2 在 7 毫秒时被杀死，进程 1 从 8 到 3008 毫秒被暂停", "没有注入故障", "因宽度所限略去："} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	for line := range strings.Lines(out) {
		if n := text.StringWidth(strings.TrimSuffix(line, "\n")); n > 120 && !strings.HasPrefix(line, "  ") { // a note has a line
			t.Errorf("a line is %d wide: %s", n, line)
		}
	}
}
