package lock

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"oversell/internal/locks/locktest"
)

// However a holder got the lock, and whatever the previous holder's ttl: until the
// holder is told of a loss, nobody else is let in. And if the holder dies, the lock is
// free after the larger ttl.
func TestNobodyReliesOnMoreThanRedisKeeps(t *testing.T) {
	const short, long = 300 * time.Millisecond, 6 * time.Second
	for _, ttls := range [][2]time.Duration{{short, long}, {long, short}} {
		for _, way := range []struct {
			name    string
			process int  // of the next holder
			late    bool // the process has used up its turns: the lock goes through Redis
			between bool // another process waits, and is first
			unheard bool // the message that wakes the next holder is lost
		}{
			{name: "to another process", process: 1},
			{name: "to another process that asks again", process: 1, unheard: true},
			{name: "in the process", process: 0},
			{name: "kept by the process", process: 0, late: true},
			{name: "back to the process", process: 0, late: true, between: true},
		} {
			t.Run(fmt.Sprint(way.name, " ", ttls), func(t *testing.T) {
				type clients = []redis.UniversalClient
				bubble(t, 3, func(t *testing.T, _ *locktest.Server, rdb clients, hooks []*locktest.Hook) {
					key := locktest.Key(t)
					a, b := New(rdb[0], key, ttls[0]), New(rdb[way.process], key, ttls[1])
					between, other := New(rdb[1], key, ttls[0]), New(rdb[2], key, long)
					mustLock(t, as(t, "a"), a)
					var first <-chan error
					if way.between {
						first = waitFor(t, between, "between")
					}
					if way.unheard {
						hooks[1].On(locktest.Command("blpop"), 1, locktest.LoseReply(locktest.ErrCut))
					}
					served := waitFor(t, b, "b")
					time.Sleep(short / 4)
					if way.late {
						time.Sleep(2 * long)
					}
					unlock(t, as(t, "a"), a)
					if way.between {
						mustBeServed(t, first, "between")
						unlock(t, as(t, "between"), between)
					}
					if way.unheard {
						time.Sleep(short)
					}
					mustBeServed(t, served, "b")
					for _, hook := range hooks[:2] {
						hook.On(locktest.Script(renewSource), -1, locktest.Fail(locktest.ErrCut))
					}
					start, ctx := time.Now(), b.Context(t.Context())
					for ctx.Err() == nil {
						if tryLock(t, as(t, "other"), other) {
							t.Errorf("a second holder came in after %v, and the first was not told", time.Since(start))
							unlock(t, as(t, "other"), other)
							break
						}
						time.Sleep(short / 10)
						synctest.Wait()
					}
					time.Sleep(long)
					mustLock(t, as(t, "other"), other)
					unlock(t, as(t, "other"), other)
					_ = b.Unlock(as(t, "b"))
				})
			})
		}
	}
}

// errReadOnly is the reply of a server that has just become a replica.
var errReadOnly = errors.New("READONLY You can't write against a read only replica")

// If Redis fails for a while just as the lock is released, the next waiter gets it
// as soon as Redis answers again, and not when the ttl is over.
func TestFailedUnlockIsTriedAgain(t *testing.T) {
	const ttl, outage = 30 * time.Second, time.Second
	for _, own := range []bool{false, true} { // whether the process has a waiter
		for name, fault := range map[string]locktest.Action{
			"refused":       locktest.Fail(errReadOnly),
			"reply is lost": locktest.LoseReply(locktest.ErrCut),
			"without answer": func(context.Context, func() error) error {
				time.Sleep(outage / 2)
				return locktest.ErrCut
			},
		} {
			bubble(t, 2, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, hooks []*locktest.Hook) {
				key := locktest.Key(t)
				a, b, c := New(rdb[0], key, ttl), New(rdb[0], key, ttl), New(rdb[1], key, ttl)
				mustLock(t, as(t, "a"), a)
				if own {
					go func() {
						for b.Lock(as(t, "b")) != nil { // as buyers do who retry
							time.Sleep(outage / 10)
						}
						unlock(t, as(t, "b"), b)
					}()
					time.Sleep(2 * ttl) // long enough for the lock not to be handed on in the process
				}
				rule := hooks[0].On(locktest.Any, -1, fault)
				time.AfterFunc(outage, rule.Off)
				start := time.Now()
				if err := a.Unlock(as(t, "a")); err == nil {
					t.Errorf("%s: Unlock succeeded", name)
				}
				if took := time.Since(start); took > outage/2 {
					t.Errorf("%s: the holder was kept for %v", name, took)
				}
				if waited := served(t, c, "c"); time.Since(start) > 2*outage {
					t.Errorf("%s, with a waiter of its own: %v: the next process waited %v, want %v at most",
						name, own, waited, 2*outage)
				}
				unlock(t, as(t, "c"), c)
				time.Sleep(2 * ttl) // until the messages to waiters that have left expire
			})
		}
	}
}

// The same holds for a ticket that is given up, whether it waits or has been served.
func TestFailedGivingUpIsTriedAgain(t *testing.T) {
	const ttl, outage = 30 * time.Second, time.Second
	bubble(t, 3, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, hooks []*locktest.Hook) {
		key := locktest.Key(t)
		a, b, c := New(rdb[0], key, ttl), New(rdb[1], key, ttl), New(rdb[2], key, ttl)
		// The reply to a is lost, and so is the request that releases the lock.
		rule := hooks[0].On(locktest.Any, -1, locktest.LoseReply(locktest.ErrCut))
		hooks[0].On(locktest.Script(leaveSource), 3, locktest.Fail(errReadOnly))
		time.AfterFunc(outage, rule.Off)
		if ok, err := a.TryLock(as(t, "a")); ok || !errors.Is(err, locktest.ErrCut) {
			t.Fatalf("TryLock = %v, %v; want false, %v", ok, err, locktest.ErrCut)
		}
		if waited := served(t, c, "c"); waited > 2*outage {
			t.Errorf("c waited %v, want %v at most", waited, 2*outage)
		}
		// b waits and leaves, and Redis does not learn it.
		ctx, leave := context.WithCancel(as(t, "b"))
		gone := make(chan error, 1)
		go func() { gone <- b.Lock(ctx) }()
		synctest.Wait()
		rule = hooks[1].On(locktest.Script(leaveSource), -1, locktest.Fail(errReadOnly))
		time.AfterFunc(outage, rule.Off)
		leave()
		<-gone
		time.Sleep(3 * outage)
		if queue, _ := s.List(key + ":queue"); len(queue) > 0 {
			t.Errorf("%v after it was given up the queue has %v", 3*outage, queue)
		}
		unlock(t, as(t, "c"), c)
		time.Sleep(2 * ttl) // until the messages to waiters that have left expire
	})
}

// While Redis stays unavailable, nothing is retried for longer than the ttl, and only
// a limited number of tickets at once.
func TestTryingAgainEnds(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, hooks []*locktest.Hook) {
		a := New(rdb[0], locktest.Key(t), ttl)
		mustLock(t, as(t, "a"), a)
		sent := hooks[0].On(locktest.Any, -1, locktest.Fail(locktest.ErrCut))
		start := time.Now()
		if err := a.Unlock(as(t, "a")); !errors.Is(err, locktest.ErrCut) {
			t.Errorf("Unlock = %v; want %v", err, locktest.ErrCut)
		}
		time.Sleep(time.Until(start.Add(ttl)) + ttl/5)
		n := sent.Hits()
		time.Sleep(10 * ttl)
		if more := sent.Hits() - n; n < 5 || more > 0 {
			t.Errorf("%d commands within the ttl, %d after it; want some and none", n, more)
		}

		const tickets = 1000
		n = sent.Hits()
		for range tickets {
			if _, err := a.TryLock(as(t, "a")); !errors.Is(err, locktest.ErrCut) {
				t.Errorf("TryLock = %v; want %v", err, locktest.ErrCut)
			}
		}
		time.Sleep(2 * ttl)
		if tries, most := sent.Hits()-n, 2*tickets+40*64; tries > most {
			t.Errorf("%d commands for %d tickets while Redis is away, want %d at most", tries, tickets, most)
		}
	})
}
