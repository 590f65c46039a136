//go:build system

package bench_test

import (
	"testing"
	"time"

	"oversell/internal/bench"
	"oversell/internal/figures"
)

// openLoad returns the config of a small open load.
func openLoad(t *testing.T, rate int) bench.Config {
	t.Helper()
	cfg := config(t, "embedded")
	cfg.Requests = 0
	cfg.Rate, cfg.Duration, cfg.Stock = rate, time.Second, 40
	return cfg
}

func TestOpenLoadIsJudgedAsABurstIs(t *testing.T) {
	cfg := openLoad(t, 150)
	cfg.Strategies = []string{"none", "v6_watchdog"}
	rows := run(t, cfg)
	checkExpected(t, rows)
	for name, row := range rows {
		o := row.Open
		if o == nil || o.Planned != 150 || o.Sent+o.Dropped != 150 || row.Requests != 150 {
			t.Fatalf("%s: %+v, %+v", name, row, o)
		}
		if row.P50 <= 0 || row.P50 > row.P99 || row.P99 > row.Max || o.ServiceP50 > row.P50 || o.ServiceP99 > row.P99 ||
			o.ServiceMax > row.Max {
			t.Errorf("%s: response %v %v %v ms, service %v %v %v ms", name, row.P50, row.P99, row.Max, o.ServiceP50,
				o.ServiceP99, o.ServiceMax)
		}
		if row.RedisCommands == nil || *row.RedisCommands <= 0 || row.Throughput <= 0 || o.AchievedRate <= 0 ||
			o.AchievedRate > 151 || row.Wall < 900 {
			t.Errorf("%s: %+v, %+v", name, row, o)
		}
	}
	if sold := rows["v6_watchdog/calm"].Sold; sold != 40 {
		t.Errorf("v6_watchdog: sold %d, want 40", sold)
	}
}

// Under an open load, buyers hardly compete, so an unguarded stock that does not oversell is as
// expected.
func TestWhatBreaksInABurstMayHoldUnderAnOpenLoad(t *testing.T) {
	cfg := openLoad(t, 5)
	cfg.Strategies = []string{"none"}
	row := run(t, cfg)["none/calm"]
	if row.Verdict != figures.OK || !row.Expected || row.Sold != 5 {
		t.Errorf("%s, expected: %v; %+v", row.Verdict, row.Expected, row)
	}
}
