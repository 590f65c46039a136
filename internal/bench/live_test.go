//go:build system

package bench_test

import (
	"sync"
	"testing"
	"time"

	"oversell/internal/bench"
	"oversell/internal/bench/report"
	"oversell/internal/catalog"
)

// onlooker is a Watcher that looks all the time while a row runs.
type onlooker struct {
	bench.Silent
	stop chan struct{}
	wg   sync.WaitGroup
	look func() bench.Live

	seen   []bench.Live  // states of the latest row while it was under way
	audits map[int64]int // by the time of the audit
	last   bench.Live    // the state at the end of the row
	rows   []observedRow // the finished rows
}

func (o *onlooker) Watch(look func() bench.Live) {
	o.stop, o.look, o.seen, o.audits = make(chan struct{}), look, nil, make(map[int64]int)
	o.wg.Go(func() {
		ticker := time.NewTicker(5 * time.Millisecond)
		defer ticker.Stop()
		for {
			l := look()
			o.seen = append(o.seen, l)
			if l.Audited > 0 {
				o.audits[int64(l.Audited)]++
			}
			select {
			case <-ticker.C:
			case <-o.stop:
				return
			}
		}
	})
}

func (o *onlooker) Done(row report.Row) {
	close(o.stop)
	o.wg.Wait()
	o.last = o.look()
	o.rows = append(o.rows, observedRow{row, o.last})
}

// observedRow is a finished row, with its last observed state.
type observedRow struct {
	report.Row
	last bench.Live
}

// watched runs one row, and observes it.
func watched(t *testing.T, cfg bench.Config) (report.Row, *onlooker) {
	t.Helper()
	o := new(onlooker)
	rows, err := bench.Run(t.Context(), cfg, o)
	if err != nil || len(rows) != 1 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	return rows[0], o
}

// The figures of a running row never exceed the final ones, and are equal to them at the end.
func TestRowIsSeenOnItsWay(t *testing.T) {
	t.Parallel()
	cfg := config(t, "embedded")
	cfg.Strategies, cfg.Work = []string{"none"}, 300*time.Millisecond
	row, o := watched(t, cfg)
	var before bench.Live
	for _, l := range o.seen {
		if l.Served+l.SoldOut+l.Failed+l.Unknown > int64(row.Requests) || l.Stock.Sold > row.Sold ||
			l.MaxHolders > row.MaxHolders {
			t.Fatalf("seen on the way: %+v; the row came to %+v", l, row)
		}
		if l.Served < before.Served || l.Stock.Sold < before.Stock.Sold || l.MaxHolders < before.MaxHolders ||
			l.Audited < before.Audited {
			t.Fatalf("went back from %+v to %+v", before, l)
		}
		before = l
	}
	if len(o.audits) < 2 {
		t.Errorf("%d audits were seen, want some", len(o.audits))
	}
	if o.last.Waiting != 0 || o.last.Served != row.Served || o.last.SoldOut != row.SoldOut ||
		o.last.Failed != row.Failed {
		t.Errorf("in the end %+v was seen, and the row has %+v", o.last, row)
	}
}

// The number of holders is current, even if a process was stopped with a holder inside: the next
// holder enters when the lease has expired.
func TestWhoIsInsideIsSeenAtTheMoment(t *testing.T) {
	t.Parallel()
	cfg := config(t, "embedded")
	cfg.Strategies, cfg.Conditions, cfg.TTL = []string{"v6_watchdog"}, []catalog.Condition{catalog.Pause}, 2*time.Second
	row, o := watched(t, cfg)
	two := 0
	for _, l := range o.seen {
		switch {
		case l.Holders > int64(row.MaxHolders):
			t.Fatalf("%d were inside at once, and the row knows of %d", l.Holders, row.MaxHolders)
		case l.Holders == 2:
			two++
		}
	}
	if row.MaxHolders != 2 || two == 0 {
		t.Errorf("%d of %d looks saw two inside; the row came to %d", two, len(o.seen), row.MaxHolders)
	}
	if o.last.Holders != -1 {
		t.Errorf("when the row is over %d are inside; want that it is not known", o.last.Holders)
	}
}
