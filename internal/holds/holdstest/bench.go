package holdstest

import (
	"fmt"
	"sync/atomic"
	"testing"

	"oversell/internal/backend/backendtest"
	"oversell/internal/stock"
)

// Bench measures how many holds a second many buyers take of one item, and how many a second
// they take and pay, on real backends.
func Bench(b *testing.B, n NewStage) {
	for name, pay := range map[string]bool{"take": false, "take+claim": true} {
		b.Run(name, func(b *testing.B) {
			rdb := backendtest.DialRedis(b, backendtest.Redis(b, "local"))
			db := backendtest.DialDatabase(b, backendtest.Database(b, "local"))
			s := New(b, rdb, db, stock.MaxStock, n, 0)
			var buyers atomic.Int64
			b.SetParallelism(16)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					r := s.Request(fmt.Sprintf("buyer-%d", buyers.Add(1)))
					h, err := s.Take(b.Context(), r)
					if err == nil && pay {
						err = s.Pay(h)
					}
					if err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "holds/s")
		})
	}
}
