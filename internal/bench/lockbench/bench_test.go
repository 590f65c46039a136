package lockbench_test

import (
	"fmt"
	"testing"

	"oversell/internal/bench/lockbench"
)

// runner is a Runner on a private redis-server.
func runner(b *testing.B, change func(*lockbench.Config)) *lockbench.Runner {
	b.Helper()
	cfg, _ := config(b, "local")
	cfg.Contenders, cfg.Processes, cfg.Pool, cfg.TTL, cfg.Wait = 0, 0, 0, 0, 0 // the defaults
	change(&cfg)
	r, err := lockbench.NewRunner(b.Context(), cfg, lockbench.Silent{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := r.Close(); err != nil {
			b.Error(err)
		}
	})
	return r
}

// BenchmarkRow runs whole rows: -benchtime 5x has five of each.
func BenchmarkRow(b *testing.B) {
	for _, processes := range []int{1, 4} {
		r := runner(b, func(c *lockbench.Config) { c.Processes = processes })
		for _, name := range []string{"v7_queue", "v9_cohort", "v6_watchdog+line:2ms", "mutex+setnx", "rueidislock:best"} {
			b.Run(fmt.Sprintf("contender=%s/processes=%d", name, processes), func(b *testing.B) {
				rows(b, r, name)
			})
		}
	}
}

// BenchmarkCrowd shows what the length of v7's queue costs.
func BenchmarkCrowd(b *testing.B) {
	for _, n := range []int{1000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("waiters=%d", n), func(b *testing.B) {
			rows(b, runner(b, func(c *lockbench.Config) { c.Contenders = n }), "v7_queue")
		})
	}
}

// rows runs a row for each iteration, and reports the means of its figures.
func rows(b *testing.B, r *lockbench.Runner, name string) {
	var rate, commands, spread float64
	n := 0
	for b.Loop() {
		row, err := r.Row(b.Context(), name)
		if err != nil {
			b.Fatal(err)
		}
		if row.MaxHolders > 1 || row.LostUpdates != 0 {
			b.Errorf("%s: %d holders, %d lost", name, row.MaxHolders, row.LostUpdates)
		}
		n++
		rate, commands, spread = rate+row.Throughput, commands+row.Commands, spread+row.Spread
	}
	b.ReportMetric(rate/float64(n), "deducts/s")
	b.ReportMetric(commands/float64(n), "cmds/deduct")
	b.ReportMetric(spread/float64(n), "max/p50")
}

// BenchmarkMemory measures what each of 100,000 waiters of one process takes.
func BenchmarkMemory(b *testing.B) {
	for _, name := range []string{"v7_queue", "v6_watchdog+line:2ms", "mutex+bare"} {
		b.Run("contender="+name, func(b *testing.B) {
			r := runner(b, func(*lockbench.Config) {})
			for b.Loop() {
				m, err := r.Memory(name, 100_000)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(m.Heap), "heap-B/waiter")
				b.ReportMetric(float64(m.Stack), "stack-B/waiter")
			}
		})
	}
}
