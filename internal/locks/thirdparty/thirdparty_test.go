package thirdparty

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis/rueidislock"
	"go.uber.org/goleak"

	"oversell/internal/backend/backendtest"
	"oversell/internal/locks/locktest"
)

func TestMain(m *testing.M) {
	// After each refresh of a cluster's nodes, rueidis keeps the old
	// connections for five seconds, even if the client is closed meanwhile.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"))
}

const ttl = 30 * time.Second

// mutex has the methods that a guard needs from a lock with its own way of waiting.
type mutex interface {
	TryLock(ctx context.Context) (bool, error)
	Lock(ctx context.Context) error
	Unlock(ctx context.Context) error
}

// library describes one of the three lock libraries.
type library struct {
	name     string
	open     func(t testing.TB, rdb redis.UniversalClient, ttl time.Duration) func(key string) mutex
	redisKey func(key string) string
}

// onGoRedis returns the two libraries that use go-redis.
func onGoRedis() []library {
	itself := func(key string) string { return key }
	return []library{{"redsync", openRedsync, itself}, {"redislock", openRedislock, itself}}
}

func all() []library {
	return append(onGoRedis(), library{"rueidislock", openRueidislock, RueidislockKey})
}

func openRedsync(_ testing.TB, rdb redis.UniversalClient, ttl time.Duration) func(string) mutex {
	lib := NewRedsync(rdb, redsync.WithExpiry(ttl))
	return func(key string) mutex { return lib.New(key) }
}

func openRedislock(_ testing.TB, rdb redis.UniversalClient, ttl time.Duration) func(string) mutex {
	lib := NewRedislock(rdb, ttl, LinearBackoff)
	return func(key string) mutex { return lib.New(key) }
}

func openRueidislock(t testing.TB, rdb redis.UniversalClient, ttl time.Duration) func(string) mutex {
	lib := newRueidislock(t, rdb, ttl)
	return func(key string) mutex { return lib.New(key) }
}

// newRueidislock returns a Rueidislock that is closed after the test.
func newRueidislock(t testing.TB, rdb redis.UniversalClient, ttl time.Duration) *Rueidislock {
	t.Helper()
	lib := NewRueidislock(rdb, rueidislock.LockerOption{KeyValidity: ttl})
	backendtest.CloseAfter(t, lib)
	return lib
}

// stage is one library on one Redis, with a key for the library.
type stage struct {
	library
	rdb redis.UniversalClient
	key string
	new func(key string) mutex
}

// each runs f for each library on each kind of Redis.
func each(t *testing.T, ttl time.Duration, f func(t *testing.T, s stage)) {
	t.Helper()
	backendtest.EachRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		for _, lib := range all() {
			t.Run(lib.name, func(t *testing.T) {
				f(t, stage{lib, rdb, lib.name, lib.open(t, rdb, ttl)})
			})
		}
	})
}

// mutex returns a new holder's handle on the stage's lock.
func (s stage) mutex() mutex { return s.new(s.key) }

// inRedis returns the value of the lock's key in Redis, or "" if the key does not exist.
func (s stage) inRedis(t testing.TB) string {
	t.Helper()
	v, err := s.rdb.Get(context.Background(), s.redisKey(s.key)).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		t.Fatal(err)
	}
	return v
}

// try returns the result of TryLock. It repeats an attempt of a Locker that failed because it took more
// than 20 ms, which happens while other tests run.
func try(t testing.TB, m mutex) bool {
	t.Helper()
	start := time.Now()
	for {
		ok, err := m.TryLock(context.Background())
		if err == nil {
			return ok
		}
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > backendtest.Slack {
			t.Error(err)
			return false
		}
	}
}

func mustLock(t testing.TB, m mutex) {
	t.Helper()
	if !try(t, m) {
		t.Fatal("the lock cannot be acquired")
	}
}

// waiting starts m.Lock and returns a channel for its error.
func waiting(ctx context.Context, m mutex) <-chan error {
	out := make(chan error, 1)
	go func() { out <- m.Lock(ctx) }()
	return out
}

// still fails the test if the wait ends within d.
func still(t testing.TB, out <-chan error, d time.Duration) {
	t.Helper()
	select {
	case err := <-out:
		t.Fatal("the wait has ended with ", err)
	case <-time.After(d):
	}
}

// ended waits for the end of a wait and returns its error.
func ended(t testing.TB, out <-chan error) error {
	t.Helper()
	select {
	case err := <-out:
		return err
	case <-time.After(backendtest.Slack):
		t.Fatal("the wait does not end")
		return nil
	}
}

func TestWaitEndsWithItsCause(t *testing.T) {
	soldOut := errors.New("sold out")
	each(t, ttl, func(t *testing.T, s stage) {
		a, b, c := s.mutex(), s.mutex(), s.mutex()
		mustLock(t, a)
		wait, end := context.WithCancelCause(t.Context())
		out := waiting(wait, b)
		still(t, out, 30*time.Millisecond)
		end(soldOut)
		if err := ended(t, out); err != soldOut {
			t.Errorf("the wait ended with %v; want %v", err, soldOut)
		}
		// A wait that starts with an ended context returns the same cause.
		if err := ended(t, waiting(wait, b)); err != soldOut {
			t.Errorf("a wait that was over ended with %v; want %v", err, soldOut)
		}
		late, cancel := context.WithTimeoutCause(t.Context(), 30*time.Millisecond, soldOut)
		defer cancel()
		if err := ended(t, waiting(late, b)); err != soldOut {
			t.Errorf("the wait with a deadline ended with %v; want %v", err, soldOut)
		}
		if try(t, c) {
			t.Error("the holder's lock is gone")
		}
		locktest.Unlock(t, a)
		backendtest.Eventually(t, "those who went have left nothing behind", func() bool { return try(t, c) })
		locktest.Unlock(t, c)
	})
}

// A holder keeps the lock when the context of Lock or TryLock ends.
func TestHoldOutlivesTheWait(t *testing.T) {
	each(t, ttl, func(t *testing.T, s stage) {
		for name, lock := range map[string]func(context.Context, mutex) error{
			"Lock": func(ctx context.Context, m mutex) error { return m.Lock(ctx) },
			"TryLock": func(ctx context.Context, m mutex) error {
				if ok, err := m.TryLock(ctx); err != nil || !ok {
					return fmt.Errorf("TryLock = %v, %w", ok, err)
				}
				return nil
			},
		} {
			a, b := s.mutex(), s.mutex()
			ctx, cancel := context.WithTimeout(t.Context(), ttl)
			if err := lock(ctx, a); err != nil {
				t.Fatal(name, err)
			}
			if left := s.rdb.PTTL(t.Context(), s.redisKey(s.key)).Val(); left < ttl/2 || left > ttl+time.Second {
				t.Errorf("%s: the lease is %v; want %v", name, left, ttl)
			}
			cancel()
			time.Sleep(30 * time.Millisecond)
			if try(t, b) {
				t.Errorf("%s: the hold is over", name)
			}
			if err := a.Unlock(ctx); err != nil { // with a context that has ended
				t.Errorf("%s: Unlock: %v", name, err)
			}
			if v := s.inRedis(t); v != "" {
				t.Errorf("%s: after Unlock there is %q", name, v)
			}
		}
	})
}

// The two libraries that use go-redis keep the promises of stage 4, and can also wait. Their leases
// expire while the holder still works, unless they are extended. If a lease is extended, the holder's
// context also reports a loss.
func TestPromises(t *testing.T) {
	for _, lib := range onGoRedis() {
		for _, extended := range []bool{false, true} {
			lock := locktest.Lock{NotHeld: ErrNotHeld, Lost: ErrLost, Breaks: []string{
				"the holder may take the lock again",
				"a process stopped for longer than the ttl keeps the lock",
			}}
			lock.New = func(rdb redis.UniversalClient, key string, ttl time.Duration) locktest.Mutex {
				m := lib.open(t, rdb, ttl)(key)
				if extended {
					return Extend(m.(extendable), ttl, context.Background())
				}
				return m
			}
			if extended {
				lock.Breaks = append(lock.Breaks, "a lock that nobody unlocks is free in the end",
					"the context of the work ends with the hold",          // a context from before the hold goes on
					"a renewal that fails does not lose the lock",         // a renewal without an answer loses it
					"a lease counts from its request, not from the reply", // a TryLock whose reply is late fails
					"Unlock waits for a renewal in flight")                // Unlock cancels the renewal
			} else {
				lock.Breaks = append(lock.Breaks, "work longer than the ttl keeps the lock")
			}
			if lib.name == "redislock" { // unlike redsync, it does not release a lock that it may have acquired
				lock.Breaks = append(lock.Breaks, "a lock whose reply was lost can be released",
					"a retry after a lost reply does no harm")
			}
			t.Run(fmt.Sprint(lib.name, ", extended ", extended), func(t *testing.T) { locktest.Run(t, lock) })
		}
	}
}

// If Redis does not answer, a wait and an Unlock still return within their time limits.
func TestSilentRedis(t *testing.T) {
	backendtest.Need(t, "redis-server")
	for _, lib := range all() {
		t.Run(lib.name, func(t *testing.T) {
			t.Parallel()
			server := backendtest.RestartableRedis(t)
			s := stage{lib, backendtest.DialRedis(t, server.URL), key, nil}
			s.new = lib.open(t, s.rdb, 10*time.Minute)
			a, b := s.mutex(), s.new(s.key+":other")
			mustLock(t, a)
			backendtest.Must(t, server.Pause())
			late := errors.New("too late")
			wait, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, late)
			defer cancel()
			start := time.Now()
			if err := ended(t, waiting(wait, b)); err != late {
				t.Errorf("the wait ended with %v; want %v", err, late)
			}
			if err := a.Unlock(t.Context()); err == nil || errors.Is(err, ErrNotHeld) {
				t.Errorf("Unlock = %v; want an error of a silent Redis", err)
			}
			if took := time.Since(start); took > unlockTimeout+backendtest.Slack {
				t.Errorf("it took %v", took)
			}
			backendtest.Must(t, server.Continue())
		})
	}
}
