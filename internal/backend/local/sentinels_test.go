package local_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"oversell/internal/backend/backendtest"
	"oversell/internal/backend/local"
)

func TestSentinels(t *testing.T) {
	t.Parallel()
	s := backendtest.Failovers(t)
	t.Run("failovers", func(t *testing.T) { failsOver(t, s) })
	t.Run("a failover that is given up", func(t *testing.T) { failoverGivesUpWithContext(t, s) })
}

// failsOver checks that a failover loses exactly the writes after the cut, although the bystander (the
// replica that is not promoted) has acknowledged them.
func failsOver(t *testing.T, s *local.Sentinels) {
	rdb := backendtest.DialRedis(t, s.URL())
	for range 2 {
		primary, heir, _ := s.Nodes()
		set(t, rdb, "kept")
		backendtest.Must(t, s.Cut(t.Context()))
		set(t, rdb, "lost")
		if n := acknowledged(t, primary, 1); n != 1 {
			t.Fatalf("%d replicas have the write, want the bystander alone", n)
		}
		backendtest.Must(t, s.Failover(t.Context()))
		if now, _, _ := s.Nodes(); now != heir {
			t.Errorf("the primary is %s, want %s", now.Addr, heir.Addr)
		}
		backendtest.EventuallyWithin(t, time.Minute, "the client writes", func() bool {
			return rdb.Set(t.Context(), "alive", "v", 0).Err() == nil
		})
		if n := rdb.Exists(t.Context(), "kept").Val(); n != 1 {
			t.Error("the failover loses what was written before the cut")
		}
		if n := rdb.Exists(t.Context(), "lost").Val(); n != 0 {
			t.Error("the failover keeps what was written after the cut")
		}
		if err := s.Failover(t.Context()); err == nil || !strings.Contains(err.Error(), "Heal") {
			t.Errorf("failover without an heir: %v, want a word on Heal", err)
		}
		backendtest.Must(t, s.Heal(t.Context()))
		if n := acknowledged(t, heir, 2); n != 2 {
			t.Errorf("after Heal %d replicas follow, want two", n)
		}
	}
}

func set(t *testing.T, rdb redis.UniversalClient, key string) {
	t.Helper()
	backendtest.Must(t, rdb.Set(t.Context(), key, "v", 0).Err())
}

// acknowledged writes a key, waits up to a second for n replicas, and returns the number that have the key.
func acknowledged(t *testing.T, server *local.Redis, n int) (have int64) {
	t.Helper()
	rdb := backendtest.DialRedis(t, server.URL)
	var waited *redis.Cmd
	_, err := rdb.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		p.Set(t.Context(), "acknowledged", "v", 0)
		waited = p.Do(t.Context(), "WAIT", n, 1000)
		return nil
	})
	backendtest.Must(t, err)
	have, err = waited.Int64()
	backendtest.Must(t, err)
	return have
}

// After a Failover whose context has ended, Heal restores the servers, and the next Failover succeeds.
func failoverGivesUpWithContext(t *testing.T, s *local.Sentinels) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.Failover(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want context.DeadlineExceeded", err)
	}
	backendtest.Must(t, s.Heal(t.Context()))
	if err := s.Failover(t.Context()); err != nil {
		t.Error(err)
	}
}

// groups contains functions that start several servers that belong together.
var groups = map[string]func(ctx context.Context) (addrs []string, stop func() error, err error){
	"sentinel": func(ctx context.Context) ([]string, func() error, error) {
		s, err := local.StartSentinels(ctx)
		if err != nil {
			return nil, nil, err
		}
		a, b, c := s.Nodes()
		_, sentinel, _ := strings.Cut(s.URL(), "@")
		sentinel, _, _ = strings.Cut(sentinel, "/")
		return []string{a.Addr, b.Addr, c.Addr, sentinel}, s.Close, nil
	},
	"cluster": func(ctx context.Context) ([]string, func() error, error) {
		c, err := local.StartCluster(ctx)
		if err != nil {
			return nil, nil, err
		}
		var addrs []string
		for _, n := range c.Nodes() {
			addrs = append(addrs, n.Addr)
		}
		return addrs, c.Close, nil
	},
}

// The servers refuse clients without the password, because every user of the machine can dial them. They
// leave nothing behind when they are closed, or when they do not start in time.
func TestServersThatBelongTogether(t *testing.T) {
	backendtest.Need(t, "redis-server")
	for name, start := range groups {
		t.Run(name, func(t *testing.T) {
			backendtest.EmptyTempDir(t)
			addrs, stop, err := start(t.Context())
			backendtest.Must(t, err)
			for _, addr := range addrs {
				letsNoStrangerIn(t, addr)
			}
			if err := errors.Join(stop(), stop()); err != nil {
				t.Error(err)
			}
			for _, addr := range addrs {
				if c, err := net.DialTimeout("tcp", addr, time.Second); err == nil {
					c.Close()
					t.Errorf("%s still listens", addr)
				}
			}
			for _, limit := range []time.Duration{time.Millisecond, 50 * time.Millisecond} {
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				_, _, err := start(ctx)
				cancel()
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("after %v: error %v, want context.DeadlineExceeded", limit, err)
				}
			}
		})
	}
}

// letsNoStrangerIn checks that the server at addr refuses clients without its password.
func letsNoStrangerIn(t *testing.T, addr string) {
	t.Helper()
	if !strings.HasPrefix(addr, "127.0.0.1:") {
		t.Errorf("it listens on %s", addr)
	}
	for _, password := range []string{"", "wrong"} {
		rdb := redis.NewClient(&redis.Options{Addr: addr, Password: password, DisableIdentity: true})
		err := rdb.Ping(t.Context()).Err()
		_ = rdb.Close()
		if err == nil || !strings.Contains(err.Error(), "NOAUTH") && !strings.Contains(err.Error(), "WRONGPASS") {
			t.Errorf("%s lets in a client with the password %q: %v", addr, password, err)
		}
	}
}
