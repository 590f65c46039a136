package main

import (
	"encoding/json"
	"strings"
	"testing"

	"oversell/internal/backend/backendtest"
	"oversell/internal/bench/lockbench"
)

// locksOnly makes a bench of locks that is over soon.
func locksOnly(args ...string) []string {
	return append(strings.Fields("-workload lock -requests 40 -instances 2"), args...)
}

func TestLockWorkload(t *testing.T) {
	t.Parallel()
	got := try(t, locksOnly("-strategies", "v7_queue,v4_lua+line:2ms", "-repeat", "2", "-json", "-")...)
	if got.code != exitExpected {
		t.Fatalf("exit code %d\n%s", got.code, got.stderr)
	}
	var report lockReport
	if err := json.Unmarshal([]byte(got.stdout), &report); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, row := range report.Rows {
		names = append(names, row.Strategy)
		if row.Served != 40 || row.MaxHolders != 1 || row.Processes != 2 || row.Verdict != lockbench.AllServed {
			t.Errorf("run %d of %s: %+v", row.Repeat, row.Strategy, row.Row)
		}
	}
	// Run by run, and not one contender after the other.
	if want := "v7_queue v4_lua+line:2ms v7_queue v4_lua+line:2ms"; strings.Join(names, " ") != want {
		t.Errorf("ran %v, want %s", names, want)
	}
	if len(report.Summary) != 2 || report.Summary[0].Throughput.Median <= 0 || report.Manifest.Workload != workloadLock {
		t.Errorf("summary %+v, workload %q", report.Summary, report.Manifest.Workload)
	}
	for _, part := range []string{"40 contenders for one lock, in 2 processes", "calm, run 2 of 2", "medians of 2 runs"} {
		if !strings.Contains(got.stderr, part) {
			t.Errorf("%q is not in\n%s", part, got.stderr)
		}
	}
}

// A library's lock is judged on a real Redis only, with the shop and without it. What the verdict
// is there is up to the library: one that gives up waiting does so on a busy machine too.
func TestLockWorkloadJudgesLibrariesOnARealRedis(t *testing.T) {
	t.Parallel()
	for _, kind := range backendtest.Kinds() {
		t.Run(kind, func(t *testing.T) {
			got := try(t, locksOnly("-redis", backendtest.Redis(t, kind), "-strategies", "v2,redsync,redislock:best")...)
			for name, library := range map[string]bool{"v2_ttl": false, "redsync ": true, "redislock:best": true} {
				line := got.stdout[max(0, strings.Index(got.stdout, "\n"+name)+1):]
				line, _, _ = strings.Cut(line, "\n")
				if strings.HasSuffix(line, "  "+string(lockbench.NotComparable)) != (library && kind == "embedded") {
					t.Errorf("%s on a Redis that is %s: %q", name, kind, line)
				}
			}
			if told := strings.Contains(got.stdout, "not comparable here: redsync, redislock:best\n"); told != (kind == "embedded") || got.code != exitExpected {
				t.Errorf("exit code %d, said to be not comparable: %v\n%s%s", got.code, told, got.stdout, got.stderr)
			}
		})
	}
}

// In two processes a mutex is no lock. The one without any is there to show what
// a deduct costs, and does not make the exit code a failure. So many contenders take longer
// than a busy machine keeps one of the processes waiting.
func TestLockWorkloadShowsWhatIsLost(t *testing.T) {
	backendtest.System(t) // a whole run
	got := try(t, "-workload", "lock", "-requests", "10000", "-instances", "2", "-strategies", lockbench.Bare)
	if got.code != exitExpected || !strings.Contains(got.stdout, string(lockbench.Broken)) {
		t.Errorf("exit code %d\n%s%s", got.code, got.stdout, got.stderr)
	}
}

func TestLockWorkloadRefusesWhatIsOfAShop(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{locksOnly("-stock", "5"), "-stock is not a flag of workload lock"},
		{locksOnly("-db", "local"), "-db is not a flag of workload lock"},
		{locksOnly("-strategies", "v4_none"), "v4_lua+line:2ms"},
		{locksOnly("-strategies", "v4,v4_lua+line:2ms"), "v4_lua+line:2ms is named twice"},
		{locksOnly("-conditions", "slow"), "crash+pause"},
		{locksOnly("-repeat", "0"), "must be 1 to"},
		{[]string{"-workload", "lock", "-requests", "1", "-instances", "2"}, "one for each process"},
		{[]string{"-workload", "lock", "-conditions", "crash"}, "at least 2"},
	} {
		got := try(t, tt.args...)
		if got.code != exitFailed || !strings.Contains(got.stderr, tt.want) || strings.Count(got.stderr, "\n") != 1 {
			t.Errorf("%v: exit code %d, %q; want %d and a line with %q", tt.args, got.code, got.stderr, exitFailed, tt.want)
		}
	}
}
