//go:build system

package reconcile

import (
	"os"
	"strconv"
	"testing"
	"time"

	"oversell/internal/fleet"
	"oversell/internal/stock"
)

// roundsVariable sets how often TestRepairUnderLoad and TestKillDuringARepair repeat each
// case. A default run is short:
//
//	OVERSELL_REPAIR_ROUNDS=50 go test -tags system -v -timeout 2h -run 'UnderLoad|DuringARepair' ./internal/reconcile
const roundsVariable = "OVERSELL_REPAIR_ROUNDS"

func rounds(t *testing.T) int {
	t.Helper()
	text := os.Getenv(roundsVariable)
	if text == "" {
		return 1
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s is %q, and must be a number of rounds", roundsVariable, text)
	}
	return n
}

const (
	units = 2000 // in each sale
	grace = 200 * time.Millisecond
	every = 100 * time.Millisecond
	// overwriteTries is how often the naive repair is tried again while it has not
	// oversold: it does so only if units were in flight when it wrote last.
	overwriteTries = 10
)

// open puts an item on sale for shops of their own processes.
func (s *site) open(t *testing.T, service *stock.Service) job {
	t.Helper()
	sku := s.put(t, service, 0)
	// With its family known the first buyer need not begin a generation.
	if _, err := service.Put(t.Context(), stock.Item{SKU: sku, Initial: units, Family: service.Family(strategy)}); err != nil {
		t.Fatal(err)
	}
	return job{RedisURL: s.redisURL, DBURL: s.dbURL, SKU: sku, Buyers: 40, Grace: grace}
}

func audit(t *testing.T, service *stock.Service, sku string) stock.Audit {
	t.Helper()
	a, err := service.Audit(t.Context(), sku)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// wantSoldOut waits until everything is sold, ends the shops, and audits the sale. It
// returns when the audit agreed.
func wantSoldOut(t *testing.T, service *stock.Service, sku string, shops ...shopProcess) time.Time {
	t.Helper()
	var a stock.Audit
	for deadline := time.Now().Add(sellOut); a.Sold < units || a.LostUpdates != 0; time.Sleep(20 * time.Millisecond) {
		if a = audit(t, service, sku); time.Now().After(deadline) {
			t.Errorf("after %v not all is sold", sellOut)
			break
		}
	}
	agreed := time.Now()
	for _, shop := range shops {
		shop.Close(10 * time.Second)
	}
	if a = audit(t, service, sku); a.Sold != units || a.Oversold != 0 || a.LostUpdates != 0 || a.Stranded != 0 || a.Duplicates != 0 {
		t.Errorf("the audit finds %+v", a)
	}
	return agreed
}

// A shop is killed with units that it has taken and not sold, while it and another one sell
// as fast as they can. The stock is put right while the other goes on: by the request, by the
// reconciler, and by the naive overwrite, which puts the units in flight on sale again.
func TestRepairUnderLoad(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		service := newService(s.rdb, s.db, grace)
		t.Cleanup(service.Close)
		t.Run("request", func(t *testing.T) {
			for range rounds(t) {
				j := s.open(t, service)
				_, other, killed := s.crash(t, j, j)
				done, err := service.Repair(t.Context(), j.SKU)
				if err != nil {
					t.Fatal(err)
				}
				repaired, left := time.Since(killed), left(t, service, j.SKU)
				if done.Returned <= 0 {
					t.Errorf("%d units went back on sale", done.Returned)
				}
				wantSoldOut(t, service, j.SKU, other)
				t.Logf("%v after the kill %d units went back on sale, and %d were on sale then", repaired.Round(time.Millisecond), done.Returned, left)
			}
		})
		t.Run("reconciler", func(t *testing.T) {
			for range rounds(t) {
				j := s.open(t, service)
				reconciling := j
				reconciling.Every = every
				_, other, killed := s.crash(t, j, reconciling)
				agreed := wantSoldOut(t, service, j.SKU, other)
				t.Logf("stock and orders agreed, and all was sold, %v after the kill", agreed.Sub(killed).Round(time.Millisecond))
			}
		})
		t.Run("overwrite", func(t *testing.T) {
			oversold, all := 0, rounds(t)
			for round := 0; round < all || oversold == 0 && round < all+overwriteTries; round++ {
				j := s.open(t, service)
				_, other, _ := s.crash(t, j, j)
				s.overwriteUntilSoldOut(t, j.SKU)
				other.Close(10 * time.Second)
				a := audit(t, service, j.SKU)
				t.Logf("the naive repair oversold %d", a.Oversold)
				if a.Oversold > 0 {
					oversold++
				}
			}
			if oversold == 0 {
				t.Error("the naive repair has oversold nothing, so this test shows nothing")
			}
		})
	})
}

// crash starts two shops, and kills the first with units that it has taken and not sold.
func (s *site) crash(t *testing.T, first, second job) (dead, other shopProcess, killed time.Time) {
	t.Helper()
	first.Park = beforeOrder
	other = startChild(t, second)
	dead = startChild(t, first)
	awaitParked(t, dead)
	dead.Kill()
	return dead, other, time.Now()
}

// overwriteUntilSoldOut is the naive repair, in a loop as a naive reconciler has it: it
// counts the orders, and writes what they leave.
func (s *site) overwriteUntilSoldOut(t *testing.T, sku string) {
	t.Helper()
	await(t, sellOut, "all units are sold", func() bool {
		var sold int64
		if err := s.db.Model(&stock.Order{}).Where("sku = ?", sku).Select("COALESCE(SUM(quantity), 0)").Scan(&sold).Error; err != nil {
			t.Fatal(err)
		}
		if sold >= units {
			return true
		}
		key, err := stockKey(t.Context(), s.rdb, sku)
		if err == nil {
			err = s.rdb.Set(t.Context(), key, units-sold, 0).Err()
		}
		if err != nil {
			t.Fatal(err)
		}
		return false
	})
}

// A shop is killed in the middle of a repair, while it and another one sell as fast as they
// can: with the item's row locked, or with the new generation in Redis and not yet in the
// row. Nothing is oversold or left wrong, and the other shop takes over the lease and repairs
// what the first could not.
func TestKillDuringARepair(t *testing.T) {
	const stranded = 500 // more than 80 buyers can have in flight
	eachSite(t, func(t *testing.T, s *site) {
		service := newService(s.rdb, s.db, grace)
		t.Cleanup(service.Close)
		for _, seam := range []fleet.Seam{beforeChange, beforeCommit} {
			t.Run(string(seam), func(t *testing.T) {
				for range rounds(t) {
					j := s.open(t, service)
					j.Every = every
					first := j
					first.Park = seam
					if err := s.db.Model(&lease{}).Where("name = 'reconcile'").Update("ends_at", 0).Error; err != nil {
						t.Fatal(err) // of a shop that was killed in the round before
					}
					dying := startChild(t, first)
					await(t, 0, "it has the lease", func() bool {
						var n int64
						err := s.db.Model(&lease{}).Where("name = 'reconcile' AND ends_at > 0").Count(&n).Error
						return err == nil && n == 1
					})
					other := startChild(t, j)
					s.strand(t, j.SKU, stranded)
					awaitParked(t, dying)
					dying.Kill()
					killed := time.Now()
					agreed := wantSoldOut(t, service, j.SKU, other)
					t.Logf("stock and orders agreed, and all was sold, %v after the kill", agreed.Sub(killed).Round(time.Millisecond))
				}
			})
		}
	})
}
