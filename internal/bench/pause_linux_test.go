//go:build system

package bench_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"oversell/internal/backend/backendtest"
	"oversell/internal/bench"
	"oversell/internal/bench/report"
	"oversell/internal/catalog"
)

// halts is a Progress that looks, as long as a row is under way, whether one of
// the test's own children is halted.
type halts struct {
	bench.Silent
	stop          chan struct{}
	wg            sync.WaitGroup
	before, after time.Time // the last look before it was halted, and the first after
}

func (h *halts) Waiting(func() int64) {
	h.before = time.Now()
	h.wg.Go(func() {
		for seen := false; h.after.IsZero(); {
			select {
			case <-h.stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
			now := time.Now()
			switch halted := haltedChild(); {
			case halted:
				seen = true
			case seen:
				h.after = time.Now()
			default:
				h.before = now
			}
		}
	})
}

func (h *halts) Done(report.Row) { close(h.stop) }

// haltedChild reports whether a child of this process is halted by a signal.
func haltedChild() bool {
	tasks, _ := os.ReadDir("/proc/self/task")
	for _, task := range tasks {
		list, _ := os.ReadFile("/proc/self/task/" + task.Name() + "/children")
		for pid := range strings.FieldsSeq(string(list)) {
			stat, _ := os.ReadFile(fmt.Sprintf("/proc/%s/stat", pid))
			if strings.Contains(string(stat), ") T ") {
				return true
			}
		}
	}
	return false
}

func TestPauseHaltsAProcessForLongerThanTheTTL(t *testing.T) {
	cfg := config(t, "embedded")
	var all processes
	cfg.Command = all.command(healthy)
	cfg.TTL = shortTTL
	cfg.Strategies, cfg.Conditions = []string{"v1_setnx"}, []catalog.Condition{catalog.Pause}
	h := &halts{stop: make(chan struct{})}
	rows, err := bench.Run(t.Context(), cfg, h)
	must(t, err)
	h.wg.Wait()
	if halted := h.after.Sub(h.before); halted < cfg.TTL {
		t.Errorf("a process was halted for %v, with a ttl of %v", halted, cfg.TTL)
	}
	if !rows[0].Expected || all.killed(t) != 0 || len(all.cmds) != 2 {
		t.Errorf("%+v, %d killed of %d", rows[0], all.killed(t), len(all.cmds))
	}
}

// standstill is a Progress that halts the only instance for half a second in
// each try at a row, as the host of a virtual machine may.
type standstill struct {
	bench.Silent
	t     *testing.T
	all   *processes
	tries int
}

func (s *standstill) Waiting(func() int64) {
	s.tries++
	process := s.all.cmds[len(s.all.cmds)-1].Process
	must(s.t, process.Signal(syscall.SIGSTOP))
	for !stopped(process.Pid) { // until each of its threads has heard of it, it serves requests
		time.Sleep(time.Millisecond)
	}
	time.AfterFunc(500*time.Millisecond, func() { _ = process.Signal(syscall.SIGCONT) })
}

// stopped reports whether no thread of a process runs, or there is none any more.
func stopped(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	return !slices.ContainsFunc(threads, func(thread string) bool {
		stat, err := os.ReadFile(thread)
		return err == nil && !strings.Contains(string(stat), ") T ")
	})
}

// One request alone comes out right even where nothing guards the stock. The
// catalog says otherwise, so the row is run again until the ttl is long enough
// for half a second not to matter, and then stands as it is. A row that is as
// the catalog says is not run again.
func TestRowIsRunAgainWhenAProcessStoodStill(t *testing.T) {
	for _, strategy := range []string{"none", "v6_watchdog"} {
		t.Run(strategy, func(t *testing.T) {
			cfg := config(t, "embedded") // with a ttl of 1s
			var all processes
			cfg.Command = all.command(healthy)
			cfg.Instances, cfg.Requests, cfg.Strategies = 1, 1, []string{strategy}
			s := &standstill{t: t, all: &all}
			rows, err := bench.Run(t.Context(), cfg, s)
			must(t, err)
			all.checkEnded(t)
			left, err := backendtest.DialRedis(t, cfg.RedisURL).Keys(t.Context(), "*{bench-*").Result()
			if must(t, err); len(left) > 0 {
				t.Errorf("the bench leaves behind %v", left)
			}
			row := rows[0]
			if len(rows) != 1 || row.Sold != 1 || len(row.Discarded) != s.tries-1 {
				t.Fatalf("%d tries, %+v", s.tries, rows)
			}
			if strategy == "v6_watchdog" {
				if !row.Expected || s.tries != 1 || row.TTL != "1s" {
					t.Errorf("%d tries, %+v; want the first to count", s.tries, row)
				}
				return
			}
			if row.Expected || s.tries < 3 || row.TTL != "4s" && row.TTL != "8s" {
				t.Errorf("%d tries, %+v; want the third to count, or the fourth on a busy machine", s.tries, row)
			}
			for i, d := range row.Discarded {
				if want := time.Second << i; d.TTL != want.String() || d.Stalled < float64(want.Milliseconds()/5) || d.Differs == "" {
					t.Errorf("discarded %+v, want the ttl %v", d, want)
				}
			}
		})
	}
}
