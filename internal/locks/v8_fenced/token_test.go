package lock

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"oversell/internal/locks/locktest"
)

// resource is what the lock guards. It remembers the largest token it has seen and,
// if it checks, refuses smaller ones.
type resource struct {
	checks bool
	last   int64
}

// use reports whether a request with the token is accepted.
func (r *resource) use(token int64) bool {
	if r.checks && token < r.last {
		return false
	}
	r.last = max(r.last, token)
	return true
}

// A paused process does not see time pass. When it resumes, the lock is another's,
// and it does not know it yet. The resource does, if it checks tokens.
func TestPausedHolderIsFenced(t *testing.T) {
	for _, checks := range []bool{true, false} {
		bubble(t, 2, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, _ []*locktest.Hook) {
			key, res := locktest.Key(t), &resource{checks: checks}
			a, b := New(rdb[0], key, ttl), New(rdb[1], key, ttl)
			mustLock(t, as(t, "a"), a)
			ctx := a.Context(t.Context())
			s.FastForward(ttl) // a is paused
			mustLock(t, as(t, "b"), b)
			res.use(b.Token())
			if ctx.Err() != nil {
				t.Error("the context has ended:", context.Cause(ctx))
			}
			if late := res.use(a.Token()); late == checks {
				t.Errorf("with checks %v the late holder is let in: %v", checks, late)
			}
			if !res.use(b.Token()) {
				t.Error("the holder is refused")
			}
			<-ctx.Done() // at its next renewal, which comes too late
			mustNotBeHeld(t, as(t, "a"), a)
			unlock(t, as(t, "b"), b)
		})
	}
}

// A later holder has a larger token, in any process, whether it was handed the lock or
// acquired it.
func TestTokenGrows(t *testing.T) {
	bubble(t, 3, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, _ []*locktest.Hook) {
		key := locktest.Key(t)
		s.SetTime(time.Now()) // the clock stands still, but the tokens still grow
		var mu sync.Mutex
		var last int64
		var all sync.WaitGroup
		for p, client := range rdb {
			for i := range 10 {
				all.Go(func() {
					m, ctx := New(client, key, ttl), as(t, fmt.Sprint(p, i))
					if err := m.Lock(ctx); err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					if m.Token() <= last {
						t.Errorf("process %d waiter %d has token %d after %d", p, i, m.Token(), last)
					}
					last = m.Token()
					mu.Unlock()
					unlock(t, ctx, m)
				})
			}
		}
		all.Wait()
		if again := take(t, rdb[0], key); again <= last {
			t.Errorf("token %d after %d", again, last)
		}
		s.FlushAll()
	})
}

// take acquires and releases the lock, and returns the token.
func take(t *testing.T, rdb redis.UniversalClient, key string) int64 {
	t.Helper()
	m := New(rdb, key, ttl)
	mustLock(t, as(t, "a"), m)
	defer unlock(t, as(t, "a"), m)
	return m.Token()
}

// A lock that nobody uses leaves no key behind, and still its tokens go on growing.
func TestTokenGrowsAfterIdleTime(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, _ []*locktest.Hook) {
		key := locktest.Key(t)
		before := take(t, rdb[0], key)
		time.Sleep(3 * ttl)
		if keys := s.Keys(); len(keys) > 0 {
			t.Errorf("an idle lock leaves %v", keys)
		}
		if after := take(t, rdb[0], key); after <= before {
			t.Errorf("token %d after %d", after, before)
		}
	})
}

// The last token is remembered for as long as the lock is held, plus twice the ttl.
func TestTokenIsRememberedWhileHeld(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, _ []*locktest.Hook) {
		key := locktest.Key(t)
		a := New(rdb[0], key, ttl)
		mustLock(t, as(t, "a"), a)
		time.Sleep(10 * ttl)
		if left := s.TTL(key + ":token"); left < ttl {
			t.Errorf("the token is forgotten in %v, want %v or more", left, ttl)
		}
		unlock(t, as(t, "a"), a)
	})
}

// A replica that becomes the primary may never have heard of the lock.
func TestTokenSurvivesFailover(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, _ []*locktest.Hook) {
		key := locktest.Key(t)
		a, b := New(rdb[0], key, ttl), New(rdb[1], key, ttl)
		mustLock(t, as(t, "a"), a)
		time.Sleep(time.Millisecond)
		s.FlushAll()
		mustLock(t, as(t, "b"), b)
		if a.Token() >= b.Token() {
			t.Errorf("the next holder has token %d after %d", b.Token(), a.Token())
		}
		mustNotBeHeld(t, as(t, "a"), a)
		unlock(t, as(t, "b"), b)
	})
}

func TestReentryKeepsToken(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, _ []*locktest.Hook) {
		key := locktest.Key(t)
		outer, inner := New(rdb[0], key, ttl), New(rdb[0], key, ttl)
		if outer.Token() != 0 {
			t.Errorf("token %d before the first hold", outer.Token())
		}
		mustLock(t, as(t, "a"), outer)
		first := outer.Token()
		mustLock(t, as(t, "a"), outer)
		mustLock(t, as(t, "a"), inner)
		if outer.Token() != first || inner.Token() != first || first == 0 {
			t.Errorf("tokens %d, %d and %d of one hold", first, outer.Token(), inner.Token())
		}
		for range 3 {
			unlock(t, as(t, "a"), outer)
		}
	})
}

// A flaw: if the clock goes back and the last token is forgotten, the next holder
// looks like a late one. It is refused, which is safe.
func TestClockThatGoesBackIsRefused(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, _ []*locktest.Hook) {
		key, res := locktest.Key(t), &resource{checks: true}
		res.use(take(t, rdb[0], key))
		s.SetTime(time.Now().Add(-time.Minute))
		if !res.use(take(t, rdb[0], key)) {
			t.Error("refused though the last token was remembered")
		}
		s.FlushAll()
		if res.use(take(t, rdb[0], key)) {
			t.Error("let in with a token of a minute ago")
		}
		s.FlushAll()
	})
}
