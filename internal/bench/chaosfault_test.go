package bench

import (
	"reflect"
	"slices"
	"testing"
	"time"
)

// mayhem returns a config with faults of all kinds.
func mayhem(seed uint64) Config {
	return Config{
		Seed: seed, Faults: chaosKinds(false, false), Duration: time.Minute, TTL: 3 * time.Second, Instances: 2,
	}
}

func TestSameSeedDrawsTheSameFaults(t *testing.T) {
	for seed := range uint64(20) {
		if !reflect.DeepEqual(mayhem(seed).drawFaults(), mayhem(seed).drawFaults()) {
			t.Fatalf("seed %d draws other faults the second time", seed)
		}
		if reflect.DeepEqual(mayhem(seed).drawFaults(), mayhem(seed+1).drawFaults()) {
			t.Errorf("seeds %d and %d draw the same faults", seed, seed+1)
		}
	}
}

func TestFaultsFollowOneAnother(t *testing.T) {
	for seed := range uint64(50) {
		c := mayhem(seed)
		faults := c.drawFaults()
		if len(faults) < 10 {
			t.Errorf("seed %d: %d faults in a minute", seed, len(faults))
		}
		var end time.Duration
		for i, f := range faults {
			if i > 0 && f.at < end+leastGap || f.at < 0 || f.at+f.lasts > c.Duration-lastGap {
				t.Errorf("seed %d: fault %d lasts from %v for %v, and the one before ended at %v",
					seed, i, f.at, f.lasts, end)
			}
			if most := f.most + time.Duration(f.ofTTL*float64(c.TTL)); f.kind == "" || f.lasts < f.least ||
				f.lasts > most || f.delay > f.mostDelay {
				t.Errorf("seed %d: %+v", seed, f)
			}
			if f.victim < everyShop || f.victim >= c.Instances || f.part == shopPart && f.victim == everyShop {
				t.Errorf("seed %d: %s strikes %d", seed, f.kind, f.victim)
			}
			end = f.at + f.lasts
		}
		c.Duration = 3 * time.Second
		if faults := c.drawFaults(); len(faults) == 0 || faults[0].at+faults[0].lasts > c.Duration {
			t.Errorf("seed %d: a short sale has the faults %+v", seed, faults)
		}
	}
}

// Each kind of fault is drawn once before any kind is drawn again. Every shop, Redis and the
// database are hit at least once.
func TestEveryKindIsDrawn(t *testing.T) {
	c := mayhem(1)
	c.Duration = 10 * time.Minute
	faults := c.drawFaults()
	var first []ChaosKind
	for _, f := range faults[:len(c.Faults)] {
		first = append(first, f.kind)
	}
	slices.Sort(first)
	if want := slices.Sorted(slices.Values(c.Faults)); !slices.Equal(first, want) {
		t.Errorf("the first %d faults are %s", len(first), first)
	}
	victims := make(map[string]bool)
	for _, f := range faults {
		victims[f.target().String()] = true
	}
	for _, want := range []string{"shop 1", "shop 2", "all shops", "redis", "database"} {
		if !victims[want] {
			t.Errorf("nothing strikes %s", want)
		}
	}
}

func TestEmbeddedBackendsLeaveFaultsOut(t *testing.T) {
	if all := chaosKinds(false, false); len(all) != len(traits()) {
		t.Errorf("%d of %d faults can be done on real servers", len(all), len(traits()))
	}
	can := chaosKinds(true, true)
	for _, k := range []ChaosKind{shopKill, shopStop, redisFlush, redisStockLost, redisRepliesLost, redisBlackHole} {
		if !slices.Contains(can, k) {
			t.Errorf("%s cannot be done on embedded backends", k)
		}
	}
	for _, k := range []ChaosKind{redisKill, redisOOM, dbKill, dbTableFull, dbRepliesLost} {
		if slices.Contains(can, k) {
			t.Errorf("%s can be done on embedded backends", k)
		}
	}
}
