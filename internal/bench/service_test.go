package bench

import (
	"testing"
	"time"

	"oversell/internal/catalog"
	"oversell/internal/figures"
)

// A row counts as unserved if no buyer is served for longer than patience while buyers wait and
// units are left. The first such period is recorded.
func TestServiceEndsWhenNobodyIsServedForTooLong(t *testing.T) {
	const ms, stock = time.Millisecond, 50
	patience := func(first bool) time.Duration {
		if first {
			return 5000 * ms
		}
		return 1500 * ms
	}
	sold := func(units int64) figures.Stock { return figures.Stock{Sold: units} }
	for name, c := range map[string]struct {
		seen []Live
		want *Unserved
	}{
		"just in time": {[]Live{{Elapsed: 1600 * ms, Waiting: 9, ServedAt: 100 * ms}}, nil},
		"never":        {[]Live{{Elapsed: 5001 * ms, Waiting: 9}}, &Unserved{0, 5000 * ms, 9, 50}},
		"after a while": {[]Live{{Elapsed: 100 * ms, Waiting: 9, ServedAt: 90 * ms},
			{Elapsed: 1650 * ms, Waiting: 8, ServedAt: 90 * ms}}, &Unserved{90 * ms, 1590 * ms, 8, 50}},
		"not yet":      {[]Live{{Elapsed: 4999 * ms, Waiting: 9}}, nil},
		"nobody waits": {[]Live{{Elapsed: 9000 * ms}}, nil},
		"all is sold":  {[]Live{{Elapsed: 9000 * ms, Waiting: 9, Stock: sold(50), Audited: 100 * ms}}, nil},
		"an audit finds an order": {[]Live{{Elapsed: 1600 * ms, Waiting: 9, Stock: sold(1), Audited: 200 * ms},
			{Elapsed: 1800 * ms, Waiting: 9, Stock: sold(1), Audited: 1700 * ms}},
			&Unserved{200 * ms, 1700 * ms, 9, 49}},
		"served again": {[]Live{{Elapsed: 1700 * ms, Waiting: 9, ServedAt: 1 * ms},
			{Elapsed: 3000 * ms, Waiting: 8, ServedAt: 2900 * ms}}, &Unserved{1 * ms, 1501 * ms, 9, 50}},
	} {
		var s service
		var got *Unserved
		for _, now := range c.seen {
			got = s.see(now, stock, patience)
		}
		if got != c.want && (got == nil || c.want == nil || *got != *c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// The patience is longer than the longest fault, and longer than a stall of this machine.
func TestPatienceOutlastsWhatTheBenchDoes(t *testing.T) {
	cfg := Config{TTL: time.Second, Work: 20 * time.Millisecond, Wait: 10 * time.Second}
	if got, want := cfg.patience(catalog.Slow, 0, false), 1520*time.Millisecond; got != want {
		t.Errorf("%v, want %v", got, want)
	}
	if got, want := cfg.patience(catalog.Pause, 0, false), 2220*time.Millisecond; got != want {
		t.Errorf("while a process may be stopped %v, want %v", got, want)
	}
	if got, want := cfg.patience(catalog.Slow, time.Second, false), 2320*time.Millisecond; got != want {
		t.Errorf("with a stall of a second %v, want %v", got, want)
	}
	if got, want := cfg.patience(catalog.Slow, 0, true), 5*time.Second; got != want {
		t.Errorf("before anybody is served %v, want %v", got, want)
	}
}
