package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"oversell/internal/backend/backendtest"
	"oversell/internal/locks/locktest"
)

// look is how long a waiter sleeps at most before it asks again.
const look = min(ttl/3, time.Second)

// bubble runs f in virtual time, with n processes. When it ends, nothing runs any more,
// and only keys with an expiry are left.
func bubble(t *testing.T, n int, f func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, hooks []*locktest.Hook)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := locktest.StartTicking(t)
		var all []redis.UniversalClient
		var hooks []*locktest.Hook
		for range n {
			rdb, hook := s.NewClient()
			t.Cleanup(func() {
				if err := rdb.Close(); err != nil {
					t.Error(err)
				}
			})
			all, hooks = append(all, rdb), append(hooks, hook)
		}
		f(t, s, all, hooks)
		time.Sleep(5 * ttl)
		synctest.Wait()
		if keys := s.Keys(); len(keys) > 0 {
			t.Errorf("left in Redis: %v", keys)
		}
	})
}

func TestWaitersAreExclusive(t *testing.T) {
	backendtest.EachRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		key := locktest.Key(t)
		var witness locktest.Witness
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				who := fmt.Sprint("waiter ", i)
				m := New(rdb, key, ttl)
				for range 20 {
					if err := m.Lock(as(t, who)); err != nil {
						t.Error(err)
						return
					}
					leave := witness.Enter(who)
					time.Sleep(100 * time.Microsecond)
					leave()
					unlock(t, as(t, who), m)
				}
			})
		}
		wg.Wait()
		for _, overlap := range witness.Overlaps() {
			t.Error(overlap)
		}
	})
}

// order records the order in which waiters hold the lock.
type order struct {
	mu  sync.Mutex
	who []string
	all sync.WaitGroup
}

// wait starts a waiter that records its turn, works and releases the lock.
func (o *order) wait(t *testing.T, rdb redis.UniversalClient, key, who string, work time.Duration) {
	o.all.Go(func() {
		m := New(rdb, key, ttl)
		if err := m.Lock(as(t, who)); err != nil {
			t.Error(err)
			return
		}
		o.mu.Lock()
		o.who = append(o.who, who)
		o.mu.Unlock()
		time.Sleep(work)
		unlock(t, as(t, who), m)
	})
	synctest.Wait() // it is in the queue
}

func TestFIFO(t *testing.T) {
	bubble(t, 3, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, _ []*locktest.Hook) {
		key := locktest.Key(t)
		a := New(rdb[0], key, ttl)
		mustLock(t, as(t, "a"), a)
		var o order
		var want []string
		for i := range 9 {
			who := fmt.Sprint("waiter ", i)
			want = append(want, who)
			o.wait(t, rdb[i%3], key, who, 0)
		}
		start := time.Now()
		unlock(t, as(t, "a"), a)
		o.all.Wait()
		if !slices.Equal(o.who, want) {
			t.Errorf("served %v, want %v", o.who, want)
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("handing the lock on took %v, want no time", took)
		}
	})
}

// A newcomer does not overtake the first waiter, even if it asks first after the
// holder's lease has expired.
func TestNewcomerDoesNotOvertake(t *testing.T) {
	bubble(t, 3, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, _ []*locktest.Hook) {
		key := locktest.Key(t)
		a, c := New(rdb[0], key, ttl), New(rdb[2], key, ttl)
		mustLock(t, as(t, "a"), a)
		die(t, as(t, "a"), a)
		time.Sleep(look / 2)
		var o order
		o.wait(t, rdb[1], key, "b", look)
		time.Sleep(ttl - look/2 + tick/2)
		mustNotLock(t, as(t, "c"), c)
		o.wait(t, rdb[2], key, "d", 0)
		o.all.Wait()
		if queue, _ := s.List(key + ":queue"); len(queue) > 0 {
			t.Errorf("the queue still has %v, which were served", queue)
		}
		if want := []string{"b", "d"}; !slices.Equal(o.who, want) {
			t.Errorf("served %v, want %v", o.who, want)
		}
	})
}

// A waiter that is handed the lock at once needs four commands, Unlock included. One
// that waits longer needs two more each time it asks again.
func TestWaitingTakesFewCommands(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, hooks []*locktest.Hook) {
		key := locktest.Key(t)
		a := New(rdb[0], key, ttl)
		mustLock(t, as(t, "a"), a)
		sent := hooks[1].Count(locktest.Any)
		var o order
		o.wait(t, rdb[1], key, "b", 0)
		unlock(t, as(t, "a"), a)
		o.all.Wait()
		mustLock(t, as(t, "a"), a)
		scripts := 3 // each is sent in full the first time
		if n := sent.Hits(); n > 4+scripts {
			t.Errorf("%d commands for one turn, want 4", n)
		}
		before := sent.Hits()
		o.wait(t, rdb[1], key, "b", 0)
		time.Sleep(10*look + tick)
		unlock(t, as(t, "a"), a)
		o.all.Wait()
		if n := sent.Hits() - before; n > 4+2*10 {
			t.Errorf("%d commands for a wait of ten looks, want 24", n)
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

// queueUp puts an owner into the queue that sends nothing after that.
func queueUp(t *testing.T, m *Mutex, who string) {
	t.Helper()
	if n, err := m.ask(t.Context(), who, 1); n > 0 || err != nil {
		t.Fatal(n, err)
	}
}

// Waiters that have died in the queue are skipped once their heartbeats have expired,
// by Unlock and by the next request.
func TestDeadWaiterIsSkipped(t *testing.T) {
	for _, unlocked := range []bool{true, false} {
		bubble(t, 2, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, _ []*locktest.Hook) {
			key := locktest.Key(t)
			a, b := New(rdb[0], key, ttl), New(rdb[1], key, ttl)
			mustLock(t, as(t, "a"), a)
			for i := range 3 {
				queueUp(t, a, fmt.Sprint("dead ", i))
			}
			time.Sleep(look / 2) // so that b asks half a look before and after their heartbeats expire
			var o order
			o.wait(t, rdb[1], key, "b", 0)
			time.Sleep(ttl - look/2)
			if unlocked {
				time.Sleep(look / 4)
				unlock(t, as(t, "a"), a)
			} else {
				die(t, as(t, "a"), a)
				s.Del(key)
			}
			start := time.Now()
			o.all.Wait()
			if waited := time.Since(start); waited > look || unlocked && waited > 0 {
				t.Errorf("unlocked %v: waited %v, want %v at most, and nothing after an Unlock", unlocked, waited, look)
			}
			mustLock(t, as(t, "b"), b)
			unlock(t, as(t, "b"), b)
		})
	}
}

// When a holder has died, and with it a waiter of its process, the next waiter gets the
// lock as soon as both have expired.
func TestDeadProcessIsSucceededAtOnce(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, _ []*locktest.Hook) {
		key := locktest.Key(t)
		a, b := New(rdb[0], key, ttl), New(rdb[1], key, ttl)
		mustLock(t, as(t, "a"), a)
		time.Sleep(look / 10)
		queueUp(t, a, "dead")
		die(t, as(t, "a"), a)
		time.Sleep(look / 10)
		if waited := served(t, b, "b"); waited > ttl-look/10+5*tick {
			t.Errorf("waited %v, want %v", waited, ttl-look/10)
		}
		unlock(t, as(t, "b"), b)
	})
}

// A lock that is handed to a dead waiter is free once the waiter's heartbeat has
// expired.
func TestDeadHeirLosesTheLock(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, _ []*locktest.Hook) {
		key := locktest.Key(t)
		a, b := New(rdb[0], key, ttl), New(rdb[1], key, ttl)
		mustLock(t, as(t, "a"), a)
		queueUp(t, a, "dead")
		time.Sleep(ttl / 2)
		unlock(t, as(t, "a"), a)
		mustNotLock(t, as(t, "b"), b)
		if waited := served(t, b, "b"); waited > ttl/2+look {
			t.Errorf("waited %v, want at most the rest of the dead waiter's heartbeat, %v, and a look", waited, ttl/2)
		}
		if queue, _ := s.List(key + ":queue"); len(queue) > 0 {
			t.Errorf("the queue still has %v, which has the lock", queue)
		}
		unlock(t, as(t, "b"), b)
	})
}

func TestCancelLeavesNothing(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, _ []*locktest.Hook) {
		key := locktest.Key(t)
		a, b := New(rdb[0], key, ttl), New(rdb[1], key, ttl)
		mustLock(t, as(t, "a"), a)
		errEnough := errors.New("enough")
		const patience = 5*look + look/2 // between two heartbeats
		wait, cancel := context.WithTimeoutCause(as(t, "b"), patience, errEnough)
		defer cancel()
		start := time.Now()
		if err := b.Lock(wait); !errors.Is(err, errEnough) || time.Since(start) != patience {
			t.Errorf("Lock = %v after %v; want %v after %v", err, time.Since(start), errEnough, patience)
		}
		synctest.Wait()
		mustBeFreeAfter(t, s, key, func() { unlock(t, as(t, "a"), a) })
		if err := b.Lock(wait); !errors.Is(err, errEnough) || s.Exists(key) {
			t.Errorf("Lock = %v after the wait is over; want %v, and nothing taken", err, errEnough)
		}
	})
}

// mustBeFreeAfter fails the test unless nobody is in the queue, and the lock is free
// after unlock.
func mustBeFreeAfter(t *testing.T, s *locktest.Server, key string, unlock func()) {
	t.Helper()
	queue, _ := s.List(key + ":queue")
	waiters, _ := s.HKeys(key + ":waiters")
	if len(queue) > 0 || len(waiters) > 0 {
		t.Errorf("the queue has %v, with heartbeats of %v", queue, waiters)
	}
	unlock()
	synctest.Wait()
	if s.Exists(key) {
		t.Error("the lock was handed to a waiter that has left")
	}
}

// A waiter that leaves while its request is in flight leaves nothing behind, whether the
// request or leave.lua reaches Redis first.
func TestCancelOnTheWayLeavesNothing(t *testing.T) {
	for name, where := range map[string]func(*locktest.Pause) locktest.Action{
		"before": func(p *locktest.Pause) locktest.Action { return p.Before },
		"after":  func(p *locktest.Pause) locktest.Action { return p.After },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 2, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, hooks []*locktest.Hook) {
				key := locktest.Key(t)
				a, b := New(rdb[0], key, ttl), New(rdb[1], key, ttl)
				mustLock(t, as(t, "a"), a)
				pause := locktest.NewPause()
				hooks[1].On(locktest.Script(lockSource), 1, where(pause))
				ctx, leave := context.WithCancel(as(t, "b"))
				gone := make(chan error, 1)
				go func() { gone <- b.Lock(ctx) }()
				<-pause.Parked()
				leave()
				synctest.Wait()
				pause.Release()
				if err := <-gone; !errors.Is(err, context.Canceled) {
					t.Errorf("Lock = %v; want %v", err, context.Canceled)
				}
				synctest.Wait()
				mustBeFreeAfter(t, s, key, func() { unlock(t, as(t, "a"), a) })
			})
		})
	}
}

// A holder and waiters that have all died leave nothing behind.
func TestDeadLeaveNothing(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, _ []*locktest.Hook) {
		a := New(rdb[0], locktest.Key(t), ttl)
		mustLock(t, as(t, "a"), a)
		queueUp(t, a, "dead")
		die(t, as(t, "a"), a) // and the bubble checks what is left
	})
}

// A waiter that leaves while it is handed the lock hands it on, past dead waiters.
func TestLeavingHeirHandsOn(t *testing.T) {
	bubble(t, 3, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, hooks []*locktest.Hook) {
		key := locktest.Key(t)
		a, b := New(rdb[0], key, ttl), New(rdb[1], key, ttl)
		mustLock(t, as(t, "a"), a)
		ctx, leave := context.WithCancel(as(t, "b"))
		gone := make(chan error, 1)
		go func() { gone <- b.Lock(ctx) }()
		synctest.Wait()
		queueUp(t, a, "dead")
		time.Sleep(look / 2) // so that c does not ask just as its heartbeat expires
		var o order
		o.wait(t, rdb[2], key, "c", 0)
		time.Sleep(ttl - look/4)
		pause := locktest.NewPause() // b is woken, and about to ask
		hooks[1].On(locktest.Script(lockSource), 1, pause.Before)
		start := time.Now()
		unlock(t, as(t, "a"), a)
		<-pause.Parked()
		leave()
		o.all.Wait()
		if waited := time.Since(start); waited != 0 {
			t.Errorf("c was served after %v, want at once", waited)
		}
		pause.Release()
		if err := <-gone; err == nil { // nobody has the lock, so b got it after all
			unlock(t, as(t, "b"), b)
		}
	})
}

// A waiter retries leaving while Redis does not answer. That takes no lock from an owner
// that has come back meanwhile.
func TestLateQuitTakesNoLock(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, hooks []*locktest.Hook) {
		key := locktest.Key(t)
		a, b, c := New(rdb[0], key, ttl), New(rdb[1], key, ttl), New(rdb[0], key, ttl)
		mustLock(t, as(t, "a"), a)
		hooks[1].On(locktest.Script(leaveSource), 4, locktest.Fail(locktest.ErrCut))
		ctx, cancel := context.WithTimeout(as(t, "b"), look/2)
		defer cancel()
		if err := b.Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Lock = %v; want %v", err, context.DeadlineExceeded)
		}
		time.Sleep(ttl / 4)
		mustBeFreeAfter(t, s, key, func() { unlock(t, as(t, "a"), a) })
		mustLock(t, as(t, "b"), b)
		b.quit("b")
		mustNotLock(t, as(t, "c"), c)
		unlock(t, as(t, "b"), b)
	})
}

// While Redis is unavailable most leaving waiters try once, and a limited number retry.
func TestTryingToLeaveIsBounded(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, hooks []*locktest.Hook) {
		m := New(rdb[0], locktest.Key(t), ttl)
		away := hooks[0].On(locktest.Any, -1, locktest.Fail(locktest.ErrCut))
		tries := func(owners int) int {
			before := away.Hits()
			for i := range owners {
				go m.quit(fmt.Sprint(i))
			}
			time.Sleep(2 * ttl)
			return away.Hits() - before
		}
		one, most := tries(1), cap(leaving)
		if n := tries(10 * most); one < 5 || n > 10*most+most*one {
			t.Errorf("%d attempts by %d leaving waiters, where one makes %d; want %d of them to retry", n, 10*most, one, most)
		}
		away.Off()
	})
}

// The message is taken from the list, and the connection breaks.
func TestLostWakeUp(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, hooks []*locktest.Hook) {
		const ttl = time.Second
		key := locktest.Key(t)
		a, b := New(rdb[0], key, ttl), New(rdb[1], key, ttl)
		mustLock(t, as(t, "a"), a)
		hooks[1].On(locktest.Command("blpop"), 1, locktest.LoseReply(locktest.ErrCut))
		time.AfterFunc(time.Millisecond, func() { unlock(t, as(t, "a"), a) })
		if waited := served(t, b, "b"); waited > ttl/3 {
			t.Errorf("waited %v, want at most a third of ttl", waited)
		}
		unlock(t, as(t, "b"), b)

		// Or nobody reads it, as its list is gone.
		mustLock(t, as(t, "a"), a)
		hooks[1].On(locktest.Command("blpop"), 1, func(_ context.Context, send func() error) error {
			unlock(t, as(t, "a"), a)
			s.Del(key + ":wake:b")
			return send()
		})
		if waited := served(t, b, "b"); waited > ttl/3 {
			t.Errorf("waited %v, want at most a third of ttl", waited)
		}
		unlock(t, as(t, "b"), b)
	})
}

// A waiter sends a heartbeat within each ttl, however short, and is in the queue only
// once.
func TestWaiterIsAlive(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, _ []*locktest.Hook) {
		const ttl = 300 * time.Millisecond
		key := locktest.Key(t)
		a, b := New(rdb[0], key, ttl), New(rdb[1], key, ttl)
		mustLock(t, as(t, "a"), a)
		done := make(chan error, 1)
		go func() { done <- b.Lock(as(t, "b")) }()
		for range 100 {
			time.Sleep(ttl / 10)
			if queue, _ := s.List(key + ":queue"); len(queue) != 1 {
				t.Fatalf("the queue has %v, want b once", queue)
			}
		}
		unlock(t, as(t, "a"), a)
		if err := <-done; err != nil {
			t.Error("Lock:", err)
		}
		unlock(t, as(t, "b"), b)
	})
}

// A waiter's lease begins when it acquires the lock, not when it queued up or was
// woken: nobody relies on a longer lease than Redis keeps.
func TestLeaseOfAWaiter(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, hooks []*locktest.Hook) {
		key := locktest.Key(t)
		a, b := New(rdb[0], key, ttl), New(rdb[1], key, ttl)
		mustLock(t, as(t, "a"), a)
		time.AfterFunc(ttl/2, func() { unlock(t, as(t, "a"), a) })
		if waited := served(t, b, "b"); waited != ttl/2 {
			t.Errorf("waited %v, want %v", waited, ttl/2)
		}
		if left := s.TTL(key); left != ttl {
			t.Errorf("Redis keeps the lock for %v, want %v", left, ttl)
		}
		hooks[1].On(locktest.Script(renewSource), -1, locktest.Fail(locktest.ErrCut))
		start := time.Now()
		<-b.Context(t.Context()).Done()
		if took := time.Since(start); took != ttl {
			t.Errorf("told of the loss after %v, want %v", took, ttl)
		}
		die(t, as(t, "b"), b)
	})
}

// A waiter gets an error when Redis is unavailable, and leaves the queue within ttl.
func TestRedisAwayIsAnError(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, hooks []*locktest.Hook) {
		key := locktest.Key(t)
		a, b := New(rdb[0], key, ttl), New(rdb[1], key, ttl)
		mustLock(t, as(t, "a"), a)
		errs := make(chan error, 1)
		go func() { errs <- b.Lock(as(t, "b")) }()
		synctest.Wait()
		away := hooks[1].On(locktest.Any, -1, locktest.Fail(locktest.ErrCut))
		start := time.Now()
		if err := <-errs; !errors.Is(err, locktest.ErrCut) || time.Since(start) > look {
			t.Errorf("Lock = %v after %v; want %v after %v at most", err, time.Since(start), locktest.ErrCut, look)
		}
		time.Sleep(ttl / 2)
		away.Off()
		time.Sleep(ttl / 5)
		mustBeFreeAfter(t, s, key, func() { unlock(t, as(t, "a"), a) })
	})
}

func TestLockReenters(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, _ []*locktest.Hook) {
		key := locktest.Key(t)
		outer, inner := New(rdb[0], key, ttl), New(rdb[0], key, ttl)
		mustLock(t, as(t, "a"), outer)
		var o order
		o.wait(t, rdb[1], key, "b", 0)
		if waited := served(t, inner, "a"); waited != 0 {
			t.Errorf("the owner waited %v for itself", waited)
		}
		unlock(t, as(t, "a"), inner)
		synctest.Wait()
		if len(o.who) > 0 {
			t.Error("the inner Unlock handed the lock on")
		}
		unlock(t, as(t, "a"), outer)
		o.all.Wait()
		if err := inner.Lock(t.Context()); !errors.Is(err, errNoOwner) {
			t.Errorf("Lock = %v; want %v", err, errNoOwner)
		}
	})
}
