package bench_test

import (
	"testing"
	"time"

	"oversell/internal/bench"
	"oversell/internal/figures"
	"oversell/internal/locks"
)

// opened is a report of an open load.
func opened() bench.Report {
	r := sale()
	r.Manifest.Rate, r.Manifest.Duration, r.Manifest.InFlight = 500, "10s", 1000
	for i := range r.Rows {
		r.Rows[i].Open = &bench.Open{Planned: 5000, Sent: 5000, AchievedRate: 500, ServiceP50: 1.04, ServiceP99: 20, ServiceMax: 81.06}
	}
	stuck := &r.Rows[2]
	stuck.Open.Sent, stuck.Open.Dropped, stuck.Open.AchievedRate = 1200, 3800, 120
	return r
}

// openLoad is a small open load.
func openLoad(t *testing.T, rate int) bench.Config {
	t.Helper()
	cfg := config(t, "embedded")
	cfg.Requests = 0
	cfg.Rate, cfg.Duration, cfg.Stock = rate, time.Second, 40
	return cfg
}

func TestOpenLoadIsJudgedAsABurstIs(t *testing.T) {
	cfg := openLoad(t, 150)
	cfg.Strategies = []string{"none", "watch", "v6_watchdog"}
	rows := run(t, cfg)
	checkExpected(t, rows)
	for name, row := range rows {
		o := row.Open
		if o == nil || o.Planned != 150 || o.Sent+o.Dropped != 150 || row.Requests != 150 {
			t.Fatalf("%s: %+v, %+v", name, row, o)
		}
		if row.P50 <= 0 || row.P50 > row.P99 || row.P99 > row.Max || o.ServiceP50 > row.P50 || o.ServiceP99 > row.P99 || o.ServiceMax > row.Max {
			t.Errorf("%s: response %v %v %v ms, service %v %v %v ms", name, row.P50, row.P99, row.Max, o.ServiceP50, o.ServiceP99, o.ServiceMax)
		}
		if row.RedisCommands == nil || *row.RedisCommands <= 0 || row.Throughput <= 0 || o.AchievedRate <= 0 || o.AchievedRate > 151 || row.Wall < 900 {
			t.Errorf("%s: %+v, %+v", name, row, o)
		}
	}
	if sold := rows["v6_watchdog/calm"].Sold; sold != 40 {
		t.Errorf("v6_watchdog: sold %d, want 40", sold)
	}
}

// Buyers that hardly meet do not oversell, and need not.
func TestWhatBreaksInABurstMayHoldUnderAnOpenLoad(t *testing.T) {
	cfg := openLoad(t, 5)
	cfg.Strategies = []string{"none"}
	row := run(t, cfg)["none/calm"]
	if row.Verdict != figures.OK || !row.Expected || row.Sold != 5 {
		t.Errorf("%s, expected: %v; %+v", row.Verdict, row.Expected, row)
	}
}

func TestConditionsBefallAnOpenLoad(t *testing.T) {
	t.Parallel()
	cfg := openLoad(t, 100)
	cfg.TTL = shortTTL
	cfg.Strategies = []string{"v6_watchdog"}
	cfg.Conditions = []locks.Condition{locks.Slow, locks.Crash, locks.Pause}
	rows := run(t, cfg)
	checkExpected(t, rows)
	if row := rows["v6_watchdog/slow"]; row.Max < 1000*cfg.TTL.Seconds() {
		t.Errorf("slow: nobody waited longer than %v ms", row.Max)
	}
	if row := rows["v6_watchdog/crash"]; row.Unknown == 0 || row.Failed != 0 || row.Sold != 40 {
		t.Errorf("crash: %d outcomes not learned, %d failed, %d sold; %v", row.Unknown, row.Failed, row.Sold, row.Reasons)
	}
}

func TestOpenLoadOfAShopThatRunsAlready(t *testing.T) {
	cfg := against(open(t, ""))
	cfg.Rate, cfg.Duration = 100, time.Second
	row := run(t, cfg)["v6_watchdog/calm"]
	if row.Sold != 20 || row.SoldOut != 80 || !row.Expected {
		t.Errorf("%+v", row)
	}
}
