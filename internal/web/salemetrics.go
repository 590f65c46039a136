package web

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"oversell/internal/stock"
)

const (
	// maxWatched is how many items have metrics of their sales: those that were asked for
	// last. Each costs an audit, and a label's values must stay few.
	maxWatched = 20
	// auditedEvery is how old the figures may be. A scrape that comes sooner gets those.
	auditedEvery = 10 * time.Second
	// maxAuditTime bounds a round of audits. Items that it does not reach have no figures
	// until the next.
	maxAuditTime = 4 * time.Second
	// maxScrapeWait is how long a scrape waits for a round. It gets the figures of the round
	// before if this one takes longer: a backend that hangs must not hide all other metrics.
	maxScrapeWait = time.Second
)

// saleMetrics are the audits of the items that this shop sold last, as metrics. A scrape begins
// a round of them: a shop that nobody watches makes none. It is safe for concurrent use.
type saleMetrics struct {
	audit func(ctx context.Context, sku string) (stock.Audit, error)
	// countAlarms counts the payments for holds that have an alarm, also of items that are not watched or
	// were deleted. It is nil in a shop without holds.
	countAlarms func(ctx context.Context) (int64, error)

	ctx    context.Context // of all audits
	cancel context.CancelFunc

	mu      sync.Mutex
	watched []string      // the one that was asked for last is last
	round   chan struct{} // is closed when the last round that was begun has ended
	found   *saleFigures  // by the last round that has ended, or nil
	at      time.Time     // when the last round was begun

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
	none := make(chan struct{})
	close(none)
	return &saleMetrics{
		audit: audit, countAlarms: countAlarms, ctx: ctx, cancel: cancel, round: none,
		units: gauge("units",
			"Units of the current sale by where they are; initial is how many there were.", "state"),
		oversold: gauge("oversold_units", "Units that were sold and never there."),
		lost: gauge("lost_update_units",
			"Units that were certainly sold and that the stock counter does not show."),
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

// saleFigures are what one round has found. An item whose audit failed is not in audits: an old
// figure would look like a good one. Nor is there a count of alarms if counting them failed.
type saleFigures struct {
	audits map[string]saleAudit // by sku
	alarms *int64
}

// saleAudit is an audit, and the units that are lost for certain.
type saleAudit struct {
	stock.Audit
	lost int64
}

// after returns an audit with the units that are lost for certain. An audit reads the stock
// before it counts the orders, so buyers in between look like lost updates. Orders that the
// audit before had counted were taken from the stock before it was read now. Orders that are
// not written yet may have been taken since.
func (before saleAudit) after(a stock.Audit) saleAudit {
	if before.SaleID != a.SaleID {
		return saleAudit{Audit: a}
	}
	known := a.Stock
	known.Sold, known.Unwritten = before.Sold, 0
	return saleAudit{a, max(0, known.LostUpdates())}
}

// close begins no more audits, and tells the one that runs to end.
func (m *saleMetrics) close() {
	m.mu.Lock() // no round is being begun
	defer m.mu.Unlock()
	m.cancel()
}

// wait waits until the last round has ended, after close, but no longer than limit: a statement
// that has begun ends in its own time.
func (m *saleMetrics) wait(limit time.Duration) {
	m.mu.Lock()
	round := m.round
	m.mu.Unlock()
	awaitRound(round, limit)
}

func awaitRound(round <-chan struct{}, limit time.Duration) {
	select {
	case <-round:
	case <-time.After(limit):
	}
}

// watch notes that an item was asked for.
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

// forget ends the metrics of an item that was deleted.
func (m *saleMetrics) forget(sku string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.watched = slices.DeleteFunc(m.watched, func(s string) bool { return s == sku })
}

// Describe is part of prometheus.Collector.
func (m *saleMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.units, m.oversold, m.lost, m.foreign, m.refused, m.durable, m.alarms} {
		ch <- d
	}
	m.failures.Describe(ch)
}

// Collect is part of prometheus.Collector.
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

// current returns the figures of the last round, or none if the round that runs is late.
func (m *saleMetrics) current() saleFigures {
	awaitRound(m.begin(), maxScrapeWait)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.found == nil || m.running() && time.Since(m.at) >= maxAuditTime {
		return saleFigures{} // old figures would look like good ones
	}
	return *m.found
}

// running reports whether a round has not ended. The caller has locked mu.
func (m *saleMetrics) running() bool {
	select {
	case <-m.round:
		return false
	default:
		return true
	}
}

// begin begins a round unless one runs or the figures are recent. It returns a channel that is
// closed when no round runs.
func (m *saleMetrics) begin() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.running() || m.ctx.Err() != nil || m.found != nil && time.Since(m.at) < auditedEvery {
		return m.round
	}
	m.at, m.round = time.Now(), make(chan struct{})
	watched, before, ended := slices.Clone(m.watched), m.found, m.round
	go func() {
		found := m.look(watched, before)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.found = found
		close(ended)
	}()
	return ended
}

// look counts the alarms and audits the items, those first that were asked for last. An audit
// that has begun may end after the round's time is over, and then the others have failed.
func (m *saleMetrics) look(watched []string, before *saleFigures) *saleFigures {
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
		case errors.Is(err, stock.ErrUnknownItem): // another shop has deleted it
			m.forget(sku)
		case err != nil:
			m.failures.Inc()
		default:
			found.audits[sku] = before.audits[sku].after(a)
		}
	}
	return found
}
