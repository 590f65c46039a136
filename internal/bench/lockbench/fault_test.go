//go:build unix

package lockbench_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"oversell/internal/backend/backendtest"
	"oversell/internal/bench/lockbench"
)

// disturbed is a config in which something is done to the processes.
func disturbed(t *testing.T, kind string, d lockbench.Fault) lockbench.Config {
	t.Helper()
	cfg, _ := config(t, kind)
	cfg.Contenders, cfg.Processes, cfg.Fault = 400, 4, d
	return cfg
}

// Of a process that is killed, inside or anywhere, the others do not suffer for
// longer than the lease.
func TestKilledProcess(t *testing.T) {
	for _, kind := range kinds {
		for _, inside := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/inside=%v", kind, inside), func(t *testing.T) {
				t.Parallel()
				cfg := disturbed(t, kind, lockbench.Fault{Kill: true, Inside: inside})
				r := row(t, cfg, "v7_queue")
				if r.Verdict != lockbench.AllServed || r.Killed == 0 || r.Disturbed == nil || r.Disturbed.Killed == 0 || r.MaxHolders != 1 {
					t.Errorf("%+v, %+v", r, r.Disturbed)
				}
			})
		}
	}
}

func TestKilledHolderOfALockWithoutALease(t *testing.T) {
	backendtest.System(t) // processes that run for seconds
	t.Parallel()
	cfg := disturbed(t, "embedded", lockbench.Fault{Kill: true, Inside: true})
	cfg.Contenders = 4000      // so many that most still wait when a busy machine comes to the kill
	cfg.Wait = 6 * time.Second // within which the kill must come
	r := row(t, cfg, "v1_setnx+line:2ms")
	if r.Verdict != lockbench.Starved || r.NeverServed == 0 || r.Unsure != 1 {
		t.Errorf("%s: %d never served, %d unsure", r.Verdict, r.NeverServed, r.Unsure)
	}
}

// What is stopped for less than the lease has it when it goes on.
func TestStoppedProcess(t *testing.T) {
	cfg := disturbed(t, "local", lockbench.Fault{Stop: 300 * time.Millisecond, Inside: true})
	r := row(t, cfg, "v7_queue")
	if r.Verdict != lockbench.AllServed || r.MaxHolders != 1 || r.Served != 400 {
		t.Errorf("%+v", r)
	}
	if d := r.Disturbed; d == nil || d.Stopped == 0 || d.Resumed-d.StoppedAt < 290 {
		t.Errorf("disturbed: %+v", d)
	}
}

// What is stopped for longer is a second holder when it goes on; and of what it
// did until then it is not accused.
func TestStoppedForLongerThanTheLease(t *testing.T) {
	cfg := disturbed(t, "local", lockbench.Fault{Stop: 1500 * time.Millisecond, Inside: true})
	cfg.TTL = 500 * time.Millisecond
	for _, name := range []string{"v5_reentrant+line:2ms", "v7_queue"} {
		r := row(t, cfg, name)
		if r.NeverServed != 0 || r.Killed != 0 {
			t.Errorf("%s: %+v", name, r)
		}
		if r.MaxHoldersRunning != 1 && r.Stalled < 100 { // ms; others may have stood still, too
			t.Errorf("%s: %d holders that run", name, r.MaxHoldersRunning)
		}
	}
}

func TestKillAndStop(t *testing.T) {
	t.Parallel()
	cfg := disturbed(t, "local", lockbench.Fault{Kill: true, Stop: 300 * time.Millisecond})
	r := row(t, cfg, "v7_queue")
	if d := r.Disturbed; d == nil || d.Killed == 0 || d.Stopped == 0 || d.Killed == d.Stopped || d.Missed != "" {
		t.Errorf("disturbed: %+v", d)
	}
	if r.Verdict != lockbench.AllServed {
		t.Errorf("%+v", r)
	}
}

func TestDisturbanceThatDoesNotComeAbout(t *testing.T) {
	cfg := disturbed(t, "embedded", lockbench.Fault{Kill: true})
	r := row(t, cfg, "liar")
	if r.Disturbed == nil || !strings.Contains(r.Disturbed.Missed, "over before") {
		t.Errorf("disturbed: %+v", r.Disturbed)
	}
}
