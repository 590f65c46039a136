package cache_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"oversell/internal/backend/backendtest"
	"oversell/internal/cache"
	"oversell/internal/catalog"
	"oversell/internal/guard"
)

func TestMain(m *testing.M) {
	logging.Disable() // go-redis also returns the errors that it would print
	goleak.VerifyTestMain(m)
}

var names atomic.Int64

// newName returns a unique name.
func newName() string { return fmt.Sprintf("value-%d", names.Add(1)) }

// instance returns a new reader with the guards of all strategies.
func instance(t *testing.T, rdb redis.UniversalClient, name string, adjust func(*cache.Config)) *cache.Reader {
	t.Helper()
	o := catalog.Options{Redis: rdb, TTL: time.Minute, Policy: &guard.Line{Delay: time.Millisecond}}
	cfg := cache.Config{Redis: rdb, Instance: name, Wait: time.Minute, Guards: strategies().Guards(o)}
	if adjust != nil {
		adjust(&cfg)
	}
	r := cache.New(cfg)
	t.Cleanup(r.Close)
	return r
}

var owners atomic.Int64

func newOwner() string { return fmt.Sprint("reader-", owners.Add(1)) }

func ask(key, strategy string) cache.Request {
	return cache.Request{Key: key, Strategy: strategy, Owner: newOwner()}
}

// source provides the values. If before is not nil, each load calls it.
type source struct {
	value  []byte
	loads  atomic.Int64
	before func()
}

func (s *source) load(context.Context) ([]byte, bool, error) {
	s.loads.Add(1)
	if s.before != nil {
		s.before()
	}
	return s.value, s.value != nil, nil
}

// rush starts n concurrent readers of a cold key, spread over the instances.
func rush(t *testing.T, n int, req cache.Request, src *source, instances ...*cache.Reader) {
	t.Helper()
	var all sync.WaitGroup
	for i := range n {
		r := req
		r.Owner = newOwner()
		all.Go(func() {
			res, err := instances[i%len(instances)].Read(t.Context(), r, src.load)
			if err != nil || string(res.Value) != string(src.value) || res.Found != (src.value != nil) {
				t.Errorf("read %q, found %v, %v", res.Value, res.Found, err)
			}
		})
	}
	all.Wait()
}

func TestColdKeyIsLoadedOnce(t *testing.T) {
	backendtest.EachRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		a, b := instance(t, rdb, "a", nil), instance(t, rdb, "b", nil)
		for _, strategy := range strategies().Names() {
			if !strings.HasPrefix(strategy, "v") {
				continue
			}
			t.Run(strategy, func(t *testing.T) {
				src, key := source{value: []byte("v")}, newName()
				rush(t, 100, ask(key, strategy), &src, a, b)
				if n := src.loads.Load(); n != 1 {
					t.Errorf("100 readers of 2 instances loaded %d times, want once", n)
				}
			})
		}
	})
}

func TestLocalLoadsOnceAnInstance(t *testing.T) {
	backendtest.EachRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		a, b := instance(t, rdb, "a", nil), instance(t, rdb, "b", nil)
		key := newName()
		var loading sync.WaitGroup
		loading.Add(2)
		src := source{value: []byte("v"), before: func() { loading.Done(); loading.Wait() }}
		rush(t, 100, ask(key, "local"), &src, a, b)
		got, err := b.Loads(t.Context(), key)
		if want := map[string]int64{"a": 1, "b": 1}; err != nil || !maps.Equal(got, want) {
			t.Errorf("loads %v, %v; want %v", got, err, want)
		}
	})
}

func TestWithoutAGuardEveryMissLoads(t *testing.T) {
	const readers = 20
	backendtest.EachRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		key := newName()
		var missed sync.WaitGroup
		missed.Add(readers)
		src := source{value: []byte("v"), before: func() { missed.Done(); missed.Wait() }}
		rush(t, readers, ask(key, "none"), &src, instance(t, rdb, "a", nil))
		if n := src.loads.Load(); n != readers {
			t.Errorf("%d readers at once loaded %d times, want each", readers, n)
		}
	})
}

// Without the second look at the cache, every reader that waited loads the value again.
// TestColdKeyIsLoadedOnce shows that with it only one does.
func TestSecondLookIsWorthIt(t *testing.T) {
	const readers = 20
	backendtest.EachRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		for _, strategy := range []string{"local", "v1_setnx", "v6_watchdog"} {
			key := newName()
			var missed sync.WaitGroup
			missed.Add(readers)
			// The first load ends when all readers have seen that the cache is empty.
			src := source{value: []byte("v"), before: sync.OnceFunc(missed.Wait)}
			counting := instance(t, rdb, "a", func(cfg *cache.Config) {
				cfg.Guards = map[string]guard.Guard{strategy: &announcing{cfg.Guards[strategy], missed.Done}}
			})
			req := ask(key, strategy)
			req.NoSecondLook = true
			rush(t, readers, req, &src, counting)
			if n := src.loads.Load(); n != readers {
				t.Errorf("%s without the second look: %d loads, want %d", strategy, n, readers)
			}
		}
	})
}

// announcing is a guard that calls asked at the beginning of each Do.
type announcing struct {
	guard.Guard
	asked func()
}

func (a *announcing) Do(ctx context.Context, e guard.Entry, section func(context.Context) error) (guard.Stats, error) {
	a.asked()
	return a.Guard.Do(ctx, e, section)
}

func TestWarmKeyNeedsNoGuard(t *testing.T) {
	backendtest.EachRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		r, key := instance(t, rdb, "a", nil), newName()
		src := source{value: []byte("v")}
		first, err := r.Read(t.Context(), ask(key, "v4_lua"), src.load)
		if err != nil || !first.Loaded || len(first.Spans) != 1 {
			t.Errorf("cold: loaded %v, %d spans, %v; want one load under the guard",
				first.Loaded, len(first.Spans), err)
		}
		again, err := r.Read(t.Context(), ask(key, "v4_lua"), src.load)
		if err != nil || again.Loaded || len(again.Spans) != 0 || string(again.Value) != "v" {
			t.Errorf("warm: %q, loaded %v, %d spans, %v; want the value alone",
				again.Value, again.Loaded, len(again.Spans), err)
		}
	})
}

func TestWhatDoesNotExistIsNotLoadedAgain(t *testing.T) {
	backendtest.EachRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		r, key := instance(t, rdb, "a", nil), newName()
		var src source // a source without a value
		for range 3 {
			rush(t, 10, ask(key, "v5_reentrant"), &src, r)
		}
		if n := src.loads.Load(); n != 1 {
			t.Errorf("30 readers of nothing loaded %d times, want once", n)
		}
		ttl := rdb.PTTL(t.Context(), "oversell:{cache:"+key+"}:value").Val()
		if ttl <= 0 || ttl > 10*time.Second {
			t.Errorf("the marker stays for %v, want 10s at most", ttl)
		}
	})
}

func TestForgetAndDelete(t *testing.T) {
	backendtest.EachRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		r, key := instance(t, rdb, "a", nil), newName()
		src := source{value: []byte("old")}
		rush(t, 1, ask(key, "v1_setnx"), &src, r)
		if err := r.Forget(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		src.value = []byte("new")
		rush(t, 1, ask(key, "v1_setnx"), &src, r)
		if got, err := r.Loads(t.Context(), key); err != nil || got["a"] != 2 {
			t.Errorf("loads %v, %v; want 2", got, err)
		}
		if err := r.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		if keys := rdb.Keys(t.Context(), "*"+key+"*").Val(); len(keys) != 0 {
			t.Errorf("Redis still has %v", keys)
		}
		if got, err := r.Loads(t.Context(), key); err != nil || len(got) != 0 {
			t.Errorf("loads %v, %v; want none", got, err)
		}
	})
}

// If the value is changed during a load that has read the old value, the old value is not stored:
// otherwise it would stay in the cache for the whole TTL.
func TestChangeDuringALoadIsNotUndone(t *testing.T) {
	for name, announce := range map[string]func(*cache.Reader, context.Context, string) error{
		"forget": (*cache.Reader).Forget, "delete": (*cache.Reader).Delete,
	} {
		for _, old := range []string{"old", ""} { // "" means that there was no value
			for _, reloaded := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/old %q/reloaded %v", name, old, reloaded), func(t *testing.T) {
					backendtest.EachRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
						checkChangeDuringALoad(t, rdb, old, announce, reloaded)
					})
				})
			}
		}
	}
}

func checkChangeDuringALoad(
	t *testing.T, rdb redis.UniversalClient, old string, announce func(*cache.Reader, context.Context, string) error,
	reloaded bool,
) {
	t.Helper()
	a, b, key := instance(t, rdb, "a", nil), instance(t, rdb, "b", nil), newName()
	src := source{value: []byte("new")}
	rushIn := func() { rush(t, 1, ask(key, "none"), &src, b) }
	res, err := a.Read(t.Context(), ask(key, "v6_watchdog"), func(ctx context.Context) ([]byte, bool, error) {
		// The value changes after the source has answered and before the reply reaches the cache.
		if err := announce(b, ctx, key); err != nil {
			t.Error(err)
		}
		if reloaded {
			rushIn()
		}
		return []byte(old), old != "", nil
	})
	if err != nil || string(res.Value) != old {
		t.Errorf("the slow reader has %q, %v; want what it loaded", res.Value, err)
	}
	rushIn()
	rushIn()
	if n := src.loads.Load(); n != 1 {
		t.Errorf("%d loads after the change, want one that is stored", n)
	}
}

// Anybody can make up names. Redis stores only a limited number of them at a time, each as a small marker
// that expires after ten seconds.
func TestWhatDoesNotExistFillsNothing(t *testing.T) {
	const names, most = 500, 100
	backendtest.EachRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		r := instance(t, rdb, "a", nil)
		r.LimitMisses(most)
		prefix, src := newName()+"-flood", source{}
		var all sync.WaitGroup
		for worker := range 16 {
			all.Go(func() {
				for i := worker; i < names; i += 16 {
					res, err := r.Read(t.Context(), ask(fmt.Sprint(prefix, i), "v6_watchdog"), src.load)
					if err != nil || res.Found {
						t.Errorf("reading %d: found %v, %v", i, res.Found, err)
					}
				}
			})
		}
		all.Wait()
		keys := rdb.Keys(t.Context(), "*"+prefix+"*").Val()
		if len(keys) == 0 || len(keys) > most {
			t.Errorf("%d unknown names left %d keys, want %d at most", names, len(keys), most)
		}
		for _, key := range keys {
			if ttl := rdb.PTTL(t.Context(), key).Val(); !strings.HasSuffix(key, ":value") || ttl > 10*time.Second ||
				ttl == -1 {
				t.Errorf("%s stays for %v", key, ttl)
				break
			}
		}
		if n := src.loads.Load(); n != names {
			t.Errorf("%d names were looked for %d times, want each once", names, n)
		}
	})
}

// never is a guard that is never acquired.
type never struct{}

func (never) Do(ctx context.Context, _ guard.Entry, _ func(context.Context) error) (guard.Stats, error) {
	<-ctx.Done()
	return guard.Stats{}, context.Cause(ctx)
}

func withNever(cfg *cache.Config) { cfg.Guards = map[string]guard.Guard{"never": never{}} }

func TestWaitIsBounded(t *testing.T) {
	rdb := backendtest.DialRedis(t, backendtest.Redis(t, "embedded"))
	r := instance(t, rdb, "a", func(cfg *cache.Config) { withNever(cfg); cfg.Wait = 20 * time.Millisecond })
	for _, leftOut := range []bool{false, true} {
		req := ask(newName(), "never")
		req.NoSecondLook = leftOut
		if _, err := r.Read(t.Context(), req, nil); !errors.Is(err, cache.ErrBusy) {
			t.Errorf("got %v, want %v", err, cache.ErrBusy)
		}
	}
}

// The wait ends when the reader enters. An error after that is its own, although the time for the wait has passed.
func TestErrorUnderTheLockIsReturned(t *testing.T) {
	rdb := backendtest.DialRedis(t, backendtest.Redis(t, "embedded"))
	broken := errors.New("broken")
	r := instance(t, rdb, "a", func(cfg *cache.Config) {
		cfg.Wait = time.Millisecond
		cfg.Work = func(context.Context, string) (func(), error) {
			time.Sleep(20 * cfg.Wait)
			return nil, broken
		}
	})
	if _, err := r.Read(t.Context(), ask(newName(), "none"), nil); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
}

func TestWaitersAreServedOnceTheValueIsThere(t *testing.T) {
	backendtest.EachRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		key, src := newName(), source{value: []byte("v")}
		elsewhere := instance(t, rdb, "b", nil)
		r := instance(t, rdb, "a", func(cfg *cache.Config) {
			cfg.Guards = map[string]guard.Guard{"never": &announcing{never{}, func() {
				if _, err := elsewhere.Read(t.Context(), ask(key, "none"), src.load); err != nil {
					t.Error(err)
				}
			}}}
		})
		res, err := r.Read(t.Context(), ask(key, "never"), src.load)
		if err != nil || string(res.Value) != "v" || res.Loaded {
			t.Errorf("read %q, loaded %v, %v; want what the other instance has stored", res.Value, res.Loaded, err)
		}
	})
}

func TestCloseEndsTheWaits(t *testing.T) {
	rdb := backendtest.DialRedis(t, backendtest.Redis(t, "embedded"))
	r := instance(t, rdb, "a", withNever)
	time.AfterFunc(20*time.Millisecond, r.Close)
	for range 2 { // the second read comes after Close
		if _, err := r.Read(t.Context(), ask(newName(), "never"), nil); !errors.Is(err, cache.ErrClosing) {
			t.Errorf("got %v, want %v", err, cache.ErrClosing)
		}
	}
}

// If a load fails, the readers that wait for it on all instances get its error, and none of them
// loads again. The next reader loads. In this test the load fails when all readers have asked, and, if
// the guard does not exclude other instances, when these are loading, too.
func TestWaitersShareAFailedLoad(t *testing.T) {
	const readers = 40
	broken := errors.New("the database is away")
	backendtest.EachRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		wants := map[string]int64{"local": 2, "v1_setnx": 1, "v6_watchdog": 1, "v7_queue": 1, "v9_cohort": 1}
		for strategy, want := range wants {
			for range 2 { // in the second round there has already been a failure
				key := "failing-" + strategy
				var waiting sync.WaitGroup
				waiting.Add(readers + int(want))
				counting := func(cfg *cache.Config) {
					cfg.Guards = map[string]guard.Guard{strategy: &announcing{cfg.Guards[strategy], waiting.Done}}
				}
				a, b := instance(t, rdb, "a", counting), instance(t, rdb, "b", counting)
				var loads atomic.Int64
				var all sync.WaitGroup
				for i := range readers {
					all.Go(func() {
						_, err := []*cache.Reader{a, b}[i%2].Read(t.Context(), ask(key, strategy),
							func(context.Context) ([]byte, bool, error) {
								if loads.Add(1) <= want {
									waiting.Done()
								}
								waiting.Wait()
								return nil, false, broken
							})
						if err == nil || !strings.Contains(err.Error(), broken.Error()) ||
							errors.Is(err, cache.ErrBusy) {
							t.Errorf("%s: got %v, want %v", strategy, err, broken)
						}
					})
				}
				all.Wait()
				if n := loads.Load(); n != want {
					t.Errorf("%s: %d readers of 2 instances loaded %d times, want %d", strategy, readers, n, want)
				}
			}
			src := source{value: []byte("v")}
			rush(t, 1, ask("failing-"+strategy, strategy), &src, instance(t, rdb, "a", nil))
			if n := src.loads.Load(); n != 1 {
				t.Errorf("%s: the next reader loaded %d times, want once", strategy, n)
			}
		}
	})
}

func TestWorkIsDoneAroundTheLoad(t *testing.T) {
	backendtest.EachRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		key := newName()
		stored := func() int64 { return rdb.Exists(t.Context(), "oversell:{cache:"+key+"}:value").Val() }
		var src source
		r := instance(t, rdb, "a", func(cfg *cache.Config) {
			cfg.Work = func(context.Context, string) (func(), error) {
				if src.loads.Load() != 0 {
					t.Error("the work was done after the load")
				}
				return func() {
					if stored() != 1 {
						t.Error("what comes after was done before the value was stored")
					}
				}, nil
			}
		})
		src.value = []byte("v")
		rush(t, 1, ask(key, "v6_watchdog"), &src, r)
	})
}

// strategies returns the strategies that need only Redis and a database.
func strategies() catalog.List { return catalog.Strategies().With(catalog.Options{}) }
