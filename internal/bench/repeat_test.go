package bench_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"oversell/internal/bench"
	"oversell/internal/bench/report"
	"oversell/internal/catalog"
	"oversell/internal/figures"
	"oversell/internal/present"
)

// diary is a Progress that keeps what it is told.
type diary struct {
	bench.Silent
	begun []string
	done  int
	after int // rows, and then stop is called
	stop  func()
}

func (d *diary) Row(n, all int, strategy string, c catalog.Condition) {
	d.begun = append(d.begun, fmt.Sprintf("%d/%d %s %s", n, all, strategy, c))
}

func (d *diary) Done(report.Row) {
	if d.done++; d.done == d.after {
		d.stop()
	}
}

// A machine that is slow for a while is to slow down all rows, and not all the
// runs of one.
func TestRepeatedRowsTakeTurns(t *testing.T) {
	cfg := config(t, "embedded")
	cfg.Requests, cfg.Stock, cfg.Repeat = 60, 20, 3
	cfg.Strategies = []string{"watch", "v6_watchdog"}
	var d diary
	rows, err := bench.Run(t.Context(), cfg, &d)
	must(t, err)
	var order []string
	for _, row := range rows {
		order = append(order, fmt.Sprint(row.Strategy, " ", row.Repeat))
		if row.Sold != 20 || !row.Expected {
			t.Errorf("run %d of %s sold %d: %s", row.Repeat, row.Strategy, row.Sold, row.Differs)
		}
	}
	if want := []string{"watch 1", "v6_watchdog 1", "watch 2", "v6_watchdog 2", "watch 3", "v6_watchdog 3"}; !slices.Equal(order, want) {
		t.Errorf("the rows were run in the order %q, want %q", order, want)
	}
	if last := d.begun[len(d.begun)-1]; last != "6/6 v6_watchdog calm" {
		t.Errorf("the last row began as %q", last)
	}
	groups := report.Report{Rows: rows}.Groups()
	if len(groups) != 2 || groups[0].Runs != 3 || groups[0].Expected != 3 || groups[1].Verdicts[figures.OK] != 3 {
		t.Errorf("the groups are %+v", groups)
	}
	if sold := groups[1].Figures["sold"]; sold != (figures.Estimate{Median: 20, Low: 20, High: 20, Runs: 3}) {
		t.Errorf("sold: %+v", sold)
	}
}

// A bench that is ended among its repeats has the rows that were finished.
func TestRepeatedRowsAreInterrupted(t *testing.T) {
	cfg := config(t, "embedded")
	cfg.Requests, cfg.Stock, cfg.Repeat = 60, 20, 50
	cfg.Strategies = []string{"watch", "v6_watchdog"}
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	rows, err := bench.Run(ctx, cfg, &diary{after: 3, stop: func() { cancel(errStop) }})
	if !errors.Is(err, errStop) || len(rows) != 3 {
		t.Fatalf("%d rows and %v, want 3 and %v", len(rows), err, errStop)
	}
	var table strings.Builder
	r := report.Report{Manifest: cfg.Manifest("a redis", "a database"), Rows: rows}
	must(t, r.WriteTable(&table, present.Style{}))
	for _, want := range []string{"the median of 1 or 2 runs", "ok 2/2", "ok 1/1", "All 3 runs of 2 rows matched"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("%q is not in\n%s", want, &table)
		}
	}
}

// Of many runs no items are left, and only those of two rounds are there at once.
func TestRepeatedRowsLeaveNoItems(t *testing.T) {
	base, err := url.Parse(open(t, ""))
	must(t, err)
	var mu sync.Mutex
	there, most := make(map[string]bool), 0
	pass := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(base) }, Transport: &http.Transport{}}
	defer pass.Transport.(*http.Transport).CloseIdleConnections()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		switch r.Method {
		case http.MethodPut:
			there[r.URL.Path] = true
		case http.MethodDelete:
			delete(there, r.URL.Path)
		}
		most = max(most, len(there))
		mu.Unlock()
		pass.ServeHTTP(w, r)
	}))
	defer s.Close()
	cfg := against(s.URL)
	cfg.Strategies, cfg.Repeat = []string{"watch", "v6_watchdog"}, 4
	_, err = bench.Run(t.Context(), cfg, bench.Silent{})
	must(t, err)
	if len(there) != 0 || most != 4 {
		t.Errorf("%d items are left, and %d were there at once; want 0 and 4", len(there), most)
	}
}
