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

// rounds is how often a test repeats what must always work. OVERSELL_TEST_ROUNDS
// raises it above the few that every run has time for.
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
	start := time.Now()
	s := backendtest.Failovers(t)
	t.Logf("started in %v", time.Since(start))
	return s
}

// TestFailovers checks that each failover loses what was written after a cut,
// and nothing else.
func TestFailovers(t *testing.T) {
	t.Parallel()
	s := startSentinels(t)
	rdb := backendtest.DialRedis(t, s.URL())
	for i := range rounds(t, 3) {
		kept, lost := fmt.Sprint("kept-", i), fmt.Sprint("lost-", i)
		set(t, rdb, kept)
		if err := s.Cut(t.Context()); err != nil {
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

// TestCutIsSharp increments a counter all the while: the replica must stop at a
// value between the last before Cut and the first after it.
func TestCutIsSharp(t *testing.T) {
	t.Parallel()
	s := startSentinels(t)
	primary := dial(t, s.PrimaryURL())
	heir, _ := replicas(t, primary)
	for range rounds(t, 2) {
		stop := count(t, primary)
		time.Sleep(5 * time.Millisecond)
		before := number(t, primary)
		if err := s.Cut(t.Context()); err != nil {
			t.Fatal(err)
		}
		after := number(t, primary)
		time.Sleep(1200 * time.Millisecond) // the replica tries to connect once a second
		if n := number(t, heir); n < before || n > after {
			t.Errorf("the heir is at %d, want it between %d and %d", n, before, after)
		}
		last := stop()
		if err := s.Heal(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := number(t, heir); n != last {
			t.Errorf("after Heal the heir is at %d, want %d", n, last)
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

func dial(t *testing.T, url string) *redis.Client {
	t.Helper()
	o, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	o.DisableIdentity, o.ReadTimeout = true, 15*time.Second
	rdb := redis.NewClient(o)
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// replicas returns the two replicas of a primary; the bystander is never
// promoted.
func replicas(t *testing.T, primary *redis.Client) (heir, bystander *redis.Client) {
	t.Helper()
	for line := range strings.Lines(primary.Info(t.Context(), "replication").Val()) {
		var n, port int
		if _, err := fmt.Sscanf(line, "slave%d:ip=127.0.0.1,port=%d,", &n, &port); err != nil {
			continue
		}
		replica := dial(t, fmt.Sprintf("redis://:%s@127.0.0.1:%d", primary.Options().Password, port))
		if strings.Contains(replica.Info(t.Context(), "replication").Val(), "slave_priority:0\r\n") {
			bystander = replica
		} else {
			heir = replica
		}
	}
	if heir == nil || bystander == nil {
		t.Fatalf("the heir is %v, the bystander %v", heir, bystander)
	}
	return heir, bystander
}

// TestHeirIsPromotedAlthoughStale has the bystander acknowledge what the heir has
// not received: that is lost all the same, on the bystander as well.
func TestHeirIsPromotedAlthoughStale(t *testing.T) {
	t.Parallel()
	s := startSentinels(t)
	for i := range rounds(t, 2) {
		primary := dial(t, s.PrimaryURL())
		heir, bystander := replicas(t, primary)
		if err := s.Cut(t.Context()); err != nil {
			t.Fatal(err)
		}
		key := fmt.Sprint("acknowledged-", i)
		if n := acknowledged(t, primary, key, 2); n != 1 {
			t.Fatalf("%d replicas have the write, want the bystander alone", n)
		}
		if bystander.Exists(t.Context(), key).Val() != 1 || heir.Exists(t.Context(), key).Val() != 0 {
			t.Fatal("the write is on the heir, or not on the bystander")
		}
		if err := s.Failover(t.Context()); err != nil {
			t.Fatal(err)
		}
		if heir.Options().Addr != s.PrimaryAddr() {
			t.Errorf("the primary is %s, want the heir %s", s.PrimaryAddr(), heir.Options().Addr)
		}
		start := time.Now()
		if n := acknowledged(t, heir, "alive", 1); n != 1 {
			t.Errorf("%d replicas follow the new primary, want the bystander", n)
		}
		t.Logf("the bystander follows after %v", time.Since(start))
		for name, node := range map[string]*redis.Client{"heir": heir, "bystander": bystander} {
			if node.Exists(t.Context(), key).Val() != 0 {
				t.Errorf("the %s has what the heir had not heard of", name)
			}
		}
		if err := s.Heal(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := acknowledged(t, heir, "alive", 2); n != 2 {
			t.Errorf("after Heal %d replicas follow, want two", n)
		}
	}
}

// acknowledged writes a key, waits for n replicas, and returns how many had
// received it in time.
func acknowledged(t *testing.T, rdb *redis.Client, key string, n int) int64 {
	t.Helper()
	limit := time.Second
	if n == 1 {
		limit = 10 * time.Second // it is expected to happen
	}
	var waited *redis.Cmd
	_, err := rdb.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		p.Set(t.Context(), key, "v", 0)
		waited = p.Do(t.Context(), "WAIT", n, limit.Milliseconds())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	had, err := waited.Int64()
	if err != nil {
		t.Fatal(err)
	}
	return had
}

// TestFailoverAfterLongCut covers a safety rule of the sentinels: they do not
// promote a replica that was cut off for ten times their down-after time.
func TestFailoverAfterLongCut(t *testing.T) {
	t.Parallel()
	s := startSentinels(t)
	if err := s.Cut(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Cut(t.Context()); err == nil {
		t.Error("a second cut works")
	}
	time.Sleep(4 * time.Second)
	start := time.Now()
	if err := s.Failover(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("failover %v", time.Since(start))
	if err := s.Failover(t.Context()); err == nil || !strings.Contains(err.Error(), "Heal") {
		t.Errorf("failover without an heir: %v, want a word on Heal", err)
	}
	if err := s.Heal(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// The sentinels continue a failover that its caller has given up on.
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
	if err := s.Cut(t.Context()); !errors.Is(err, os.ErrClosed) {
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
	_, sentinels, _ := strings.Cut(s.URL(), "@")
	sentinels, _, _ = strings.Cut(sentinels, "/")
	heir, bystander := replicas(t, dial(t, s.PrimaryURL()))
	addrs := append(strings.Split(sentinels, ","), s.PrimaryAddr(), heir.Options().Addr, bystander.Options().Addr)
	if len(addrs) != 6 {
		t.Errorf("addresses %q, want six", addrs)
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
