package lockbench_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"oversell/internal/backend/backendtest"
	"oversell/internal/bench/lockbench"
)

// row runs one row that must get through.
func row(t *testing.T, cfg lockbench.Config, name string) lockbench.Row {
	t.Helper()
	cfg.Names = []string{name}
	rows, err := lockbench.Run(t.Context(), cfg, lockbench.Silent{})
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 1 {
		t.Fatalf("%d rows, want 1", len(rows))
	}
	r := rows[0]
	if n := r.Served + r.Told + r.NeverServed + r.Killed; r.Contenders != cfg.Contenders || n != r.Contenders {
		t.Errorf("%s: %d outcomes of %d contenders, want %d", name, n, r.Contenders, cfg.Contenders)
	}
	return r
}

// Each lock, and each way of waiting, lets in all, one at a time.
func TestContendersServeAll(t *testing.T) {
	names := []string{
		"v1_setnx+line:2ms", "v2_ttl+fixed:5ms", "v3_uuid+backoff:1ms-64ms", "v4_lua+line:2ms", "v5_reentrant+fixed:50ms",
		"v6_watchdog+backoff:1ms-64ms", "v7_queue", "redsync:best", "redislock:best", "rueidislock", "rueidislock:best", "mutex+setnx",
	}
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			cfg, _ := config(t, kind)
			cfg.Names = names[:backendtest.Times(3, len(names))]
			rows, err := lockbench.Run(t.Context(), cfg, lockbench.Silent{})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range rows {
				if kind == "embedded" && strings.HasPrefix(r.Contender, "rueidislock") {
					if !strings.Contains(r.Skipped, "needs a real Redis") || r.Verdict != lockbench.Skipped {
						t.Errorf("%s on an embedded Redis: %q", r.Contender, r.Skipped)
					}
					continue
				}
				want := lockbench.AllServed
				if kind == "embedded" && strings.HasPrefix(r.Contender, "red") {
					want = lockbench.NotComparable // all the same it serves all
				}
				checkAllServed(t, r, want)
			}
		})
	}
}

func checkAllServed(t *testing.T, r lockbench.Row, want lockbench.Verdict) {
	t.Helper()
	// rueidislock now and then wakes nobody: that is what its row is for.
	lazy := strings.HasPrefix(r.Contender, "rueidislock") && r.Verdict == lockbench.Starved
	if r.Verdict != want && !lazy || r.MaxHolders != 1 || r.LostUpdates != 0 {
		t.Errorf("%s: %+v", r.Contender, r)
	}
	if r.Throughput <= 0 || r.Commands < 2 || r.P50 <= 0 || r.Max < r.P99 || r.P99 < r.P50 || r.Jain <= 0 || r.Jain > 1 {
		t.Errorf("%s: %v deducts/s, %v commands, waits %v, %v, %v, jain %v", r.Contender, r.Throughput, r.Commands, r.P50, r.P99, r.Max, r.Jain)
	}
}

func TestBrokenLockIsSeen(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			cfg, _ := config(t, kind)
			cfg.Contenders = 300
			r := row(t, cfg, "open")
			if r.Verdict != lockbench.Broken || r.LostUpdates <= 0 || r.MaxHolders < 2 || r.Served != 300 {
				t.Errorf("%s: %d served, %d lost, %d holders", r.Verdict, r.Served, r.LostUpdates, r.MaxHolders)
			}
		})
	}
}

// A mutex guards its own process, and no other.
func TestBareMutexIsOneMutexAProcess(t *testing.T) {
	backendtest.System(t) // processes that run for seconds
	cfg, _ := config(t, "embedded")
	cfg.Contenders = 10_000 // so that both are under way at once, also on a busy machine
	if r := row(t, cfg, "mutex+bare"); r.MaxHolders != 2 || r.LostUpdates <= 0 {
		t.Errorf("two processes: %d holders, %d lost", r.MaxHolders, r.LostUpdates)
	}
	cfg.Processes = 1
	if r := row(t, cfg, "mutex+bare"); r.MaxHolders != 1 || r.LostUpdates != 0 || r.Commands != 2 {
		t.Errorf("one process: %d holders, %d lost, %v commands", r.MaxHolders, r.LostUpdates, r.Commands)
	}
}

func TestWhoIsNeverLetIn(t *testing.T) {
	for _, name := range []string{
		"deaf", // comes back at the end of the wait
		"rude", // does not come back at all
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, _ := config(t, "embedded")
			cfg.Wait = 100 * time.Millisecond
			r := row(t, cfg, name)
			if r.NeverServed != cfg.Contenders || r.Verdict != lockbench.Starved || r.Idle < 90 || r.Throughput != 0 {
				t.Errorf("%d never served: %s, idle %v", r.NeverServed, r.Verdict, r.Idle)
			}
		})
	}
}

func TestWhoIsTold(t *testing.T) {
	cfg, _ := config(t, "embedded")
	r := row(t, cfg, "liar")
	if r.Told != cfg.Contenders || r.Reasons["no room"] != cfg.Contenders || r.Verdict != lockbench.GaveUp {
		t.Errorf("%d told: %v, %s", r.Told, r.Reasons, r.Verdict)
	}
}

func TestProcessThatEndsIsAnError(t *testing.T) {
	for name, want := range map[string]string{
		"dies":   "exit status 7",
		"unable": "out of order",
	} {
		t.Run(name, func(t *testing.T) {
			cfg, _ := config(t, "embedded")
			cfg.Names = []string{"mutex+setnx", name}
			rows, err := lockbench.Run(t.Context(), cfg, lockbench.Silent{})
			if err == nil || !strings.Contains(err.Error(), want) || len(rows) != 1 {
				t.Errorf("%d rows, %v; want 1, and %q", len(rows), err, want)
			}
		})
	}
}

// stopIt cancels a run in the middle of its first row.
type stopIt struct {
	lockbench.Silent
	cancel context.CancelCauseFunc
}

var errSeenEnough = errors.New("the test has seen enough")

func (s stopIt) Waiting(func() int64) { s.cancel(errSeenEnough) }

func TestCancelEndsTheRow(t *testing.T) {
	cfg, _ := config(t, "embedded")
	cfg.Names = []string{"deaf", "v7_queue"}
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	start := time.Now()
	rows, err := lockbench.Run(ctx, cfg, stopIt{cancel: cancel})
	if !errors.Is(err, errSeenEnough) || len(rows) != 0 {
		t.Errorf("%d rows, %v; want none, %v", len(rows), err, errSeenEnough)
	}
	if took := time.Since(start); took > backendtest.Slack {
		t.Errorf("it took %v", took)
	}
}

func TestKeysAreRemovedAndNoOthers(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			cfg, _ := config(t, kind)
			rdb := backendtest.DialRedis(t, cfg.RedisURL)
			others := []string{"oversell:{lockbench-00000000}:1:lock", "theirs"}
			for _, key := range others {
				if err := rdb.Set(t.Context(), key, "x", 0).Err(); err != nil {
					t.Fatal(err)
				}
			}
			cfg.Fault = lockbench.Fault{Kill: true, Inside: true} // its lock stays
			cfg.Wait = 500 * time.Millisecond
			row(t, cfg, "v1_setnx+line:2ms")
			row(t, cfg, "v7_queue")
			left, err := rdb.Keys(t.Context(), "*").Result()
			slices.Sort(left)
			if err != nil || !slices.Equal(left, others) {
				t.Errorf("left: %v, %v; want %v", left, err, others)
			}
		})
	}
}

// recorder notes what a Progress is told.
type recorder struct {
	rows []string
	done []lockbench.Row
	last func() int64
}

func (r *recorder) Row(_, _ int, contender string) { r.rows = append(r.rows, contender) }
func (r *recorder) Waiting(waiting func() int64)   { r.last = waiting }
func (r *recorder) Done(row lockbench.Row)         { r.done = append(r.done, row) }

func TestProgress(t *testing.T) {
	cfg, _ := config(t, "embedded")
	cfg.Names = []string{"mutex+setnx", "v7_queue"}
	var p recorder
	if _, err := lockbench.Run(t.Context(), cfg, &p); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(p.rows, cfg.Names) || len(p.done) != 2 {
		t.Errorf("begun %v, done %d", p.rows, len(p.done))
	}
	if n := p.last(); n < 0 || n > int64(cfg.Contenders) { // also when the row is long over
		t.Errorf("%d are awaited", n)
	}
}

func TestMemoryOfWaiters(t *testing.T) {
	cfg, _ := config(t, "local")
	r, err := lockbench.NewRunner(t.Context(), cfg, lockbench.Silent{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	m, err := r.Memory("v7_queue", 5000)
	if err != nil {
		t.Fatal(err)
	}
	if all := m.Heap + m.Stack; all <= 0 || all > 4096 || m.Waiters != 5000 {
		t.Errorf("%d waiters take %d bytes of heap and %d of stack each; want up to 4096", m.Waiters, m.Heap, m.Stack)
	}
}
