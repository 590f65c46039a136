package bench_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"oversell/internal/bench"
	"oversell/internal/catalog"
)

func TestCheckSaysWhatCannotBeRun(t *testing.T) {
	type conditions = []catalog.Condition
	const calm, crash = catalog.Calm, catalog.Crash
	for want, change := range map[string]func(*bench.Config){
		"0 requests":                    func(c *bench.Config) { c.Requests = 0 },
		"-1 requests":                   func(c *bench.Config) { c.Requests = -1 },
		"100001 requests":               func(c *bench.Config) { c.Requests = bench.MaxRequests + 1 },
		"stock of 0":                    func(c *bench.Config) { c.Stock = 0 },
		"stock of 1000001":              func(c *bench.Config) { c.Stock = 1_000_001 },
		"-1 runs of each row":           func(c *bench.Config) { c.Repeat = -1 },
		"101 runs of each row":          func(c *bench.Config) { c.Repeat = bench.MaxRepeat + 1 },
		"a rate of -1 a second":         func(c *bench.Config) { c.Rate = -1 },
		"a rate of 100001 a second":     func(c *bench.Config) { c.Rate = bench.MaxRate + 1 },
		"1s without a rate":             func(c *bench.Config) { c.Duration = time.Second },
		"-5 requests in flight":         func(c *bench.Config) { c.InFlight = -5 },
		"a duration of 999ms":           func(c *bench.Config) { c.Rate, c.Duration = 1, 999*time.Millisecond },
		"a duration of 1h0m1s":          func(c *bench.Config) { c.Rate, c.Duration = 1, time.Hour+time.Second },
		"a duration of 2562047h":        func(c *bench.Config) { c.Rate, c.Duration = bench.MaxRate, 1<<63-1 },
		"20001 requests in flight":      func(c *bench.Config) { c.Rate, c.InFlight = 1, bench.MaxInFlight+1 },
		"-1 requests in flight":         func(c *bench.Config) { c.Rate, c.InFlight = 1, -1 },
		"it needs deduct":               func(c *bench.Config) { c.Rate, c.Workload = 1, catalog.Cache },
		"0 instances":                   func(c *bench.Config) { c.Instances = 0 },
		"65 instances":                  func(c *bench.Config) { c.Instances = bench.MaxInstances + 1 },
		"each needs at least one":       func(c *bench.Config) { c.Requests, c.Instances = 3, 4 },
		`keys "some"`:                   func(c *bench.Config) { c.Keys = "some" },
		"strategy watch is named twice": func(c *bench.Config) { c.Strategies = []string{"watch", "none", "watch"} },
		"condition calm is named twice": func(c *bench.Config) { c.Conditions = conditions{calm, calm} },
		"1 request: each needs":         func(c *bench.Config) { c.Requests, c.Instances = 1, 2 },
		"no strategy":                   func(c *bench.Config) { c.Strategies = nil },
		"no condition":                  func(c *bench.Config) { c.Conditions = nil },
		"ttl of 9ms":                    func(c *bench.Config) { c.TTL = 9 * time.Millisecond },
		"wait of -1s":                   func(c *bench.Config) { c.Wait = -time.Second },
		"work of -1s":                   func(c *bench.Config) { c.Work = -time.Second },
		"at least 2 instances":          func(c *bench.Config) { c.Instances, c.Conditions = 1, conditions{crash} },
		`1, "h:1", is neither`:          func(c *bench.Config) { c.Targets = []string{"h:1"} },
		`2, "http://h:1/a", is neither`: func(c *bench.Config) { c.Targets = []string{"http://h:1", "http://h:1/a"} },
		"open files, and the limit is ": func(c *bench.Config) { c.Requests = bench.MaxRequests },
	} {
		cfg := against()
		cfg.Strategies = []string{"watch"}
		change(&cfg)
		err := cfg.WithDefaults().Check()
		if err == nil && strings.HasPrefix(want, "open files") {
			continue // this machine allows enough open files
		}
		if !errors.Is(err, bench.ErrConfig) || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("got %q, want one line with %q", err, want)
		}
	}
}

func TestDefaultWaitIsEnoughForEverybodysTurn(t *testing.T) {
	for _, tt := range []struct {
		want   time.Duration
		change func(*bench.Config)
	}{
		{10 * time.Second, func(*bench.Config) {}},
		{50 * time.Second, func(c *bench.Config) { c.Requests, c.Stock = 5000, 5000 }},
		{10 * time.Second, func(c *bench.Config) { c.Requests, c.Stock = 1000, 5000 }},
		{30 * time.Second, func(c *bench.Config) { c.Requests, c.Stock, c.Work = 1000, 1000, 20*time.Millisecond }},
		{13_200 * time.Millisecond, func(c *bench.Config) { // calm and slow
			c.Requests, c.Stock, c.Instances, c.Conditions = 1000, 1000, 2,
				[]catalog.Condition{catalog.Calm, catalog.Slow}
		}},
		{10 * time.Second, func(c *bench.Config) { c.Requests, c.Workload = 5000, catalog.Cache }},
		{50 * time.Second, func(c *bench.Config) { c.Requests, c.Workload, c.SecondLook = 5000, catalog.Cache, false }},
	} {
		cfg := against()
		tt.change(&cfg)
		if got := cfg.WithDefaults().Wait; got != tt.want {
			t.Errorf("%d requests, stock %d, work %v, %s, %v: wait %v, want %v",
				cfg.Requests, cfg.Stock, cfg.Work, cfg.Workload, cfg.Conditions, got, tt.want)
		}
	}
}

// Many buyers of many items at the same time would delay renewals by more than a short lease.
func TestManyItemsHaveALongerLease(t *testing.T) {
	for _, tt := range []struct {
		items     int
		set, want time.Duration
	}{{1, 0, bench.DefaultTTL}, {2, 0, bench.ItemsTTL}, {1000, 0, bench.ItemsTTL}, {1000, time.Second, time.Second}} {
		cfg := against()
		cfg.Items, cfg.TTL = tt.items, tt.set
		if got := cfg.WithDefaults().TTL; got != tt.want {
			t.Errorf("%d items with a ttl of %v: the ttl is %v, want %v", tt.items, tt.set, got, tt.want)
		}
	}
}

// A burst for several items is not sent all at once, because its buyers do not leave when one item
// is sold out.
func TestBurstForItemsIsBounded(t *testing.T) {
	for _, tt := range []struct{ items, requests, inFlight, want int }{
		{1000, 20_000, 0, bench.ItemsInFlight},
		{1000, 20_000, 300, 300},
		{1000, 1000, 0, 0}, // each request has its own connection
		{1, 5000, 0, 0},
	} {
		cfg := against()
		cfg.Items, cfg.Requests, cfg.InFlight = tt.items, tt.requests, tt.inFlight
		if got := cfg.WithDefaults().InFlight; got != tt.want {
			t.Errorf("%d requests for %d items: %d in flight, want %d", tt.requests, tt.items, got, tt.want)
		}
	}
}
