package bench

import (
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"oversell/internal/bench/report"
	"oversell/internal/catalog"
	"oversell/internal/figures"
	"oversell/internal/fleet"
	"oversell/internal/stock"
)

// A process that is stopped with a holder inside stays stopped until another holder has read the stock.
// On a slow machine, the waiters may not have noticed yet that the lease has expired.
func TestTheStoppedWaitForTheirSuccessor(t *testing.T) {
	if !fleet.LiveWords {
		t.Skip("gauges cannot be read here")
	}
	counters, f := gauged(t)
	synctest.Test(t, func(t *testing.T) {
		stopped := f.Members()[0]
		waits := func(what string, want time.Duration) {
			before, start := f.worked(stopped), time.Now()
			f.succeeded(t.Context(), stopped, before, time.Second)
			if took := time.Since(start); took != want {
				t.Errorf("%s: waited for %v, want %v", what, took, want)
			}
		}
		counters[1].count("item", +1)
		time.AfterFunc(199500*time.Microsecond, func() { counters[1].add("item", gaugeWork) })
		waits("a successor at work after 200 ms", 200*time.Millisecond)
		time.AfterFunc(199500*time.Microsecond, func() { counters[0].add("item", gaugeWork) })
		waits("one in the stopped process", time.Second)

		before, start := f.worked(stopped), time.Now()
		counters[1].add("item", gaugeWork)
		if f.succeeded(t.Context(), stopped, before, time.Second); time.Since(start) != 0 {
			t.Errorf("a successor before: waited for %v", time.Since(start))
		}
		f.gauged = false
		waits("gauges that are not read", 0)
	})
}

// A fault is injected only when all shops are selling. Otherwise the only selling shop could be
// killed before two holders ever compete.
func TestFaultsWaitForAllShops(t *testing.T) {
	if !fleet.LiveWords {
		t.Skip("gauges cannot be read here")
	}
	counters, f := gauged(t)
	counters[0].add("item", gaugeWork)
	counters[1].add("another item", gaugeWork)
	if f.takePart() {
		t.Error("one shop of two sells the item, and both are said to take part")
	}
	counters[1].add("item", gaugeWork)
	if !f.takePart() {
		t.Error("both shops sell the item, and are not said to take part")
	}
}

// A run without its fault shows nothing, unless it is worse than one under calm: a later run must not
// hide that.
func TestRunThatIsWorseThanCalmCounts(t *testing.T) {
	strategy, err := catalog.Strategies().Find("v4_lua")
	must(t, err)
	for verdict, missed := range map[figures.Verdict]bool{figures.OK: true, figures.Oversold: false} {
		r := &run{cfg: Config{Workload: catalog.Deduct, Instances: 2}, strategy: strategy, cond: catalog.Crash}
		row := report.Row{Verdict: verdict}
		r.expect(&row, outcome{notInjected: errNotInjected})
		if told := strings.Contains(row.Differs, "verdict"); r.missed != missed || told == missed {
			t.Errorf("%s: missed %v, %q", verdict, r.missed, row.Differs)
		}
	}
}

// slowFailovers is a Redis whose failover takes a while.
type slowFailovers struct {
	Failovers
	takes time.Duration
}

func (f slowFailovers) Failover(context.Context) error {
	time.Sleep(f.takes)
	return nil
}

// A failover that ends when all buyers have come shows nothing. It begins some time after the first
// buyers.
func TestFailoverMustEndBeforeTheLastBuyers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &run{cfg: Config{Failovers: slowFailovers{takes: 2500 * time.Millisecond}, Duration: 4 * time.Second}}
		if err := r.overtake(t.Context(), t.Context(), time.Now().Add(-time.Second)); err == nil {
			t.Error("no error for a failover that ended half a second before the last buyer came")
		}
	})
}

// If a shop ends while the others are told of a partition, the holder that waits goes on all the same.
func TestHolderGoesOnWithoutItsPartition(t *testing.T) {
	told := filepath.Join(t.TempDir(), "told")
	all := fleet.New(func(n int) (fleet.Program, error) {
		then := "read -r order; echo $order >" + told + "; cat"
		if n == 2 {
			then = "read -r order; exit 3"
		}
		return fleet.Program{Name: "shop", Command: func() (*exec.Cmd, error) {
			return exec.Command("sh", "-c", `read -r setup; echo '{"ready":""}'; `+then), nil
		}}, nil
	})
	must(t, all.Fill(t.Context(), 2))
	r := &run{
		cfg: Config{Keeper: stock.InDatabase}, strategy: catalog.Strategy{Kind: catalog.Guarded},
		cond: catalog.Partition, shops: &shops{Fleet: all},
	}
	err := r.partition(t.Context(), all.Members()[0])
	all.Stop(time.Second)
	text, _ := os.ReadFile(told)
	if err == nil || !strings.Contains(string(text), "resume") {
		t.Errorf("%v; the shop of the holder was told %q, want that it resumes", err, text)
	}
}

// hangs is a target that answers nothing.
type hangs struct{}

func (hangs) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// An interrupted bench does not wait for long for a target that hangs.
func TestInterruptedBenchLeavesAHangingTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &runner{
			asked: Config{Targets: []string{"http://h:1"}}, shops: shopsAt([]string{"http://h:1"}), progress: Silent{},
			admin: client{Client: http.Client{Transport: hangs{}}}, skus: []string{"bench-1", "bench-2"},
		}
		start := time.Now()
		err := b.tidy(true)
		if took := time.Since(start); took > interruptTimeout || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after %v: %v", took, err)
		}
	})
}
