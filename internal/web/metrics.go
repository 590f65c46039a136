package web

import (
	"context"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"oversell/internal/cache"
	"oversell/internal/guard"
)

// metrics holds the metrics of /metrics, in their own registry. Only names of existing strategies
// become labels, so that there are few labels.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	wait     *prometheus.HistogramVec
	hold     *prometheus.HistogramVec
	attempts *prometheus.CounterVec
	renewals *prometheus.CounterVec
	lost     *prometheus.CounterVec
	loads    *prometheus.CounterVec
	buying   *prometheus.GaugeVec
	sales    *saleMetrics
}

func newMetrics(cfg Config) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "oversell", Name: name, Help: help}, labels)
	}
	histogram := func(name, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "oversell", Name: name, Help: help,
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 18), // 0.1 ms to 13 s
		}, []string{"strategy"})
	}
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: counter("requests_total", "Requests by strategy and outcome.", "strategy", "outcome"),
		wait:     histogram("lock_wait_seconds", "Time from asking for the guard to acquiring it or giving up."),
		hold:     histogram("lock_hold_seconds", "Time from acquiring the guard to releasing it."),
		attempts: counter("lock_attempts_total", "Times a guard was asked for.", "strategy"),
		renewals: counter("lock_renewals_total", "Times a lease was renewed.", "strategy"),
		lost:     counter("lock_lost_total", "Leases that expired under their holder.", "strategy"),
		loads:    counter("cache_loads_total", "Loads of a cached value from the database.", "strategy"),
		buying: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "oversell", Name: "buyers", Help: "Buyers waiting for a reply.",
		}, []string{"strategy"}),
	}
	var countAlarms func(context.Context) (int64, error)
	if cfg.Holds != nil {
		countAlarms = cfg.Holds.Alarms
	}
	m.sales = newSaleMetrics(cfg.Stock.Audit, countAlarms)
	m.registry.MustRegister(m.requests, m.wait, m.hold, m.attempts, m.renewals, m.lost, m.loads, m.buying, m.sales,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if cfg.Holders != nil {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "oversell", Name: "lock_holders", Help: "Buyers inside a guarded section.",
		}, func() float64 { return float64(cfg.Holders()) }))
	}
	if connections := cfg.Connections; connections != nil {
		m.registry.MustRegister(
			prometheus.NewCounterFunc(prometheus.CounterOpts{
				Namespace: "oversell", Name: "db_connection_held_seconds_total",
				Help: "Time that connections to the database were out of the pool, together.",
			}, func() float64 { held, _ := connections(); return held.Seconds() }),
			prometheus.NewCounterFunc(prometheus.CounterOpts{
				Namespace: "oversell", Name: "db_connection_holds_total",
				Help: "Times a connection to the database was returned to the pool.",
			}, func() float64 { _, times := connections(); return float64(times) }))
	}
	return m
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// seen creates the series that alerts depend on when a strategy is first used. Otherwise the
// counters would first appear with the value 1, and Prometheus would see no increase.
func (m *metrics) seen(strategy string) {
	m.lost.WithLabelValues(strategy)
	m.requests.WithLabelValues(strategy, "sold")
	m.requests.WithLabelValues(strategy, "fenced")
	m.requests.WithLabelValues(strategy, codeBackend)
}

func (m *metrics) request(strategy, outcome string) {
	m.requests.WithLabelValues(strategy, outcome).Inc()
}

// lock adds the figures of one guarded section. A request that never asked for the guard is
// skipped.
func (m *metrics) lock(strategy string, s guard.Stats) {
	if s.Attempts == 0 && s.Waited == 0 {
		return
	}
	m.wait.WithLabelValues(strategy).Observe(s.Waited.Seconds())
	if s.Held > 0 {
		m.hold.WithLabelValues(strategy).Observe(s.Held.Seconds())
	}
	m.attempts.WithLabelValues(strategy).Add(float64(s.Attempts))
	m.renewals.WithLabelValues(strategy).Add(float64(s.Renewals))
	if s.Lost {
		m.lost.WithLabelValues(strategy).Inc()
	}
}

// cache adds the figures of one read through the cache.
func (m *metrics) cache(strategy string, res cache.Result) {
	m.lock(strategy, res.Lock)
	if res.Loaded {
		m.loads.WithLabelValues(strategy).Inc()
	}
}
