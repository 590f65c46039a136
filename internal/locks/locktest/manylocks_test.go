package locktest_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"oversell/internal/backend"
	"oversell/internal/backend/backendtest"
	"oversell/internal/catalog"
	"oversell/internal/guard"
	"oversell/internal/locks"
)

func TestMain(m *testing.M) { os.Exit(backendtest.Main(m)) }

// Processes with few connections can take many locks in turn while their waiters block in Redis. On a
// cluster, the keys of different locks are on different nodes.
func TestManyLocksWithAFewConnections(t *testing.T) {
	for _, spec := range []string{"local", "local:cluster"} {
		t.Run(spec, func(t *testing.T) {
			url := backendtest.Redis(t, spec)
			for _, name := range locks.Stages()[6:] {
				stage, err := catalog.Strategies().Find(name)
				backendtest.Must(t, err)
				for _, pool := range []int{1, 2, 5} {
					if err := takeTurns(stage, dial(t, url, pool), fmt.Sprint(name, pool)); err != nil {
						t.Errorf("%s, %d connections: %v", name, pool, err)
					}
				}
			}
		})
	}
}

// dial returns one client for each of four processes.
func dial(t testing.TB, url string, pool int) (processes []redis.UniversalClient) {
	for range 4 {
		rdb, err := backend.DialRedis(t.Context(), url, pool)
		backendtest.Must(t, err)
		t.Cleanup(func() { _ = rdb.Close() })
		processes = append(processes, rdb)
	}
	return processes
}

// takeTurns makes two goroutines in each process take each of 20 locks three times.
func takeTurns(stage catalog.Strategy, processes []redis.UniversalClient, key string) error {
	const locks = 20
	var all errgroup.Group
	for p, rdb := range processes {
		of := stage.Distributed(catalog.Options{Redis: rdb, TTL: time.Minute})
		for i := range 2 * locks {
			lock := of.New(fmt.Sprintf("%s{%d}", key, i%locks))
			ctx := of.WithOwner(context.Background(), fmt.Sprint(p, ":", i))
			all.Go(func() error {
				for range 3 {
					if err := lock.(guard.Waiter).Lock(ctx); err != nil {
						return err
					}
					if err := lock.Unlock(ctx); err != nil {
						return err
					}
				}
				return nil
			})
		}
	}
	return all.Wait()
}
