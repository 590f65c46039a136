package web

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"

	"oversell/internal/stock"
)

const (
	// maxWatched is the maximum number of items with sale metrics: those that were sold or put on
	// sale most recently. Each item costs an audit, and a label must not have many values.
	maxWatched = 20
	// auditedEvery is how old the figures may be before a scrape begins a new round.
	auditedEvery = 10 * time.Second
	// maxAuditTime limits a round of audits. Items that it does not reach have no figures until the
	// next round.
	maxAuditTime = 4 * time.Second
	// maxScrapeWait is how long a scrape waits for a round. If the round takes longer, the scrape gets
	// the figures of the previous one: a hanging backend must not hide all other metrics.
	maxScrapeWait = time.Second
)

// saleMetrics exports audits of the items that this shop sold most recently as metrics. Audits run
// in rounds. Only a scrape begins a round. It is safe for concurrent use.
type saleMetrics struct {
	audit func(ctx context.Context, sku string) (stock.Audit, error)
	// countAlarms counts the payments for holds that have an alarm, including those of items that are
	// not watched or were deleted. It is nil in a shop without holds.
	countAlarms func(ctx context.Context) (int64, error)

	ctx    context.Context // the context of all audits
	cancel context.CancelFunc

	rounds singleflight.Group // calls of look

	mu      sync.Mutex
	watched []string     // the most recent is last
	found   *saleFigures // what the last complete round found, or nil
	at      time.Time    // when the latest round began
	running bool         // the latest round has not ended

	units, oversold, lost, foreign, refused, durable, alarms *prometheus.Desc
	failures                                                 prometheus.Counter
}

func newSaleMetrics(
	audit func(ctx context.Context, sku string) (stock.Audit, error),
	countAlarms func(ctx context.Context) (int64, error),
) *saleMetrics {
	gauge := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("oversell_sale_"+name, help, append([]string{"sku"}, labels...), nil)
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &saleMetrics{
		audit: audit, countAlarms: countAlarms, ctx: ctx, cancel: cancel,
		units: gauge("units",
			"Units of the current sale by where they are; initial is how many there were.", "state"),
		oversold: gauge("oversold_units", "Units that were sold but never existed."),
		lost: gauge("lost_update_units",
			"Units that were certainly sold but that the stock counter does not show."),
		foreign: gauge("foreign_units", "Units in orders of sales that the database does not know."),
		refused: gauge("accepted_lost_orders", "Orders that were refused after they were accepted."),
		durable: gauge("order_durable_p99_seconds", "Time within which 99 of 100 accepted orders were written."),
		alarms: prometheus.NewDesc("oversell_payment_alarms",
			"Payments for holds that the shop cannot settle by itself.", nil, nil),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "oversell", Name: "sale_audit_failures_total", Help: "Audits for metrics that failed.",
		}),
	}
}

// saleFigures holds the results of one round. An item whose audit failed is left out, because an
// old figure would look like a current one. The count of alarms is left out if counting failed.
type saleFigures struct {
	audits map[string]saleAudit // by sku
	alarms *int64
}

// saleAudit is an audit, and the number of units that are certainly lost.
type saleAudit struct {
	stock.Audit
	lost int64
}

// after adds to an audit the number of units that are certainly lost. An audit reads the stock
// before it counts the orders, so purchases in between look like lost updates. But the orders that
// the previous audit counted took their units before this audit read the stock, so only these
// orders are used. Unwritten orders may be newer, and are left out.
func (before saleAudit) after(a stock.Audit) saleAudit {
	if before.SaleID != a.SaleID {
		return saleAudit{Audit: a}
	}
	known := a.Stock
	known.Sold, known.Unwritten = before.Sold, 0
	return saleAudit{a, max(0, known.LostUpdates())}
}

// close prevents new audits, and cancels the running one.
func (m *saleMetrics) close() { m.cancel() }

// wait begins a round unless one is running, and waits until it has ended, but no longer than limit:
// a running statement is not interrupted. After close, no round begins.
func (m *saleMetrics) wait(limit time.Duration) {
	select {
	case <-m.rounds.DoChan("", m.look):
	case <-time.After(limit):
	}
}

// watch adds an item to those with metrics, or makes it the most recent.
func (m *saleMetrics) watch(sku string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := len(m.watched); n > 0 && m.watched[n-1] == sku {
		return
	}
	m.watched = append(slices.DeleteFunc(m.watched, func(s string) bool { return s == sku }), sku)
	if extra := len(m.watched) - maxWatched; extra > 0 {
		m.watched = slices.Delete(m.watched, 0, extra)
	}
}

// forget removes the metrics of an item that was deleted.
func (m *saleMetrics) forget(sku string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.watched = slices.DeleteFunc(m.watched, func(s string) bool { return s == sku })
}

// Describe implements prometheus.Collector.
func (m *saleMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.units, m.oversold, m.lost, m.foreign, m.refused, m.durable, m.alarms} {
		ch <- d
	}
	m.failures.Describe(ch)
}

// Collect implements prometheus.Collector.
func (m *saleMetrics) Collect(ch chan<- prometheus.Metric) {
	found := m.current()
	if found.alarms != nil {
		ch <- prometheus.MustNewConstMetric(m.alarms, prometheus.GaugeValue, float64(*found.alarms))
	}
	for sku, a := range found.audits {
		gauge := func(d *prometheus.Desc, v float64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, append([]string{sku}, labels...)...)
		}
		for state, n := range map[string]int64{
			"initial": a.Initial, "remaining": a.Remaining, "held": a.Held, "sold": a.Sold,
			"in_flight": a.InFlight, "unwritten": a.Unwritten, "stranded": a.Stranded,
		} {
			gauge(m.units, float64(n), state)
		}
		gauge(m.oversold, float64(a.Oversold))
		gauge(m.lost, float64(a.lost))
		gauge(m.foreign, float64(a.Foreign))
		gauge(m.refused, float64(a.AcceptedLost))
		gauge(m.durable, a.DurableP99/1000)
	}
	m.failures.Collect(ch)
}

// current returns the figures of the last round, or none if the running round takes too long.
func (m *saleMetrics) current() saleFigures {
	m.mu.Lock()
	recent := m.found != nil && !m.running && time.Since(m.at) < auditedEvery
	m.mu.Unlock()
	if !recent {
		m.wait(maxScrapeWait)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.found == nil || m.running && time.Since(m.at) >= maxAuditTime {
		return saleFigures{} // old figures would look like current ones
	}
	return *m.found
}

// look is one round: it counts the alarms and audits the items, the most recent first. If the time
// of the round is over, the remaining audits count as failed.
func (m *saleMetrics) look() (any, error) {
	if m.ctx.Err() != nil {
		return nil, nil // closed
	}
	m.mu.Lock()
	m.at, m.running = time.Now(), true
	watched, before := slices.Clone(m.watched), m.found
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(m.ctx, maxAuditTime)
	defer cancel()
	if before == nil {
		before = &saleFigures{}
	}
	found := &saleFigures{audits: make(map[string]saleAudit, len(watched))}
	if m.countAlarms != nil {
		if n, err := m.countAlarms(ctx); err == nil {
			found.alarms = &n
		} else {
			m.failures.Inc()
		}
	}
	for _, sku := range slices.Backward(watched) {
		var a stock.Audit
		err := ctx.Err()
		if err == nil {
			a, err = m.audit(ctx, sku)
		}
		switch {
		case errors.Is(err, stock.ErrUnknownItem): // it was deleted, perhaps by another shop
			m.forget(sku)
		case err != nil:
			m.failures.Inc()
		default:
			found.audits[sku] = before.audits[sku].after(a)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.found, m.running = found, false
	return nil, nil
}
