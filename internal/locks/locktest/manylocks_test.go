package locktest_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"oversell/internal/backend"
	"oversell/internal/backend/backendtest"
	"oversell/internal/locks/locktest"
)

// queueing are the stages whose waiters sleep in Redis.
func queueing(t testing.TB) []stage { return stages(t)[6:] }

// BenchmarkManyLocks has goroutines of four processes take 40 locks in turn, two for each
// lock in each process, for a millisecond each time. An op is half a second of that with a
// small pool in each process, and half a second with a large one. It reports how often a
// lock was taken a second with each, and the quotient of the two.
func BenchmarkManyLocks(b *testing.B) {
	url := backendtest.Redis(b, "local")
	for _, stage := range queueing(b) {
		b.Run("stage="+stage.name, func(b *testing.B) {
			pools := []int{20, 100}
			crowds, taken, took := make([]crowd, 2), make([]int64, 2), make([]time.Duration, 2)
			for i, pool := range pools {
				crowds[i] = crowd{stage, dial(b, url, pool), locktest.Key(b), 40, 2, time.Millisecond}
			}
			for n := 0; b.Loop(); n++ {
				for k := range pools {
					i, start := (n+k)%len(pools), time.Now() // which comes first changes
					turns, err := crowds[i].takeTurns(func(int) bool { return time.Since(start) > time.Second/2 })
					if err != nil {
						b.Fatal(err)
					}
					taken[i], took[i] = taken[i]+turns, took[i]+time.Since(start)
				}
			}
			small, large := float64(taken[0])/took[0].Seconds(), float64(taken[1])/took[1].Seconds()
			b.ReportMetric(small, "small/s")
			b.ReportMetric(large, "large/s")
			b.ReportMetric(small/large, "small/large")
		})
	}
}

// Processes with few connections each take many locks in turn, on a cluster too, where the
// keys of different locks are on different nodes.
func TestManyLocksWithAFewConnections(t *testing.T) {
	for kind, serve := range map[string]func(testing.TB) string{
		"local":   func(t testing.TB) string { return backendtest.Redis(t, "local") },
		"cluster": backendtest.Cluster,
	} {
		t.Run(kind, func(t *testing.T) {
			url := serve(t)
			for _, stage := range queueing(t) {
				for _, pool := range []int{1, 2, 5} {
					c := crowd{stage, dial(t, url, pool), locktest.Key(t), 20, 2, 0}
					if _, err := c.takeTurns(func(turn int) bool { return turn == 3 }); err != nil {
						t.Errorf("%s, %d connections: %v", stage.name, pool, err)
					}
				}
			}
		})
	}
}

// dial returns the clients of four processes.
func dial(t testing.TB, url string, pool int) (processes []redis.UniversalClient) {
	for range 4 {
		rdb, err := backend.DialRedis(t.Context(), url, pool)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = rdb.Close() })
		processes = append(processes, rdb)
	}
	return processes
}

// A crowd takes locks in turn, with so many goroutines for each lock in each process.
type crowd struct {
	stage             stage
	processes         []redis.UniversalClient
	key               string
	locks, goroutines int
	work              time.Duration // under the lock
}

// takeTurns has each goroutine take its lock until that was enough, and returns how often
// the locks were taken.
func (c crowd) takeTurns(enough func(turn int) bool) (int64, error) {
	var all errgroup.Group
	var taken atomic.Int64
	for p, rdb := range c.processes {
		for i := range c.locks * c.goroutines {
			lock := c.stage.New(rdb, fmt.Sprintf("%s{%d}", c.key, i%c.locks), benchTTL)
			ctx := c.stage.WithOwner(context.Background(), fmt.Sprint(p, ":", i))
			all.Go(func() error {
				for turn := 0; !enough(turn); turn++ {
					if err := c.lockAndUnlock(ctx, lock); err != nil {
						return err
					}
					taken.Add(1)
				}
				return nil
			})
		}
	}
	err := all.Wait()
	return taken.Load(), err
}

func (c crowd) lockAndUnlock(ctx context.Context, lock locktest.Mutex) error {
	if err := c.stage.lock(ctx, lock); err != nil {
		return err
	}
	time.Sleep(c.work)
	return lock.Unlock(ctx)
}
