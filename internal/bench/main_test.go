package bench_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"oversell/internal/backend"
	"oversell/internal/backend/backendtest"
	"oversell/internal/bench"
	"oversell/internal/bench/report"
	"oversell/internal/catalog"
	"oversell/internal/guard"
	"oversell/internal/shop"
	"oversell/internal/stock"
)

// The ways in which this test binary behaves as an instance.
const (
	healthy = "healthy"
	dies    = "dies"    // exits by itself at the first sale of the second row
	unable  = "unable"  // cannot serve, and prints the reason
	forgets = "forgets" // sometimes loses an order after it replied to the buyer
	blind   = "blind"   // its holders reach no seam
)

func TestMain(m *testing.M) {
	backendtest.Play(instance)
	os.Exit(backendtest.Main(m))
}

func instance(ctx context.Context, as string, in io.Reader, out, log io.Writer) error {
	adjust := func(c *shop.Config) {
		if as == dies {
			c.Stock.Work = dieInSecondRow(c.Stock.Work)
		}
		if as == blind {
			c.Stock.Work = nil
		}
		if as == unable {
			c.RedisURL = "redis://127.0.0.1:1"
		}
	}
	if as == forgets {
		adjust = forgetOrders
	}
	return bench.Serve(ctx, in, out, log, adjust)
}

func dieInSecondRow(work stock.Work) stock.Work {
	return func(ctx context.Context, sku string) (func(), error) {
		if strings.HasSuffix(sku, "-2") {
			fmt.Fprintln(os.Stderr, "out of order")
			os.Exit(7)
		}
		return work(ctx, sku)
	}
}

// forgetOrders makes the shop delete its oldest order at every tenth order.
func forgetOrders(c *shop.Config) {
	db, err := backend.DialDatabase(context.Background(), c.DBURL)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	work := c.Stock.Work
	var taken atomic.Int64
	c.Stock.Work = func(ctx context.Context, sku string) (func(), error) {
		if taken.Add(1)%10 == 0 {
			db.Exec("DELETE FROM " + backend.TablePrefix +
				"orders WHERE id = (SELECT id FROM (SELECT MIN(id) AS id FROM " + backend.TablePrefix +
				"orders) AS oldest)")
		}
		return work(ctx, sku)
	}
}

// config returns the config of a small run on backends of the given kind.
func config(t *testing.T, kind string) bench.Config {
	t.Helper()
	return bench.Config{
		Requests: 300, Stock: 60, Workload: catalog.Deduct,
		Conditions: []catalog.Condition{catalog.Calm}, Instances: 2,
		Keys: bench.NoKeys, SecondLook: true,
		TTL: time.Second, Work: time.Millisecond, Policy: &guard.Line{Delay: 2 * time.Millisecond},
		Command:  new(backendtest.Processes).Command(healthy),
		RedisURL: backendtest.Redis(t, kind), DBURL: backendtest.Database(t, kind),
	}
}

// run runs the config, which must succeed, and returns its rows by strategy and condition.
func run(t *testing.T, cfg bench.Config) map[string]report.Row {
	t.Helper()
	rows, err := bench.Run(t.Context(), cfg, bench.Silent{})
	must(t, err)
	if want := len(cfg.Strategies) * len(cfg.Conditions); len(rows) != want {
		t.Fatalf("%d rows, want %d", len(rows), want)
	}
	byName := make(map[string]report.Row)
	for _, row := range rows {
		byName[row.Strategy+"/"+string(row.Condition)] = row
		sent := int64(row.Requests)
		if row.Open != nil {
			sent = row.Open.Sent
		}
		if n := row.Served + row.SoldOut + row.Failed + row.Unknown; n != sent {
			t.Errorf("%s under %s: %d outcomes of %d requests", row.Strategy, row.Condition, n, sent)
		}
	}
	return byName
}

// must ends the test if err is not nil.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var errStop = errors.New("the test has seen enough")

// checkExpected fails the test for each row that differs from the catalog's expectation.
func checkExpected(t *testing.T, rows map[string]report.Row) {
	t.Helper()
	for name, row := range rows {
		if !row.Expected {
			t.Errorf("%s: %s; %+v", name, row.Differs, row)
		}
	}
}
