package etcdlock

import (
	"context"
	"sync"
	"testing"

	"go.etcd.io/etcd/client/v3/concurrency"

	"oversell/internal/backend/coordination/coordtest"
)

// BenchmarkHandover has two processes, as far as a lock can tell, hand a lock back
// and forth; concurrency is the mutex that comes with etcd's own client.
func BenchmarkHandover(b *testing.B) {
	b.Run("etcdlock", func(b *testing.B) {
		endpoint := coordtest.Etcd(b)
		handover(b, New(newSource(b, endpoint, calm), "a"), New(newSource(b, endpoint, calm), "a"))
	})
	b.Run("concurrency", func(b *testing.B) {
		endpoint := coordtest.Etcd(b)
		var mutexes [2]*concurrency.Mutex
		for i := range mutexes {
			s, err := concurrency.NewSession(coordtest.DialEtcd(b, endpoint))
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = s.Close() }) // it goes with the server, too
			mutexes[i] = concurrency.NewMutex(s, "a")
		}
		handover(b, mutexes[0], mutexes[1])
	})
}

// handover counts only how often the holder changes: the lock may be free for long
// enough to be taken by the same one again.
func handover(b *testing.B, mutexes ...interface {
	Lock(context.Context) error
	Unlock(context.Context) error
}) {
	var mu sync.Mutex // for the race detector, which does not see through etcd
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
