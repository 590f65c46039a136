package web

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"oversell/internal/figures"
	"oversell/internal/stock"
)

// fakeAudits counts the audits of each item, and answers them all alike.
type fakeAudits struct {
	made     map[string]int
	answer   stock.Audit
	alarms   int64
	noAlarms error
	fail     error
	hang     chan struct{} // if not nil, audits hang until it is closed
	// stubborn makes hanging audits ignore their context.
	stubborn bool
}

func (f *fakeAudits) countAlarms(context.Context) (int64, error) { return f.alarms, f.noAlarms }

func (f *fakeAudits) audit(ctx context.Context, sku string) (stock.Audit, error) {
	f.made[sku]++
	if f.hang != nil && f.stubborn {
		<-f.hang
	} else if f.hang != nil {
		select {
		case <-f.hang:
		case <-ctx.Done():
			return stock.Audit{}, ctx.Err()
		}
	}
	a := f.answer
	a.SKU = sku
	return a, f.fail
}

// watching runs a test in virtual time.
func watching(t *testing.T, test func(t *testing.T, m *saleMetrics, audits *fakeAudits)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		audits := &fakeAudits{made: map[string]int{}, answer: stock.Audit{SaleID: "1"}}
		m := newSaleMetrics(audits.audit, audits.countAlarms)
		test(t, m, audits)
		m.close()
		m.wait(time.Hour)
	})
}

// A scrape shows the figures of an audit, and the next scrapes reuse them.
func TestSaleMetricsAreAuditedRarely(t *testing.T) {
	watching(t, func(t *testing.T, m *saleMetrics, audits *fakeAudits) {
		m.watch("hot")
		audits.answer.Oversold, audits.answer.DurableP99 = 2, 1500
		want := `
# HELP oversell_sale_oversold_units Units that were sold but never existed.
# TYPE oversell_sale_oversold_units gauge
oversell_sale_oversold_units{sku="hot"} 2
# HELP oversell_sale_order_durable_p99_seconds Time within which 99 of 100 accepted orders were written.
# TYPE oversell_sale_order_durable_p99_seconds gauge
oversell_sale_order_durable_p99_seconds{sku="hot"} 1.5
`
		for range 3 {
			err := testutil.CollectAndCompare(m, strings.NewReader(want),
				"oversell_sale_oversold_units", "oversell_sale_order_durable_p99_seconds")
			if err != nil {
				t.Error(err)
			}
		}
		if audits.made["hot"] != 1 {
			t.Errorf("%d audits, want 1", audits.made["hot"])
		}
		time.Sleep(auditedEvery)
		m.current()
		if audits.made["hot"] != 2 {
			t.Errorf("%d audits after %v, want 2", audits.made["hot"], auditedEvery)
		}
	})
}

// Payments with an alarm are counted for all items together, even if no item is watched. If they
// cannot be counted, the metric is absent, and that is counted as a failure.
func TestAlarmsOfPaymentsAreCounted(t *testing.T) {
	watching(t, func(t *testing.T, m *saleMetrics, audits *fakeAudits) {
		audits.alarms = 3
		want := `
# HELP oversell_payment_alarms Payments for holds that the shop cannot settle by itself.
# TYPE oversell_payment_alarms gauge
oversell_payment_alarms 3
`
		if err := testutil.CollectAndCompare(m, strings.NewReader(want), "oversell_payment_alarms"); err != nil {
			t.Error(err)
		}
		audits.noAlarms = errors.New("no database")
		time.Sleep(auditedEvery)
		m.current()
		if err := testutil.CollectAndCompare(m, strings.NewReader(""), "oversell_payment_alarms"); err != nil {
			t.Error(err)
		}
		if n := testutil.ToFloat64(m.failures); n != 1 {
			t.Errorf("%v failures, want 1", n)
		}
	})
}

// A backend that hangs delays a scrape by maxScrapeWait at most, and not until the round of audits is
// over. Old figures are shown only until their audits have failed.
func TestHangingAuditDoesNotHoldUpAScrape(t *testing.T) {
	watching(t, func(t *testing.T, m *saleMetrics, audits *fakeAudits) {
		m.watch("hot")
		if found := m.current().audits; len(found) != 1 {
			t.Fatalf("%d items are shown, want 1", len(found))
		}
		audits.hang = make(chan struct{})
		time.Sleep(auditedEvery)
		begun := time.Now()
		found := m.current().audits
		if waited := time.Since(begun); waited != maxScrapeWait || len(found) != 1 {
			t.Errorf("the scrape waited for %v and shows %d items, want %v and 1", waited, len(found), maxScrapeWait)
		}
		time.Sleep(maxAuditTime)
		if found := m.current().audits; len(found) != 0 {
			t.Errorf("%d items are shown after their audits have failed", len(found))
		}
		if audits.made["hot"] != 2 {
			t.Errorf("%d audits, want 2: scrapes join the round that runs", audits.made["hot"])
		}
	})
}

// An audit that ignores its context does not keep a shop from closing. Once the time limit of the
// round is over, the items have no figures.
func TestStubbornAuditIsNotWaitedFor(t *testing.T) {
	watching(t, func(t *testing.T, m *saleMetrics, audits *fakeAudits) {
		m.watch("hot")
		m.watch("cold")
		m.current()
		time.Sleep(auditedEvery)
		audits.stubborn = true
		audits.hang = make(chan struct{})
		if found := m.current().audits; len(found) != 2 {
			t.Errorf("%d items are shown while a round runs, want the 2 of the last", len(found))
		}
		time.Sleep(maxAuditTime)
		if found := m.current().audits; len(found) != 0 {
			t.Errorf("%d items are shown after the round should have ended", len(found))
		}
		m.close()
		begun := time.Now()
		m.wait(time.Second)
		if waited := time.Since(begun); waited != time.Second {
			t.Errorf("waited for %v, want a second", waited)
		}
		close(audits.hang)
		m.wait(time.Hour)
		if audits.made["hot"] != 1 {
			t.Errorf("%d audits of an item whose turn came too late, want 1", audits.made["hot"])
		}
	})
}

// A scrape of a closing shop does not begin a round of audits.
func TestClosedShopAuditsNothing(t *testing.T) {
	watching(t, func(t *testing.T, m *saleMetrics, audits *fakeAudits) {
		m.watch("hot")
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() { m.current() })
		}
		m.close()
		all.Wait()
		made := audits.made["hot"]
		time.Sleep(auditedEvery)
		m.current()
		if audits.made["hot"] != made {
			t.Error("an audit was begun after the end")
		}
	})
}

// An audit reads the stock before it counts the orders. Orders that are made in between do not count
// as lost updates. Units that are really lost are shown by the next audit.
func TestOnlyUnitsLostForCertainAreShown(t *testing.T) {
	watching(t, func(t *testing.T, m *saleMetrics, audits *fakeAudits) {
		m.watch("hot")
		for _, step := range []struct {
			sale            string
			remaining, sold int64
			unwritten, want int64
		}{
			{"1", 100, 5, 0, 0},
			{"1", 60, 45, 0, 0}, // 5 orders were made after the stock was read
			{"1", 55, 43, 4, 0}, // 2 of the unwritten orders were made after the stock was read
			{"1", 60, 60, 0, 3}, // 43 orders before, and only 40 units were taken from the stock
			{"1", 40, 63, 0, 0}, // 60 orders before, and 60 units were taken
			{"1", 40, 63, 0, 3},
			{"2", 100, 3, 0, 0}, // a new sale has no earlier audit
			{"2", 100, 3, 0, 3},
		} {
			audits.answer.SaleID = step.sale
			audits.answer.Stock = figures.Stock{
				Initial: 100, Remaining: step.remaining, Sold: step.sold, Unwritten: step.unwritten,
			}
			if got := m.current().audits["hot"].lost; got != step.want {
				t.Errorf("%+v: %d units are lost", step, got)
			}
			time.Sleep(auditedEvery)
		}
	})
}

// If many items are sold, only the most recent ones are audited.
func TestSaleMetricsAreOfFewItems(t *testing.T) {
	watching(t, func(t *testing.T, m *saleMetrics, audits *fakeAudits) {
		for i := range 10 * maxWatched {
			m.watch(fmt.Sprint("item-", i))
			m.watch("hot")
		}
		m.forget("item-199")
		shown := m.current().audits
		if len(shown) != maxWatched-1 || len(audits.made) != maxWatched-1 || audits.made["hot"] != 1 {
			t.Errorf("%d shown, %d audited, hot %d times", len(shown), len(audits.made), audits.made["hot"])
		}
	})
}

// An audit that fails is counted, and its item then has no figures.
func TestFailedAuditLeavesNoFigure(t *testing.T) {
	watching(t, func(t *testing.T, m *saleMetrics, audits *fakeAudits) {
		audits.fail = errors.New("away")
		m.watch("hot")
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(m)
		for name, want := range map[string]int{"oversell_sale_units": 0, "oversell_sale_audit_failures_total": 1} {
			if n, err := testutil.GatherAndCount(registry, name); n != want || err != nil {
				t.Errorf("%s: %d series, %v; want %d", name, n, err, want)
			}
		}
		if n := testutil.ToFloat64(m.failures); n != 1 {
			t.Errorf("%v failures, want 1", n)
		}
	})
}

// An item that another shop has deleted is not audited again, and does not count as a failure.
func TestDeletedItemIsForgotten(t *testing.T) {
	watching(t, func(t *testing.T, m *saleMetrics, audits *fakeAudits) {
		audits.fail = fmt.Errorf("auditing: %w", stock.ErrUnknownItem)
		m.watch("hot")
		m.current()
		time.Sleep(auditedEvery)
		m.current()
		if n := testutil.ToFloat64(m.failures); n != 0 || audits.made["hot"] != 1 {
			t.Errorf("%v failures of %d audits, want none of 1", n, audits.made["hot"])
		}
	})
}
