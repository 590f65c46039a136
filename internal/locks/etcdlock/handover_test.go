package etcdlock

import (
	"context"
	"sync"
	"testing"

	"go.etcd.io/etcd/client/v3/concurrency"

	"oversell/internal/backend/coordination/coordtest"
	"oversell/internal/locks/lease/leasetest"
)

// BenchmarkHandover hands a lock back and forth between two sessions, which the
// lock treats as two processes; concurrency is the mutex of etcd's own client.
func BenchmarkHandover(b *testing.B) {
	b.Run("etcdlock", func(b *testing.B) {
		endpoint := coordtest.Etcd(b)
		handover(b, New(newSource(b, endpoint, leasetest.Calm), "a"), New(newSource(b, endpoint, leasetest.Calm), "a"))
	})
	b.Run("concurrency", func(b *testing.B) {
		endpoint := coordtest.Etcd(b)
		var mutexes [2]*concurrency.Mutex
		for i := range mutexes {
			s, err := concurrency.NewSession(coordtest.DialEtcd(b, endpoint))
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = s.Close() }) // the server removes it anyway
			mutexes[i] = concurrency.NewMutex(s, "a")
		}
		handover(b, mutexes[0], mutexes[1])
	})
}

// handover counts only changes of the holder: the lock may be free for long enough
// for the same holder to take it again.
func handover(b *testing.B, mutexes ...interface {
	Lock(context.Context) error
	Unlock(context.Context) error
}) {
	var mu sync.Mutex // for the race detector, which cannot see synchronisation through etcd
	last, changes := -1, 0
	enter := func(who int) (done bool) {
		mu.Lock()
		defer mu.Unlock()
		if last != who && changes < b.N {
			last = who
			changes++
		}
		return changes == b.N
	}
	b.ResetTimer()
	var wg sync.WaitGroup
	for who, m := range mutexes {
		wg.Go(func() {
			for done := false; !done; {
				if err := m.Lock(b.Context()); err != nil {
					b.Error("Lock:", err)
					return
				}
				done = enter(who)
				if err := m.Unlock(b.Context()); err != nil {
					b.Error("Unlock:", err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "handovers/s")
}
