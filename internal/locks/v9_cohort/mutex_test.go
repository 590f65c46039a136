package lock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"oversell/internal/backend/backendtest"
	"oversell/internal/locks/locktest"
)

const ttl = 3 * time.Second

// A hold that a test leaves behind would be renewed on and on.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		mu.Lock()
		if code == 0 && len(cohorts) > 0 {
			fmt.Println("left behind:", cohorts)
			code = 1
		}
		os.Exit(code)
	}))
}

// processes returns n clients of one server, one for each of n processes.
func processes(t *testing.T, s *locktest.Server, n int) (all []redis.UniversalClient, hooks []*locktest.Hook) {
	t.Helper()
	for range n {
		rdb, hook := s.NewClient()
		t.Cleanup(func() {
			if err := rdb.Close(); err != nil {
				t.Error(err)
			}
		})
		all, hooks = append(all, rdb), append(hooks, hook)
	}
	return all, hooks
}

// bubble runs f in virtual time, with n processes.
func bubble(t *testing.T, n int, f func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, hooks []*locktest.Hook)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := locktest.StartTicking(t)
		rdb, hooks := processes(t, s, n)
		f(t, s, rdb, hooks)
		// Nothing runs after the last Unlock, and only keys with an expiry are left.
		time.Sleep(5 * ttl)
		synctest.Wait()
		if keys := s.Keys(); len(keys) > 0 {
			t.Errorf("left in Redis: %v", keys)
		}
	})
}

func TestExclusive(t *testing.T) {
	for _, kind := range backendtest.Kinds() {
		t.Run(kind, func(t *testing.T) {
			url, key := backendtest.Redis(t, kind), locktest.Key(t)
			var witness locktest.Witness
			var last atomic.Int64
			var wg sync.WaitGroup
			for p := range 3 {
				rdb := backendtest.DialRedis(t, url)
				for i := range 100 {
					wg.Go(func() {
						who := fmt.Sprintf("process %d holder %d", p, i)
						m := New(rdb, key, ttl)
						for range 3 {
							if err := m.Lock(as(t, who)); err != nil {
								t.Error(err)
								return
							}
							leave := witness.Enter(who)
							if token := m.Token(); last.Swap(token) >= token {
								t.Errorf("%s has no larger token than the one before", who)
							}
							leave()
							unlock(t, as(t, who), m)
						}
					})
				}
			}
			wg.Wait()
			for _, overlap := range witness.Overlaps() {
				t.Error(overlap)
			}
		})
	}
}

// order records the order in which waiters hold the lock.
type order struct {
	mu  sync.Mutex
	who []string
	all sync.WaitGroup
}

// wait starts a waiter that records its turn and releases the lock.
func (o *order) wait(t *testing.T, rdb redis.UniversalClient, key, who, note string) {
	o.all.Go(func() {
		m := New(rdb, key, ttl)
		if err := m.Lock(as(t, who)); err != nil {
			t.Error(err)
			return
		}
		o.mu.Lock()
		o.who = append(o.who, note)
		o.mu.Unlock()
		unlock(t, as(t, who), m)
	})
	synctest.Wait() // it is in the queue
}

func TestFIFO(t *testing.T) {
	bubble(t, 4, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, _ []*locktest.Hook) {
		key := locktest.Key(t)
		a := New(rdb[0], key, ttl)
		mustLock(t, as(t, "a"), a)
		var o order
		var want []string
		for i := range 3 { // each is the first of its process
			who := fmt.Sprint("process ", i+1)
			want = append(want, who)
			o.wait(t, rdb[i+1], key, who, who)
		}
		unlock(t, as(t, "a"), a)
		o.all.Wait()
		if !slices.Equal(o.who, want) {
			t.Errorf("served %v, want %v", o.who, want)
		}
	})
}

func TestFIFOInAProcess(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, hooks []*locktest.Hook) {
		key := locktest.Key(t)
		a := New(rdb[0], key, ttl)
		mustLock(t, as(t, "a"), a)
		sent := hooks[0].Count(locktest.Any)
		var o order
		var want []string
		for i := range maxPasses {
			who := fmt.Sprint("waiter ", i)
			want = append(want, who)
			o.wait(t, rdb[0], key, who, who)
		}
		unlock(t, as(t, "a"), a)
		o.all.Wait()
		if !slices.Equal(o.who, want) {
			t.Errorf("served %v, want %v", o.who, want)
		}
		if n := sent.Hits(); n != 1 {
			t.Errorf("%d commands for %d turns in one process, want the last Unlock's", n, maxPasses)
		}
	})
}

// However many waiters one process has, the others get their turn after maxPasses.
func TestProcessesTakeTurns(t *testing.T) {
	bubble(t, 3, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, _ []*locktest.Hook) {
		key := locktest.Key(t)
		a := New(rdb[0], key, ttl)
		mustLock(t, as(t, "a"), a)
		var o order
		for p, client := range rdb {
			for i := range 3 * (maxPasses + 1) {
				o.wait(t, client, key, fmt.Sprint(p, i), fmt.Sprint(p))
			}
		}
		unlock(t, as(t, "a"), a)
		o.all.Wait()
		longest, run := 0, 0
		for i, who := range o.who {
			if run++; i > 0 && who != o.who[i-1] {
				run = 1
			}
			// At the end nobody else waits.
			if i < len(o.who)-2*(maxPasses+1) {
				longest = max(longest, run)
			}
		}
		if longest > maxPasses+1 {
			t.Errorf("%d turns in a row in one process, want at most %d", longest, maxPasses+1)
		}
		if len(o.who) != 9*(maxPasses+1) {
			t.Errorf("%d served, want %d", len(o.who), 9*(maxPasses+1))
		}
	})
}

func TestCancelLeavesNothing(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, _ []*locktest.Hook) {
		key := locktest.Key(t)
		a, b := New(rdb[0], key, ttl), New(rdb[1], key, ttl)
		mustLock(t, as(t, "a"), a)
		errEnough := errors.New("enough")
		const patience = 5500 * time.Millisecond // between two heartbeats
		wait, cancel := context.WithTimeoutCause(as(t, "b"), patience, errEnough)
		defer cancel()
		start := time.Now()
		if err := b.Lock(wait); !errors.Is(err, errEnough) || time.Since(start) != patience {
			t.Errorf("Lock = %v after %v; want %v after %v", err, time.Since(start), errEnough, patience)
		}
		synctest.Wait()
		for _, k := range s.Keys() {
			if k != key && k != key+":token" && s.TTL(k) > ttl {
				t.Errorf("%s is left behind", k)
			}
		}
		if queue, _ := s.List(key + ":queue"); len(queue) > 0 {
			t.Errorf("the queue holds %v", queue)
		}
		unlock(t, as(t, "a"), a)
		if s.Exists(key) {
			t.Error("the lock was handed to a waiter that has left")
		}
	})
}

// A waiter of the same process may take over the place of one that has left.
func TestCancelOfOneOfMany(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, _ []*locktest.Hook) {
		key := locktest.Key(t)
		a := New(rdb[0], key, ttl)
		mustLock(t, as(t, "a"), a)
		wait, cancel := context.WithCancel(as(t, "b"))
		gone := make(chan error, 1)
		go func() { gone <- New(rdb[1], key, ttl).Lock(wait) }()
		synctest.Wait()
		var o order
		o.wait(t, rdb[1], key, "c", "c")
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("Lock = %v; want %v", err, context.Canceled)
		}
		start := time.Now()
		unlock(t, as(t, "a"), a)
		o.all.Wait()
		if waited := time.Since(start); waited != 0 || len(o.who) != 1 {
			t.Errorf("%v served after %v, want c at once", o.who, waited)
		}
	})
}

// served locks m and returns how long that took.
func served(t *testing.T, m *Mutex, who string) time.Duration {
	t.Helper()
	start := time.Now()
	if err := m.Lock(as(t, who)); err != nil {
		t.Fatal(err)
	}
	return time.Since(start)
}

func TestDeadHolderExpires(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, _ []*locktest.Hook) {
		key := locktest.Key(t)
		a, b := New(rdb[0], key, ttl), New(rdb[1], key, ttl)
		mustLock(t, as(t, "a"), a)
		die(a)
		if waited := served(t, b, "b"); waited < ttl-time.Second || waited > ttl+ttl/3 {
			t.Errorf("waited %v, want the ttl of %v and a third at most", waited, ttl)
		}
		unlock(t, as(t, "b"), b)
	})
}

// A dead waiter may be handed the lock, but does not take it.
func TestDeadWaiterIsSkipped(t *testing.T) {
	for _, dead := range []int{1, 5} {
		bubble(t, 2, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, _ []*locktest.Hook) {
			key := locktest.Key(t)
			a, b := New(rdb[0], key, ttl), New(rdb[1], key, ttl)
			mustLock(t, as(t, "a"), a)
			for range dead {
				c := &cohort{location: a.at}
				if token, err := c.request(t.Context(), newTicket(), ttl, 1); token != 0 || err != nil {
					t.Fatal(token, err)
				}
			}
			time.AfterFunc(time.Millisecond, func() { unlock(t, as(t, "a"), a) })
			if waited := served(t, b, "b"); waited < ttl/2 || waited > 2*ttl {
				t.Errorf("after %d dead waiters: waited %v, want at most %v", dead, waited, 2*ttl)
			}
			unlock(t, as(t, "b"), b)
		})
	}
}

func TestLostWakeUp(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, hooks []*locktest.Hook) {
		key := locktest.Key(t)
		a, b := New(rdb[0], key, ttl), New(rdb[1], key, ttl)
		mustLock(t, as(t, "a"), a)
		hooks[1].On(locktest.Command("blpop"), 1, locktest.LoseReply(locktest.ErrCut))
		time.AfterFunc(time.Millisecond, func() { unlock(t, as(t, "a"), a) })
		if waited := served(t, b, "b"); waited > ttl/3 {
			t.Errorf("waited %v, want at most a third of the ttl", waited)
		}
		unlock(t, as(t, "b"), b)
	})
}

// A waiter gets an error when Redis is unavailable; none hangs.
func TestRedisAwayIsAnError(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, hooks []*locktest.Hook) {
		key := locktest.Key(t)
		a := New(rdb[0], key, ttl)
		mustLock(t, as(t, "a"), a)
		errs := make(chan error, 3)
		for i := range 3 {
			go func() { errs <- New(rdb[1], key, ttl).Lock(as(t, fmt.Sprint("b", i))) }()
		}
		synctest.Wait()
		hooks[1].On(locktest.Any, -1, locktest.Fail(locktest.ErrCut))
		for range 3 {
			if err := <-errs; !errors.Is(err, locktest.ErrCut) {
				t.Errorf("Lock = %v; want %v", err, locktest.ErrCut)
			}
		}
		unlock(t, as(t, "a"), a)
	})
}

func TestUnlockAfterCancel(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, _ []*locktest.Hook) {
		key := locktest.Key(t)
		a, b := New(rdb[0], key, ttl), New(rdb[1], key, ttl)
		ctx, cancel := context.WithCancel(as(t, "a"))
		mustLock(t, ctx, a)
		cancel()
		unlock(t, ctx, a)
		mustLock(t, as(t, "b"), b)
		unlock(t, as(t, "b"), b)
	})
}

func TestReentrant(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, _ []*locktest.Hook) {
		key := locktest.Key(t)
		outer, inner, b := New(rdb[0], key, ttl), New(rdb[0], key, ttl), New(rdb[1], key, ttl)
		mustLock(t, as(t, "a"), outer)
		if err := inner.Lock(as(t, "a")); err != nil {
			t.Fatal(err)
		}
		mustNotBeHeld(t, as(t, "b"), inner) // the owner counts, not the Mutex
		unlock(t, as(t, "a"), inner)
		mustNotLock(t, as(t, "b"), b)
		unlock(t, as(t, "a"), outer)
		mustNotBeHeld(t, as(t, "a"), outer)
		mustLock(t, as(t, "b"), b)
		unlock(t, as(t, "b"), b)
	})
}

func TestLostReplyCountsOnce(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, hooks []*locktest.Hook) {
		key := locktest.Key(t)
		a, b := New(rdb[0], key, ttl), New(rdb[1], key, ttl)
		hooks[0].On(locktest.Script(lockSource), 1, locktest.LoseReply(locktest.ErrCut))
		if ok, err := a.TryLock(as(t, "a")); ok || !errors.Is(err, locktest.ErrCut) {
			t.Errorf("TryLock = %v, %v; want false, %v", ok, err, locktest.ErrCut)
		}
		synctest.Wait() // it is released
		mustLock(t, as(t, "a"), a)
		unlock(t, as(t, "a"), a)
		mustLock(t, as(t, "b"), b)
		unlock(t, as(t, "b"), b)
	})
}

func TestLongWorkKeepsLock(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, _ []*locktest.Hook) {
		key := locktest.Key(t)
		a, b := New(rdb[0], key, ttl), New(rdb[1], key, ttl)
		mustLock(t, as(t, "a"), a)
		ctx := a.Context(t.Context())
		for range 100 {
			time.Sleep(ttl/3 + time.Millisecond)
			mustNotLock(t, as(t, "b"), b)
		}
		if ctx.Err() != nil || a.Renewals() != 100 {
			t.Errorf("the context: %v; %d renewals, want 100", context.Cause(ctx), a.Renewals())
		}
		unlock(t, as(t, "a"), a)
		if err := context.Cause(ctx); err != context.Canceled {
			t.Errorf("the context's cause is %v; want %v", err, context.Canceled)
		}
	})
}

func TestLossIsTold(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, hooks []*locktest.Hook) {
		for name, lose := range map[string]func(key string){
			"key deleted": func(key string) { s.Del(key) },
			"Redis away":  func(string) { hooks[0].On(locktest.Script(renewSource), -1, locktest.Fail(locktest.ErrCut)) },
		} {
			key := locktest.Key(t)
			a := New(rdb[0], key, ttl)
			mustLock(t, as(t, "a"), a)
			ctx := a.Context(t.Context())
			start := time.Now()
			lose(key)
			<-ctx.Done()
			if err, took := context.Cause(ctx), time.Since(start); !errors.Is(err, ErrLost) || took > ttl {
				t.Errorf("%s: told of %v after %v; want %v within %v", name, err, took, ErrLost, ttl)
			}
			if err := New(rdb[0], key, ttl).Lock(as(t, "a")); !errors.Is(err, ErrLost) {
				t.Errorf("%s: a re-entry gets %v; want %v", name, err, ErrLost)
			}
			mustNotBeHeld(t, as(t, "a"), a)
		}
	})
}

// resource is what the lock guards. It remembers the largest token it has seen and,
// if it checks, refuses smaller ones.
type resource struct {
	checks bool
	last   int64
	wrote  []string
}

// use reports whether who is accepted with the token.
func (r *resource) use(token int64, who string) bool {
	if r.checks && token < r.last {
		return false
	}
	r.last = max(r.last, token)
	r.wrote = append(r.wrote, who)
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
			res.use(b.Token(), "b")
			if ctx.Err() != nil {
				t.Error("the context has ended:", context.Cause(ctx))
			}
			if late := res.use(a.Token(), "a"); late == checks {
				t.Errorf("with checks %v the late holder is let in: %v", checks, late)
			}
			if !res.use(b.Token(), "b") {
				t.Error("the holder is refused")
			}
			<-ctx.Done() // at its next renewal, which comes too late
			mustNotBeHeld(t, as(t, "a"), a)
			unlock(t, as(t, "b"), b)
		})
	}
}

// A later holder has a larger token: in the same process, where the lock is handed on,
// and in another.
func TestTokenGrows(t *testing.T) {
	bubble(t, 3, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, _ []*locktest.Hook) {
		key := locktest.Key(t)
		var mu sync.Mutex
		var last int64
		var all sync.WaitGroup
		for p, client := range rdb {
			for i := range 3 * maxPasses {
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

// A process hands the lock on among its waiters without asking Redis. Even while the
// server's clock stands still, the next process gets a larger token.
func TestTokenGrowsWhileTheClockStandsStill(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, _ []*locktest.Hook) {
		key := locktest.Key(t)
		s.SetTime(time.Now())
		first, second := New(rdb[0], key, ttl), New(rdb[0], key, ttl)
		mustLock(t, as(t, "first"), first)
		passed := make(chan error)
		go func() { passed <- second.Lock(as(t, "second")) }()
		synctest.Wait()
		unlock(t, as(t, "first"), first)
		if err := <-passed; err != nil {
			t.Fatal(err)
		}
		last := second.Token()
		unlock(t, as(t, "second"), second)
		if last <= first.Token() {
			t.Errorf("in a process: token %d after %d", last, first.Token())
		}
		next := take(t, rdb[1], key)
		s.SetTime(time.Time{}) // the clock goes on
		if next <= last {
			t.Errorf("in the next process: token %d after %d", next, last)
		}
	})
}

// The last token is remembered for as long as the lock is held, plus twice the ttl.
func TestTokenIsRememberedWhileHeld(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, _ []*locktest.Hook) {
		a := New(rdb[0], locktest.Key(t), ttl)
		mustLock(t, as(t, "a"), a)
		time.Sleep(10 * ttl)
		if left := s.TTL(a.at.keys()[3]); left < ttl {
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
		mustLock(t, as(t, "a"), inner)
		if outer.Token() != inner.Token() || outer.Token() == 0 {
			t.Errorf("tokens %d and %d of one hold", outer.Token(), inner.Token())
		}
		unlock(t, as(t, "a"), inner)
		unlock(t, as(t, "a"), outer)
	})
}

// A flaw: if the clock goes back and the last token is forgotten, the next holder
// looks like a late one. It is refused, which is safe.
func TestClockThatGoesBackIsRefused(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, _ []*locktest.Hook) {
		key, res := locktest.Key(t), &resource{checks: true}
		res.use(take(t, rdb[0], key), "a")
		s.SetTime(time.Now().Add(-time.Minute))
		if !res.use(take(t, rdb[0], key), "b") {
			t.Error("refused though the last token was remembered")
		}
		s.FlushAll()
		if res.use(take(t, rdb[0], key), "c") {
			t.Error("let in with a token of a minute ago")
		}
		s.FlushAll()
	})
}

// A flaw: a lock that nobody unlocks is renewed for as long as the process lives.
func TestForgottenUnlock(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, _ []*locktest.Hook) {
		key := locktest.Key(t)
		a, b := New(rdb[0], key, ttl), New(rdb[1], key, ttl)
		mustLock(t, as(t, "a"), a) // and returns
		time.Sleep(100 * ttl)
		mustNotLock(t, as(t, "b"), b)
		unlock(t, as(t, "a"), a)
	})
}

// die ends the renewal of m's hold, as the death of its process does, and
// keeps the lock.
func die(m *Mutex) {
	mu.Lock()
	defer mu.Unlock()
	m.turn.hold.end(context.Canceled)
	delete(cohorts, m.at)
}

// as returns a context that locks as who.
func as(t *testing.T, who string) context.Context {
	return WithOwner(t.Context(), who)
}

func tryLock(t *testing.T, ctx context.Context, m *Mutex) bool {
	t.Helper()
	ok, err := m.TryLock(ctx)
	if err != nil {
		t.Error("TryLock:", err)
	}
	return ok
}

func mustLock(t *testing.T, ctx context.Context, m *Mutex) {
	t.Helper()
	if !tryLock(t, ctx, m) {
		t.Fatal("the lock is held, want it free")
	}
}

func mustNotLock(t *testing.T, ctx context.Context, m *Mutex) {
	t.Helper()
	if tryLock(t, ctx, m) {
		t.Fatal("the lock is free, want it held")
	}
}

func unlock(t *testing.T, ctx context.Context, m *Mutex) {
	t.Helper()
	if err := m.Unlock(ctx); err != nil {
		t.Error("Unlock:", err)
	}
}

func mustNotBeHeld(t *testing.T, ctx context.Context, m *Mutex) {
	t.Helper()
	if err := m.Unlock(ctx); !errors.Is(err, ErrNotHeld) {
		t.Errorf("Unlock = %v; want %v", err, ErrNotHeld)
	}
}
