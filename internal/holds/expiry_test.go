package holds_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"oversell/internal/backend/backendtest"
	"oversell/internal/catalog"
	"oversell/internal/holds"
)

// All holds of a sale run out within one second, and nobody pays. The metric says how long after the last of them
// all units are sold again, to buyers who ask again and again:
//
//	go test -tags system -run - -bench RunOutAtOnce -benchtime 1x ./internal/holds
func BenchmarkRunOutAtOnce(b *testing.B) {
	for _, kind := range backendtest.Kinds() {
		for _, stage := range catalog.HoldStages() {
			b.Run(kind+"/"+stage.Name, func(b *testing.B) {
				if stage.Name == "h1_counter" {
					b.Skip("its holds expire by the clock of Redis")
				}
				rdb := backendtest.DialRedis(b, backendtest.Redis(b, kind))
				db := backendtest.DialDatabase(b, backendtest.Database(b, kind))
				s := newShop(b, rdb, db, 0, holds.Config{TTL: time.Hour, Settle: time.Hour})
				var late time.Duration
				for b.Loop() {
					late += runOut(b, s, stage.Name)
				}
				b.ReportMetric(late.Seconds()/float64(b.N), "s/expiry")
			})
		}
	}
}

const (
	runOutUnits = 5_000
	atOnce      = 1_000 // units that a buyer asks for
)

// runOut returns how long it takes until units are sold again whose holds have run out.
func runOut(b *testing.B, s *shop, stage string) time.Duration {
	s.put(b, runOutUnits)
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			for n := range runOutUnits / 32 {
				_, err := s.Hold(b.Context(), holds.Ask{Stage: stage, SKU: "hot", Buyer: fmt.Sprint(n), Quantity: 1})
				if err != nil {
					b.Error(err)
				}
			}
		})
	}
	all.Wait()
	for range runOutUnits % 32 {
		s.hold(b, stage, "a")
	}
	last := time.Now().Add(3 * time.Second)
	err := s.db.Exec("UPDATE oversell_holds SET expires_at = ? - (token * 7919 + created_at) % 1000 WHERE sku = 'hot' "+
		"AND status = 'held'", last.UnixMilli()).Error
	if err != nil {
		b.Fatal(err)
	}
	for sold := 0; sold < runOutUnits; {
		_, err := s.Hold(context.Background(), holds.Ask{Stage: stage, SKU: "hot", Buyer: "again", Quantity: atOnce})
		switch {
		case err == nil:
			sold += atOnce
		case !errors.Is(err, holds.ErrSoldOut):
			b.Fatal(err)
		default:
			time.Sleep(time.Millisecond)
		}
	}
	return time.Since(last)
}
