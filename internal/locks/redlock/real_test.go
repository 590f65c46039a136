package redlock

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"oversell/internal/backend/backendtest"
	"oversell/internal/backend/local"
	"oversell/internal/locks/locktest"
)

// realTTL is short enough for a test, and long enough if the test's machine stalls for a moment.
const realTTL = 2 * time.Second

// processes runs five redis-servers that sync every write before they reply.
func processes(t *testing.T) ([]*local.Redis, []redis.Cmdable) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("no process can be stopped here")
	}
	var servers []*local.Redis
	var clients []redis.Cmdable
	for range 5 {
		s := backendtest.RestartableRedis(t, "--appendonly", "yes", "--appendfsync", "always")
		servers, clients = append(servers, s), append(clients, backendtest.DialRedis(t, s.URL))
	}
	return servers, clients
}

// While up to two of five real servers are stopped, killed and restarted, no two contenders hold
// the lock at the same time.
func TestMinorityOfProcessesFails(t *testing.T) {
	t.Parallel() // the test mostly sleeps
	servers, clients := processes(t)
	var witness locktest.Witness
	var wg sync.WaitGroup
	quit := make(chan struct{})
	holds := make([]int, 3)
	for i := range holds {
		wg.Go(func() {
			m := New(clients, key, realTTL)
			for {
				select {
				case <-quit:
					return
				default:
				}
				wait(t, m)
				ctx := m.Context(t.Context())
				leave := witness.Enter(fmt.Sprint("contender ", i))
				select {
				case <-ctx.Done():
				case <-time.After(rand.N(5 * time.Millisecond)):
				}
				leave()
				giveBack(t, m)
				holds[i]++
				time.Sleep(rand.N(5 * time.Millisecond))
			}
		})
	}
	const long = 200 * time.Millisecond
	for range 2 {
		i := rand.N(5)
		a, b := servers[i], servers[(i+1)%5]
		backendtest.Must(t, a.Pause())
		b.Kill()
		time.Sleep(long)
		backendtest.Must(t, a.Continue())
		backendtest.Must(t, b.Restart(t.Context()))
		time.Sleep(long)
	}
	close(quit)
	wg.Wait()
	for _, overlap := range witness.Overlaps() {
		t.Error(overlap)
	}
	t.Log("holds of each:", holds)
	if holds[0]+holds[1]+holds[2] < 5 {
		t.Error("the lock was hardly ever had")
	}
}
