package bench_test

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"oversell/internal/backend/backendtest"
	"oversell/internal/bench"
	"oversell/internal/catalog"
)

// killed counts the killed processes, and fails the test if a process failed in another way.
func killed(t *testing.T, p *backendtest.Processes) int {
	t.Helper()
	n := 0
	for _, cmd := range p.All() {
		switch state := cmd.ProcessState; {
		case state.String() == "signal: killed":
			n++
		case !state.Success():
			t.Errorf("process %d ended with %v", state.Pid(), state)
		}
	}
	return n
}

func TestCrashKillsAProcessAndTheNextRowHasAnother(t *testing.T) {
	cfg := config(t, "embedded")
	var all backendtest.Processes
	cfg.Command = all.Command(healthy)
	cfg.Strategies, cfg.Conditions = []string{"v6_watchdog"}, []catalog.Condition{catalog.Crash, catalog.Calm}
	rows := run(t, cfg)
	checkExpected(t, rows)
	want := 1 + len(rows["v6_watchdog/crash"].Discarded)
	if n := killed(t, &all); n != want || len(all.All()) < 2+want {
		t.Errorf("%d processes, %d of them killed; want %d or more, and %d", len(all.All()), n, 2+want, want)
	}
	if n := rows["v6_watchdog/crash"].Unknown; n == 0 {
		t.Error("crash: everybody learned the outcome, also from a dead process")
	}
	if n := rows["v6_watchdog/calm"].Unknown; n != 0 {
		t.Errorf("calm: %d outcomes not learned", n)
	}
}

// An instance that exits without being killed ends the run: its row says nothing about the
// strategy.
func TestInstanceThatEndsByItselfEndsTheBench(t *testing.T) {
	cfg := config(t, "embedded")
	var all backendtest.Processes
	cfg.Command = all.Command(dies)
	cfg.Strategies = []string{"watch", "v6_watchdog"}
	rows, err := bench.Run(t.Context(), cfg, bench.Silent{})
	all.CheckEnded(t)
	if len(rows) != 1 || rows[0].Strategy != "watch" || !rows[0].Expected {
		t.Errorf("the finished rows are %+v, want that of watch", rows)
	}
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"v6_watchdog under calm", "ended by itself", "exit status 7", "out of order"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not have %q", err, want)
		}
	}
}

func TestInstanceThatCannotStartSaysWhy(t *testing.T) {
	for want, command := range map[string]func() (*exec.Cmd, error){
		"ended by itself: exit status 2": new(backendtest.Processes).Command(unable),
		"no such file":                   missing(t),
		"no program":                     func() (*exec.Cmd, error) { return nil, errors.New("no program") },
	} {
		cfg := config(t, "embedded")
		cfg.Command, cfg.Strategies = command, []string{"none"}
		rows, err := bench.Run(t.Context(), cfg, bench.Silent{})
		if err == nil || !strings.Contains(err.Error(), want) || len(rows) != 0 {
			t.Errorf("got %d rows and %v, want %q", len(rows), err, want)
		}
	}
}

func missing(t *testing.T) func() (*exec.Cmd, error) {
	path := filepath.Join(t.TempDir(), "gone")
	return func() (*exec.Cmd, error) { return exec.Command(path), nil }
}

// stopper is a Progress that cancels the bench in the middle of a row.
type stopper struct {
	bench.Silent
	at     string // the row in which it cancels
	done   int64  // number of buyers that must be done before; 0: none
	after  time.Duration
	cancel context.CancelCauseFunc
	name   string
}

func (s *stopper) Row(_, _ int, strategy string, c catalog.Condition) {
	s.name = strategy + "/" + string(c)
}

func (s *stopper) Waiting(_ string, waiting func() int64) {
	if s.name != s.at {
		return
	}
	all := waiting()
	go func() {
		for waiting() > max(0, all-s.done) {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(s.after)
		s.cancel(errStop)
	}()
}

// A cancelled run stops immediately, even while holders work, a process is paused, or all
// buyers wait for a dead holder.
func TestCancelStopsWhateverGoesOn(t *testing.T) {
	for _, at := range []string{"v4_lua/slow", "v4_lua/pause", "v1_setnx/crash"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			strategy, condition, _ := strings.Cut(at, "/")
			cfg := config(t, "embedded")
			var all backendtest.Processes
			cfg.Command = all.Command(healthy)
			cfg.TTL, cfg.Wait = 5*time.Second, time.Minute
			cfg.Strategies = []string{strategy}
			cfg.Conditions = []catalog.Condition{catalog.Condition(condition)}
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			rows, err := bench.Run(ctx, cfg, &stopper{at: at, after: 300 * time.Millisecond, cancel: cancel})
			if !errors.Is(err, errStop) {
				t.Errorf("error %v, want the cause of the end", err)
			}
			if len(rows) != 0 {
				t.Errorf("%d finished rows", len(rows))
			}
			all.CheckEnded(t)
		})
	}
}

// A row whose fault found no holder is run again, because the run shows nothing about the lock.
func TestRowWithoutItsFaultIsRunAgain(t *testing.T) {
	t.Parallel()
	cfg := config(t, "embedded")
	cfg.Requests, cfg.TTL, cfg.Command = 20, 100*time.Millisecond, new(backendtest.Processes).Command(blind)
	cfg.Strategies, cfg.Conditions = []string{"v4_lua"}, []catalog.Condition{catalog.Crash}
	row := run(t, cfg)["v4_lua/crash"]
	if n := len(row.Discarded); row.Expected || n != 3 || !row.Discarded[n-1].Missed {
		t.Errorf("expected: %v, %s, after %+v", row.Expected, row.Differs, row.Discarded)
	}
}
