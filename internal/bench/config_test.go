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
	chaos := func(c *bench.Config) {
		c.Conditions, c.Chaos, c.Instances = conditions{catalog.Chaos}, new(bench.ChaosServers), 2
	}
	hold := func(c *bench.Config) {
		c.Workload, c.Strategies, c.Instances = catalog.Hold, []string{"h3_claim"}, 2
	}
	for want, change := range map[string]func(*bench.Config){
		"0 requests":                    func(c *bench.Config) { c.Requests = 0 },
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
		"no strategy":                   func(c *bench.Config) { c.Strategies = nil },
		"no condition":                  func(c *bench.Config) { c.Conditions = nil },
		"ttl of 9ms":                    func(c *bench.Config) { c.TTL = 9 * time.Millisecond },
		"wait of -1s":                   func(c *bench.Config) { c.Wait = -time.Second },
		"work of -1s":                   func(c *bench.Config) { c.Work = -time.Second },
		"at least 2 instances":          func(c *bench.Config) { c.Instances, c.Conditions = 1, conditions{crash} },
		`1, "h:1", is neither`:          func(c *bench.Config) { c.Targets = []string{"h:1"} },
		`2, "http://h:1/a", is neither`: func(c *bench.Config) { c.Targets = []string{"http://h:1", "http://h:1/a"} },

		"chaos cannot be combined": func(c *bench.Config) { chaos(c); c.Conditions = append(c.Conditions, calm) },
		"embedded or local":        func(c *bench.Config) { chaos(c); c.Chaos = nil },
		"kills and stops":          func(c *bench.Config) { chaos(c); c.Instances = 1 },
		"-keys cannot be pairs":    func(c *bench.Config) { chaos(c); c.Keys = bench.PairedKeys },
		"chaos takes at least 3s":  func(c *bench.Config) { chaos(c); c.Duration = 2 * time.Second },

		"-1 buyers":               func(c *bench.Config) { hold(c); c.Requests = -1 },
		"a stock of -1":           func(c *bench.Config) { hold(c); c.Stock = -1 },
		"1 instance; allowed":     func(c *bench.Config) { hold(c); c.Instances = 1 },
		"a ttl of 1ms":            func(c *bench.Config) { hold(c); c.TTL = time.Millisecond },
		"h3_claim is named twice": func(c *bench.Config) { hold(c); c.Strategies = append(c.Strategies, "h3_claim") },
		"needs a single Redis": func(c *bench.Config) {
			hold(c)
			c.Conditions, c.Failovers = conditions{catalog.Failover, catalog.Partition}, struct{ bench.Failovers }{}
		},
	} {
		cfg := against()
		cfg.Strategies = []string{"watch"}
		change(&cfg)
		err := cfg.WithDefaults().Check()
		if !errors.Is(err, bench.ErrConfig) || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("got %q, want one line with %q", err, want)
		}
	}
}

// A shop is cut off from Redis by a relay, which works only with one Redis without TLS.
func TestPartitionNeedsOneRedis(t *testing.T) {
	for url, relayed := range map[string]bool{
		"redis://h:1": true, "redis://:a,b@h:1": true, // the password contains a comma
		"rediss://h:1": false, "redis://a:1,b:2": false, "redis+sentinel://a:1/m/0": false, "redis://:secret@h": false,
	} {
		cfg := against()
		cfg.Instances, cfg.RedisURL, cfg.Conditions = 2, url, []catalog.Condition{catalog.Partition}
		err := cfg.WithDefaults().Check()
		if relayed && err != nil || !relayed && (!errors.Is(err, bench.ErrConfig) ||
			strings.Contains(err.Error(), "secret")) {
			t.Errorf("%s: %v; want that it can be relayed: %v", url, err, relayed)
		}
	}
}

// Under a failover buyers arrive one after the other, over few connections.
func TestFailoverNeedsFewFiles(t *testing.T) {
	cfg := against()
	cfg.Requests, cfg.Conditions = bench.MaxRequests, []catalog.Condition{catalog.Failover}
	cfg.Failovers = struct{ bench.Failovers }{}
	must(t, cfg.WithDefaults().Check())
}

// The default wait is enough for everybody's turn. Many buyers of many items at the same time would
// delay renewals by more than a short lease. A burst for several items is not sent all at once, because
// its buyers do not leave when one item is sold out.
func TestDefaults(t *testing.T) {
	const s, ttl, long = time.Second, bench.DefaultTTL, bench.ItemsTTL
	items := func(items, requests, inFlight int) func(*bench.Config) {
		return func(c *bench.Config) { c.Items, c.Requests, c.InFlight = items, requests, inFlight }
	}
	for _, tt := range []struct {
		wait, ttl time.Duration
		inFlight  int // 0: each request has its own connection
		change    func(*bench.Config)
	}{
		{10 * s, ttl, 0, func(*bench.Config) {}},
		{50 * s, ttl, 0, func(c *bench.Config) { c.Requests, c.Stock = 5000, 5000 }},
		{10 * s, ttl, 0, func(c *bench.Config) { c.Requests, c.Stock = 1000, 5000 }},
		{30 * s, ttl, 0, func(c *bench.Config) { c.Requests, c.Stock, c.Work = 1000, 1000, 20*time.Millisecond }},
		{13_200 * time.Millisecond, ttl, 0, func(c *bench.Config) {
			c.Requests, c.Stock, c.Instances, c.Conditions = 1000, 1000, 2,
				[]catalog.Condition{catalog.Calm, catalog.Slow}
		}},
		{10 * s, ttl, 0, func(c *bench.Config) { c.Requests, c.Workload = 5000, catalog.Cache }},
		{50 * s, ttl, 0, func(c *bench.Config) { c.Requests, c.Workload, c.SecondLook = 5000, catalog.Cache, false }},
		{10 * s, ttl, 0, items(1, 5000, 0)},
		{10*s + 200*time.Millisecond, long, 0, items(2, 100, 0)},
		{12 * s, long, 0, items(1000, 1000, 0)},
		{50 * s, long, bench.ItemsInFlight, items(1000, 20_000, 0)},
		{50 * s, long, 300, items(1000, 20_000, 300)},
		{12 * s, s, 0, func(c *bench.Config) { c.Items, c.Requests, c.TTL = 1000, 1000, s }},
	} {
		cfg := against()
		tt.change(&cfg)
		got := cfg.WithDefaults()
		if got.Wait != tt.wait || got.TTL != tt.ttl || got.InFlight != tt.inFlight {
			t.Errorf("%+v: wait %v, ttl %v, %d in flight; want %v, %v, %d", cfg, got.Wait, got.TTL, got.InFlight,
				tt.wait, tt.ttl, tt.inFlight)
		}
	}
}
