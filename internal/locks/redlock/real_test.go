package redlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"oversell/internal/backend/backendtest"
	"oversell/internal/locks/locktest"
)

// realTTL is short enough for a test, and long enough for a machine that
// stalls.
const realTTL = 2 * time.Second

// processes runs five redis-servers that sync every write before they reply.
func processes(t *testing.T) ([]*backendtest.LocalRedis, []redis.UniversalClient) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("no process can be stopped here")
	}
	var servers []*backendtest.LocalRedis
	var clients []redis.UniversalClient
	for range 5 {
		s := backendtest.RestartableRedis(t, "--appendonly", "yes", "--appendfsync", "always")
		servers, clients = append(servers, s), append(clients, backendtest.DialRedis(t, s.URL))
	}
	return servers, clients
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Two of five servers are stopped, killed and restarted, in real time, and the
// three contenders never hold the lock at the same time.
func TestMinorityOfProcessesFails(t *testing.T) {
	t.Parallel() // it mostly sleeps
	servers, clients := processes(t)
	key := locktest.Key(t)
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
		must(t, a.Stop())
		b.Kill()
		time.Sleep(long)
		must(t, a.Cont())
		must(t, b.Restart(t.Context()))
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

// A killed server still knows the lock after a restart.
func TestRestartWithData(t *testing.T) {
	servers, clients := processes(t)
	key := locktest.Key(t)
	a, b := New(clients, key, ttl), New(clients, key, ttl)
	wait(t, a)
	for _, s := range servers {
		must(t, s.Restart(t.Context()))
	}
	// Until a majority has answered that the lock is held.
	for start := time.Now(); ; {
		ok, err := b.TryLock(t.Context())
		if ok {
			t.Fatal("the lock is free, want it held")
		}
		if err == nil {
			break
		}
		if time.Since(start) > backendtest.Slack {
			t.Fatal("TryLock:", err)
		}
	}
	giveBack(t, a)
}

// Three of five servers hang: nobody gets the lock. When the servers continue,
// commands from their buffers lock nothing for longer than the ttl.
func TestMajorityOfProcessesHangs(t *testing.T) {
	servers, clients := processes(t)
	key := locktest.Key(t)
	a, b := New(clients, key, realTTL), New(clients, key, realTTL)
	for _, s := range servers[:3] {
		must(t, s.Stop())
	}
	start := time.Now()
	ok, err := a.TryLock(t.Context())
	if took := time.Since(start); ok || !errors.Is(err, ErrNoQuorum) || took > 2*limit+backendtest.Slack {
		t.Errorf("TryLock = %v, %v after %v; want false, %v", ok, err, took, ErrNoQuorum)
	}
	for _, s := range servers[:3] {
		must(t, s.Cont())
	}
	start = time.Now()
	wait(t, b)
	if d := time.Since(start); d > realTTL+backendtest.Slack {
		t.Errorf("free after %v; want it within %v", d, realTTL)
	}
	giveBack(t, b)
}

// Renewal with a majority, in real time.
func TestLongWorkKeepsLockInTime(t *testing.T) {
	t.Parallel() // it mostly sleeps
	servers, clients := processes(t)
	key := locktest.Key(t)
	// On a busy machine a node may answer late. A longer ttl leaves more attempts to
	// renew.
	const ttl = 2 * realTTL
	a, b := New(clients, key, ttl), New(clients, key, ttl)
	wait(t, a)
	ctx := a.Context(t.Context())
	must(t, servers[0].Stop())
	servers[1].Kill()
	for range 6 {
		time.Sleep(ttl / 5)
		if ok, err := b.TryLock(t.Context()); ok {
			t.Fatal("the lock is free, want it held:", err)
		}
	}
	if ctx.Err() != nil {
		t.Error("the context has ended:", context.Cause(ctx))
	}
	if a.Renewals() == 0 {
		t.Error("never renewed")
	}
	must(t, servers[0].Cont())
	giveBack(t, a)
}
