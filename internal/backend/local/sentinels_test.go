package local_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"oversell/internal/backend/backendtest"
	"oversell/internal/backend/local"
)

// rounds is how often a test repeats what must always work: OVERSELL_TEST_ROUNDS
// makes it more than the few that every run has time for.
func rounds(t *testing.T, few int) int {
	t.Helper()
	more := os.Getenv("OVERSELL_TEST_ROUNDS")
	if more == "" {
		return few
	}
	n, err := strconv.Atoi(more)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// startSentinels runs a set for the length of the test.
func startSentinels(t *testing.T) *local.Sentinels {
	t.Helper()
	backendtest.Need(t, "redis-server")
	start := time.Now()
	s, err := local.StartSentinels(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("started in %v", time.Since(start))
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestFailovers has each failover lose what was written after a cut, and
// nothing else.
func TestFailovers(t *testing.T) {
	t.Parallel()
	s := startSentinels(t)
	rdb := backendtest.DialRedis(t, s.URL())
	for i := range rounds(t, 3) {
		kept, lost := fmt.Sprint("kept-", i), fmt.Sprint("lost-", i)
		set(t, rdb, kept)
		if _, err := s.Cut(t.Context()); err != nil {
			t.Fatal(err)
		}
		set(t, rdb, lost)
		was := s.PrimaryAddr()

		start := time.Now()
		if err := s.Failover(t.Context()); err != nil {
			t.Fatal(err)
		}
		failedOver := time.Now()
		if s.PrimaryAddr() == was {
			t.Errorf("the primary is %s as before", was)
		}
		answersWithin(t, rdb, 5*time.Second)
		answered := time.Now()
		for j := range i + 1 {
			if n := rdb.Exists(t.Context(), fmt.Sprint("kept-", j)).Val(); n != 1 {
				t.Errorf("failover %d loses what was written before cut %d", i+1, j+1)
			}
		}
		if n := rdb.Exists(t.Context(), lost).Val(); n != 0 {
			t.Errorf("failover %d keeps what was written after the cut", i+1)
		}

		healing := time.Now()
		if err := s.Heal(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Logf("failover %v, the client %v later, heal %v",
			failedOver.Sub(start), answered.Sub(failedOver), time.Since(healing))
	}
}

func set(t *testing.T, rdb redis.UniversalClient, key string) {
	t.Helper()
	if err := rdb.Set(t.Context(), key, "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
}

// answersWithin waits until a client has noticed the failover.
func answersWithin(t *testing.T, rdb redis.UniversalClient, limit time.Duration) {
	t.Helper()
	for end := time.Now().Add(limit); ; time.Sleep(10 * time.Millisecond) {
		err := rdb.Set(t.Context(), "alive", "v", 0).Err()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after %v: %v", limit, err)
		}
	}
}

// TestCutIsSharp has somebody count all the while: the replica stops at a
// number between the last before Cut and the first after it.
func TestCutIsSharp(t *testing.T) {
	t.Parallel()
	s := startSentinels(t)
	primary := dial(t, s.PrimaryAddr())
	replica := dial(t, replicaAddr(t, primary))
	for range rounds(t, 2) {
		stop := count(t, primary)
		time.Sleep(5 * time.Millisecond)
		before := number(t, primary)
		restore, err := s.Cut(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		after := number(t, primary)
		time.Sleep(1200 * time.Millisecond) // the replica tries to connect once a second
		if n := number(t, replica); n < before || n > after {
			t.Errorf("the replica is at %d, want it between %d and %d", n, before, after)
		}
		last := stop()
		restore()
		restore()
		if err := s.Heal(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := number(t, replica); n != last {
			t.Errorf("after Heal the replica is at %d, want %d", n, last)
		}
	}
}

// count increments "n" until stop, which returns the last number.
func count(t *testing.T, rdb *redis.Client) (stop func() int64) {
	ctx, cancel := context.WithCancel(t.Context())
	var last int64
	var counting sync.WaitGroup
	counting.Go(func() {
		for ctx.Err() == nil {
			n, err := rdb.Incr(t.Context(), "n").Result()
			if err != nil {
				t.Error(err)
				return
			}
			last = n
		}
	})
	return func() int64 {
		cancel()
		counting.Wait()
		return last
	}
}

func number(t *testing.T, rdb *redis.Client) int64 {
	t.Helper()
	n, err := rdb.Get(t.Context(), "n").Int64()
	if err != nil && !errors.Is(err, redis.Nil) {
		t.Fatal(err)
	}
	return n
}

func dial(t *testing.T, addr string) *redis.Client {
	rdb := redis.NewClient(&redis.Options{Addr: addr, DisableIdentity: true})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// replicaAddr asks a primary for its one replica.
func replicaAddr(t *testing.T, primary *redis.Client) string {
	t.Helper()
	info := primary.Info(t.Context(), "replication").Val()
	_, line, _ := strings.Cut(info, "slave0:ip=")
	ip, line, _ := strings.Cut(line, ",port=")
	port, _, found := strings.Cut(line, ",")
	if !found {
		t.Fatalf("no replica in %q", info)
	}
	return net.JoinHostPort(ip, port)
}

// TestFailoverAfterLongCut is about the sentinels' mistrust: they promote no
// replica that was cut off for ten times the silence they wait for.
func TestFailoverAfterLongCut(t *testing.T) {
	t.Parallel()
	s := startSentinels(t)
	restore, err := s.Cut(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Cut(t.Context()); err == nil {
		t.Error("a second cut works")
	}
	time.Sleep(4 * time.Second)
	start := time.Now()
	if err := s.Failover(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("failover %v", time.Since(start))
	restore()
	if err := s.Failover(t.Context()); err == nil || !strings.Contains(err.Error(), "Heal") {
		t.Errorf("failover without a replica: %v, want a word on Heal", err)
	}
	if err := s.Heal(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// The sentinels go on with a failover that its caller has given up.
func TestFailoverGivesUpWithContext(t *testing.T) {
	t.Parallel()
	s := startSentinels(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.Failover(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want context.DeadlineExceeded", err)
	}
	start := time.Now()
	if err := s.Heal(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("heal %v", time.Since(start))
	if err := s.Failover(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestCloseEndsAFailover(t *testing.T) {
	t.Parallel()
	s := startSentinels(t)
	failed := make(chan error)
	go func() { failed <- s.Failover(t.Context()) }()
	time.Sleep(50 * time.Millisecond)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-failed; !errors.Is(err, os.ErrClosed) {
		t.Errorf("failover: %v, want os.ErrClosed", err)
	}
	if _, err := s.Cut(t.Context()); !errors.Is(err, os.ErrClosed) {
		t.Errorf("cut after Close: %v, want os.ErrClosed", err)
	}
	if err := s.Heal(t.Context()); !errors.Is(err, os.ErrClosed) {
		t.Errorf("heal after Close: %v, want os.ErrClosed", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestSentinelsLeaveNothing(t *testing.T) {
	dir := emptyTempDir(t)
	s := startSentinels(t)
	sentinels, _, _ := strings.Cut(strings.TrimPrefix(s.URL(), "redis+sentinel://"), "/")
	addrs := append(strings.Split(sentinels, ","), s.PrimaryAddr(), replicaAddr(t, dial(t, s.PrimaryAddr())))
	if len(addrs) != 5 {
		t.Errorf("addresses %q, want five", addrs)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	for _, addr := range addrs {
		if c, err := net.DialTimeout("tcp", addr, time.Second); err == nil {
			c.Close()
			t.Errorf("%s still listens", addr)
		}
	}
	checkEmpty(t, dir)
}

func TestSentinelsStartGivesUpWithContext(t *testing.T) {
	backendtest.Need(t, "redis-server")
	dir := emptyTempDir(t)
	for _, limit := range []time.Duration{time.Millisecond, 50 * time.Millisecond, 300 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		_, err := local.StartSentinels(ctx)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after %v: error %v, want context.DeadlineExceeded", limit, err)
		}
		checkEmpty(t, dir)
	}
}

func TestSentinelsWithoutBinary(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := local.StartSentinels(t.Context()); !errors.Is(err, local.ErrMissing) {
		t.Errorf("error %v, want ErrMissing", err)
	}
}
