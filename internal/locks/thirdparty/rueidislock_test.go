package thirdparty

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis/rueidislock"
	"go.uber.org/goleak"

	"oversell/internal/backend/backendtest"
	"oversell/internal/locks/locktest"
)

// A flaw: if the holder does not know of a loss yet, Unlock does not report it. Unlock does not delete
// the next holder's lock.
func TestUnlockBeforeTheLossIsTold(t *testing.T) {
	rdb := backendtest.DialRedis(t, backendtest.Redis(t, "embedded"))
	m := newRueidislock(t, rdb, ttl).New(key)
	mustLock(t, m)
	backendtest.Must(t, rdb.Set(t.Context(), RueidislockKey(key), "another's", 0).Err())
	locktest.Unlock(t, m)
	if v := rdb.Get(t.Context(), RueidislockKey(key)).Val(); v != "another's" {
		t.Errorf("Unlock left %q", v)
	}
}

func TestCloseLeavesNoGoroutine(t *testing.T) {
	backendtest.EachRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		before := goleak.IgnoreCurrent()
		lib := NewRueidislock(rdb, rueidislock.LockerOption{KeyValidity: ttl})
		held, waits := lib.New("oversell:test:held"), lib.New("oversell:test:held")
		mustLock(t, held)
		ctx := held.Context(t.Context())
		out := waiting(t.Context(), waits)
		still(t, out, 30*time.Millisecond)
		if goleak.Find(before) == nil {
			t.Error("an open Locker has no goroutine: this test shows nothing")
		}
		for range 2 {
			if err := lib.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := ended(t, out); !errors.Is(err, rueidislock.ErrLockerClosed) {
			t.Errorf("who waited got %v; want %v", err, rueidislock.ErrLockerClosed)
		}
		<-ctx.Done()
		if err := context.Cause(ctx); err != ErrLost {
			t.Errorf("the holder's context ended with %v; want %v", err, ErrLost)
		}
		locktest.MustNotHold(t, held, ErrNotHeld)
		if ok, err := waits.TryLock(t.Context()); ok || !errors.Is(err, rueidislock.ErrLockerClosed) {
			t.Errorf("TryLock = %v, %v; want %v", ok, err, rueidislock.ErrLockerClosed)
		}
		if err := goleak.Find(before); err != nil {
			t.Error(err)
		}
	})
}

// A Rueidislock that is never used does not connect, and can be closed.
func TestNoLockNoConnection(t *testing.T) {
	dialled := 0
	rdb := redis.NewClient(&redis.Options{Dialer: func(context.Context, string, string) (net.Conn, error) {
		dialled++
		return nil, locktest.ErrCut
	}})
	defer rdb.Close()
	lib := NewRueidislock(rdb, rueidislock.LockerOption{KeyValidity: ttl})
	m := lib.New("oversell:test")
	if dialled > 0 {
		t.Error("it connects before it is asked for a lock")
	}
	if err := m.Lock(t.Context()); !errors.Is(err, locktest.ErrCut) || dialled == 0 {
		t.Errorf("Lock = %v, dialled %d times; want %v", err, dialled, locktest.ErrCut)
	}
	dialled = 0
	if err := lib.Close(); err != nil {
		t.Error(err)
	}
	if err := m.Lock(t.Context()); !errors.Is(err, rueidislock.ErrLockerClosed) || dialled > 0 {
		t.Errorf("after Close Lock = %v, dialled %d times; want %v", err, dialled, rueidislock.ErrLockerClosed)
	}
}

// If many callers use a new Rueidislock at the same time, only one Locker with one connection is created.
func TestOneLockerAProcess(t *testing.T) {
	server := backendtest.RestartableRedis(t)
	rdb := backendtest.DialRedis(t, server.URL)
	received := func() (n int) {
		clients, err := rdb.ClientList(t.Context()).Result()
		backendtest.Must(t, err)
		return strings.Count(clients, "flags=t ") // connections that Redis notifies of changes
	}
	lib := newRueidislock(t, rdb, ttl)
	begin := make(chan struct{})
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			m := lib.New(fmt.Sprint("oversell:test:", i))
			<-begin
			if !try(t, m) {
				t.Error("a lock without a holder cannot be acquired")
				return
			}
			locktest.Unlock(t, m)
		})
	}
	close(begin)
	wg.Wait()
	if n := received(); n != 1 {
		t.Errorf("%d connections of rueidis; want 1", n)
	}
}

// The Locker connects to the same servers as the go-redis client, with the same
// credentials, so the go-redis client can read the Locker's lock.
func TestGoesWhereGoRedisGoes(t *testing.T) {
	for name, url := range map[string]func(t *testing.T) string{
		"TLS, user, password, database": func(t *testing.T) string { return backendtest.SecuredRedis(t) },
		"cluster":                       func(t *testing.T) string { return backendtest.Redis(t, "local:cluster") },
		"sentinel":                      func(t *testing.T) string { return backendtest.Sentinels(t).URL() },
		"RESP2": func(t *testing.T) string {
			return backendtest.Redis(t, "local") + "?protocol=2"
		},
	} {
		t.Run(name, func(t *testing.T) {
			rdb := backendtest.DialRedis(t, url(t))
			lib := newRueidislock(t, rdb, ttl)
			for i := range 4 { // in a cluster, these keys are not all on one node
				key := fmt.Sprintf("oversell:{%d}:lock", i)
				m := lib.New(key)
				mustLock(t, m)
				if n := rdb.Exists(t.Context(), RueidislockKey(key)).Val(); n != 1 {
					t.Errorf("%s: the lock is not where go-redis looks for it", key)
				}
				locktest.Unlock(t, m)
				if n := rdb.Exists(t.Context(), RueidislockKey(key)).Val(); n != 0 {
					t.Errorf("%s: the lock is still there", key)
				}
			}
		})
	}
}

func TestUnknownClient(t *testing.T) {
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}})
	defer ring.Close()
	m := newRueidislock(t, ring, ttl).New("oversell:test")
	if err := m.Lock(t.Context()); !errors.Is(err, errClient) {
		t.Errorf("Lock = %v; want %v", err, errClient)
	}
}
