package lock

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"oversell/internal/backend"
	"oversell/internal/backend/backendtest"
	"oversell/internal/locks/locktest"
)

// However many locks a process waits for, half of its pool is free for other commands.
func TestHalfOfThePoolIsFree(t *testing.T) {
	for _, kind := range backendtest.Kinds() {
		t.Run(kind, func(t *testing.T) {
			const pool, locks = 4, 40
			url, key := backendtest.Redis(t, kind), locktest.Key(t)
			holder := backendtest.DialRedis(t, url)
			rdb, err := backend.DialRedis(t.Context(), url, pool)
			if err != nil {
				t.Fatal(err)
			}
			defer rdb.Close()
			var blocked gauge
			hook := new(locktest.Hook)
			rdb.AddHook(hook)
			hook.On(locktest.Command("blpop"), -1, blocked.count)

			var held []*Mutex
			var waiters sync.WaitGroup
			for i := range locks {
				key, who := fmt.Sprint(key, i), fmt.Sprint("waiter ", i)
				m := New(holder, key, ttl)
				mustLock(t, as(t, "holder"), m)
				held = append(held, m)
				waiters.Go(func() { lockAndUnlock(t, New(rdb, key, ttl), who) })
			}
			for asleepIn(rdb) < locks && t.Context().Err() == nil {
				time.Sleep(time.Millisecond)
			}
			start := time.Now()
			for range 100 {
				if err := rdb.Ping(t.Context()).Err(); err != nil {
					t.Fatal("another command: ", err)
				}
			}
			t.Logf("100 other commands in %v", time.Since(start))
			for _, m := range held {
				unlock(t, as(t, "holder"), m)
			}
			waiters.Wait()
			if blocked.most > pool/2 {
				t.Errorf("%d waiters blocked a connection each; the pool has %d", blocked.most, pool)
			}
		})
	}
}

// A gauge counts the commands that are in flight.
type gauge struct {
	mu        sync.Mutex
	now, most int
}

func (g *gauge) count(_ context.Context, send func() error) error {
	g.add(1)
	defer g.add(-1)
	return send()
}

func (g *gauge) add(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now += n
	g.most = max(g.most, g.now)
}

// asleepIn returns how many waiters of a client sleep.
func asleepIn(rdb redis.UniversalClient) int {
	sleepMu.Lock()
	defer sleepMu.Unlock()
	if s := asleep[rdb]; s != nil {
		return s.blocking + len(s.polled)
	}
	return 0
}

func lockAndUnlock(t *testing.T, m *Mutex, who string) {
	ctx := as(t, who)
	if err := m.Lock(ctx); err != nil {
		t.Error(err)
		return
	}
	if err := m.Unlock(ctx); err != nil {
		t.Error(err)
	}
}

// crowded runs f with a client of whose pool half is blocked, so that further waiters are
// polled for. Soon after f nothing is left of them.
func crowded(t *testing.T, f func(t *testing.T, s *locktest.Server, rdb, other redis.UniversalClient)) {
	t.Helper()
	bubble(t, 2, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, _ []*locktest.Hook) {
		var blocked sync.WaitGroup
		for i := range poolSize(rdb[0]) / 2 {
			blocked.Go(func() {
				if m, err := receive(rdb[0], fmt.Sprint("blocked:", i), 2*time.Second); m != "go on" || err != nil {
					t.Error(m, err)
				}
			})
		}
		synctest.Wait()
		f(t, s, rdb[0], rdb[1])
		for i := range poolSize(rdb[0]) / 2 {
			if err := s.Client.RPush(t.Context(), fmt.Sprint("blocked:", i), "go on").Err(); err != nil {
				t.Error(err)
			}
		}
		blocked.Wait()
		time.Sleep(maxPause) // a waiter that has left is woken
		if n := asleepIn(rdb[0]); n > 0 || asleep[rdb[0]] != nil {
			t.Errorf("%d waiters are left", n)
		}
	})
}

// A waiter that is polled for has its message at most 20 ms late, and if it is the only one,
// at most as much later as it has waited.
func TestPolledWaiterIsWokenSoon(t *testing.T) {
	crowded(t, func(t *testing.T, s *locktest.Server, rdb, _ redis.UniversalClient) {
		for _, after := range []time.Duration{0, time.Millisecond, 10 * time.Millisecond, 99 * time.Millisecond, 900 * time.Millisecond} {
			time.AfterFunc(after, func() { s.Client.RPush(context.Background(), "list", after.String()) })
			start := time.Now()
			m, err := receive(rdb, "list", time.Second)
			late := time.Since(start) - after
			if m != after.String() || err != nil || late > min(maxPause, after+minPause) {
				t.Errorf("%q, %v came %v late; want %q", m, err, late, after.String())
			}
		}
	})
}

// A waiter that is polled for wakes when its time is up, so as to renew its heartbeat. A
// message that comes just then is received, or stays on the list.
func TestPolledWaiterMissesNoMessage(t *testing.T) {
	const limit = 100 * time.Millisecond
	crowded(t, func(t *testing.T, s *locktest.Server, rdb, _ redis.UniversalClient) {
		for _, off := range []time.Duration{-maxPause, -minPause, -1, 0, 1, minPause, maxPause} {
			pushed := make(chan error)
			go func() {
				time.Sleep(limit + off)
				pushed <- s.Client.RPush(context.Background(), "list", "held").Err()
			}()
			start := time.Now()
			m, err := receive(rdb, "list", limit)
			if took := time.Since(start); took > limit {
				t.Errorf("woken after %v; want %v at most", took, limit)
			}
			if err := <-pushed; err != nil {
				t.Fatal(err)
			}
			left, _ := s.List("list")
			if received := err == nil; received != (m == "held") || received == (len(left) == 1) {
				t.Errorf("%v off: received %q, %v; left on the list: %v", off, m, err, left)
			}
			s.Del("list")
		}
	})
}

// Waiters that come while others are polled for are woken too.
func TestPolledWaitersComeAndGo(t *testing.T) {
	crowded(t, func(t *testing.T, s *locktest.Server, rdb, _ redis.UniversalClient) {
		var all sync.WaitGroup
		for i := range 100 {
			list := fmt.Sprint("list ", i)
			time.AfterFunc(time.Duration(i)*time.Millisecond, func() { s.Client.RPush(context.Background(), list, list) })
			all.Go(func() {
				time.Sleep(time.Duration(99-i) * time.Millisecond / 2)
				if m, err := receive(rdb, list, time.Second); m != list || err != nil {
					t.Errorf("%s: %q, %v", list, m, err)
				}
			})
		}
		all.Wait()
	})
}

// However often messages come, and however many waiters are polled for, a client sends at
// most 50,000 LPOPs a second.
func TestPollingIsBounded(t *testing.T) {
	crowded(t, func(t *testing.T, s *locktest.Server, rdb, _ redis.UniversalClient) {
		const waiters, long = 100, 500 * time.Millisecond
		hook := new(locktest.Hook)
		rdb.AddHook(hook)
		polls := hook.Count(locktest.Command("lpop"))
		var all sync.WaitGroup
		for i := range waiters {
			all.Go(func() {
				if m, err := receive(rdb, fmt.Sprint("list ", i), long); err != redis.Nil {
					t.Error(m, err)
				}
			})
		}
		for start := time.Now(); time.Since(start) < long; {
			s.Client.RPush(t.Context(), "busy", "on")
			if m, err := receive(rdb, "busy", long); m != "on" {
				t.Error(m, err)
			}
		}
		all.Wait()
		if n := polls.Hits() * waiters; n < 10_000 || n > 30_000 {
			t.Errorf("%d LPOPs in half a second, want about 25,000", n)
		}
	})
}

// A waiter that is polled for and leaves, before it is handed the lock or while it is,
// hands it on.
func TestPolledWaiterThatLeavesHandsOn(t *testing.T) {
	for _, handed := range []bool{false, true} {
		crowded(t, func(t *testing.T, s *locktest.Server, rdb, other redis.UniversalClient) {
			key := locktest.Key(t)
			a, b, c := New(other, key, ttl), New(rdb, key, ttl), New(s.Client, key, ttl)
			mustLock(t, as(t, "a"), a)
			ctx, leave := context.WithCancel(as(t, "b"))
			left := make(chan error, 1)
			go func() { left <- b.Lock(ctx) }()
			time.Sleep(maxPause) // b is in the queue
			served := make(chan error, 1)
			go func() { served <- c.Lock(as(t, "c")) }()
			time.Sleep(maxPause)
			if !handed {
				leave()
			}
			unlock(t, as(t, "a"), a)
			leave()
			if err := <-left; err == nil { // it was quicker
				unlock(t, as(t, "b"), b)
			}
			start := time.Now()
			if err := <-served; err != nil || time.Since(start) > maxPause {
				t.Errorf("the next waiter: %v after %v", err, time.Since(start))
			}
			unlock(t, as(t, "c"), c)
		})
	}
}
