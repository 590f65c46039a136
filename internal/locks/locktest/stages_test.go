package locktest_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"oversell/internal/backend/backendtest"
	"oversell/internal/catalog"
	"oversell/internal/locks"
	"oversell/internal/locks/locktest"
)

// A stage is one of the teaching stages.
type stage struct {
	locktest.Lock

	name string
}

// stages returns all of them, in order. A stage without expiry ignores the ttl.
func stages(t testing.TB) (all []stage) {
	t.Helper()
	for _, name := range locks.Stages() {
		s, err := catalog.Strategies().Find(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, stage{name: name, Lock: locktest.Lock{
			WithOwner: s.Distributed(catalog.Options{}).WithOwner,
			New: func(rdb redis.UniversalClient, key string, ttl time.Duration) locktest.Mutex {
				return s.Distributed(catalog.Options{Redis: rdb, TTL: ttl}).New(key)
			},
		}})
	}
	return all
}

// holdTTL is longer than any test here.
const holdTTL = time.Minute

// renewed is the index of the first stage that renews the lock.
const renewed = 5

// as returns a context with the owner.
func (s stage) as(ctx context.Context, owner string) context.Context {
	if s.WithOwner == nil {
		return ctx
	}
	return s.WithOwner(ctx, owner)
}

// lock waits for the lock.
func (s stage) lock(ctx context.Context, m locktest.Mutex) error {
	if m, ok := m.(interface{ Lock(context.Context) error }); ok {
		return m.Lock(ctx)
	}
	for {
		if ok, err := m.TryLock(ctx); ok || err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

// The stages keep, in real time, the promises for which a real server differs from one in memory.
func TestStagesInTime(t *testing.T) {
	url := backendtest.Redis(t, "local")
	for i, s := range stages(t) {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.excludes(t, url)
			if i > 0 {
				s.expires(t, url)
			}
			if i >= renewed {
				s.isRenewed(t, url)
			}
		})
	}
}

// excludes makes two processes compete for the lock.
func (s stage) excludes(t *testing.T, url string) {
	key := locktest.Key(t)
	var witness locktest.Witness
	var wg sync.WaitGroup
	for p := range 2 {
		rdb := backendtest.DialRedis(t, url)
		for i := range 4 {
			wg.Go(func() {
				who := fmt.Sprint("process ", p, " holder ", i)
				m, ctx := s.New(rdb, key, holdTTL), s.as(t.Context(), who)
				for range 20 {
					if err := s.lock(ctx, m); err != nil {
						t.Error(err)
						return
					}
					leave := witness.Enter(who)
					time.Sleep(100 * time.Microsecond)
					leave()
					if err := m.Unlock(ctx); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	for _, overlap := range witness.Overlaps() {
		t.Error(overlap)
	}
}

// expires lets a holder die, and checks that its lock is free after the ttl.
func (s stage) expires(t *testing.T, url string) {
	const ttl = 200 * time.Millisecond
	key, dying, hook := locktest.Key(t), backendtest.DialRedis(t, url), new(locktest.Hook)
	dying.AddHook(hook)
	a, b := s.New(dying, key, ttl), s.New(backendtest.DialRedis(t, url), key, ttl)
	start, other := time.Now(), s.as(t.Context(), "b")
	if ok, err := a.TryLock(s.as(t.Context(), "a")); !ok {
		t.Fatal("TryLock:", err)
	}
	hook.On(locktest.Any, -1, locktest.Fail(locktest.ErrCut))
	if err := s.lock(other, b); err != nil {
		t.Fatal(err)
	}
	if waited := time.Since(start); waited < ttl || waited > ttl+backendtest.Slack {
		t.Errorf("the lock of a dead holder was free after %v; the ttl is %v", waited, ttl)
	}
	_ = a.Unlock(s.as(t.Context(), "a"))
	if err := b.Unlock(other); err != nil {
		t.Error(err)
	}
}

// isRenewed works until Redis counts a new lease.
func (s stage) isRenewed(t *testing.T, url string) {
	const ttl = 10 * time.Second // a loaded machine stalls for part of it
	key, rdb := locktest.Key(t), backendtest.DialRedis(t, url)
	a, ctx := s.New(rdb, key, ttl), s.as(t.Context(), "a")
	if ok, err := a.TryLock(ctx); !ok {
		t.Fatal("TryLock:", err)
	}
	left := func() time.Duration { return rdb.PTTL(t.Context(), key).Val() }
	for least := left(); ; time.Sleep(ttl / 100) {
		now := left()
		if now < 0 {
			t.Fatal("the lease is over")
		}
		if now > least {
			break
		}
		least = now
	}
	if err := a.Unlock(ctx); err != nil {
		t.Error(err)
	}
}
