package chaos

import (
	"reflect"
	"slices"
	"testing"
	"time"
)

func draw(seed uint64) Draw {
	kinds, _ := Kinds(false, false)
	return Draw{Seed: seed, Kinds: kinds, Duration: time.Minute, TTL: 3 * time.Second, Shops: 2}
}

func TestSameSeedDrawsTheSameFaults(t *testing.T) {
	for seed := range uint64(20) {
		if !reflect.DeepEqual(draw(seed).Faults(), draw(seed).Faults()) {
			t.Fatalf("seed %d draws other faults the second time", seed)
		}
		if reflect.DeepEqual(draw(seed).Faults(), draw(seed+1).Faults()) {
			t.Errorf("seeds %d and %d draw the same faults", seed, seed+1)
		}
	}
}

func TestFaultsFollowOneAnother(t *testing.T) {
	for seed := range uint64(50) {
		d := draw(seed)
		faults := d.Faults()
		if len(faults) < 10 {
			t.Errorf("seed %d: %d faults in a minute", seed, len(faults))
		}
		var end time.Duration
		for i, f := range faults {
			if i > 0 && f.At < end+leastGap || f.At < 0 || f.At+f.For > d.Duration-lastGap {
				t.Errorf("seed %d: fault %d lasts from %v for %v, and the one before ended at %v", seed, i, f.At, f.For,
					end)
			}
			kind, found := traitOf(f.Kind)
			if most := kind.most + time.Duration(kind.ofTTL*float64(d.TTL)); !found || f.For < kind.least ||
				f.For > most || f.Amount > kind.amount {
				t.Errorf("seed %d: %+v", seed, f)
			}
			if f.Victim < all || f.Victim >= d.Shops || kind.part == shop && f.Victim == all {
				t.Errorf("seed %d: %s strikes %d", seed, f.Kind, f.Victim)
			}
			end = f.At + f.For
		}
		d.Duration = 3 * time.Second
		if faults := d.Faults(); len(faults) == 0 || faults[0].At+faults[0].For > d.Duration {
			t.Errorf("seed %d: a short sale has the faults %+v", seed, faults)
		}
	}
}

// Each kind of fault is drawn once before any kind is drawn again. Every shop, Redis and the
// database are hit at least once.
func TestEveryKindIsDrawn(t *testing.T) {
	d := draw(1)
	d.Duration = 10 * time.Minute
	faults := d.Faults()
	var first []Kind
	for _, f := range faults[:len(d.Kinds)] {
		first = append(first, f.Kind)
	}
	slices.Sort(first)
	if want := slices.Sorted(slices.Values(d.Kinds)); !slices.Equal(first, want) {
		t.Errorf("the first %d faults are %s", len(first), join(first))
	}
	victims := make(map[string]bool)
	for _, f := range faults {
		victims[f.Target().String()] = true
	}
	for _, want := range []string{"shop 1", "shop 2", "all shops", "redis", "database"} {
		if !victims[want] {
			t.Errorf("nothing strikes %s", want)
		}
	}
}

func TestEmbeddedBackendsLeaveFaultsOut(t *testing.T) {
	everything, none := Kinds(false, false)
	if len(none) > 0 || len(everything) != len(traits()) {
		t.Errorf("%d of %d faults can be done on real servers, and not %s", len(everything), len(traits()), join(none))
	}
	can, cannot := Kinds(true, true)
	for _, k := range []Kind{ShopKill, ShopStop, RedisFlush, RedisStockLost, RedisRepliesLost, RedisBlackHole} {
		if !slices.Contains(can, k) {
			t.Errorf("%s cannot be done on embedded backends", k)
		}
	}
	for _, k := range []Kind{RedisKill, RedisOOM, DBKill, DBTableFull, DBRepliesLost} {
		if !slices.Contains(cannot, k) {
			t.Errorf("%s can be done on embedded backends", k)
		}
	}
	if len(can)+len(cannot) != len(everything) {
		t.Errorf("%d and %d of %d faults", len(can), len(cannot), len(everything))
	}
}
