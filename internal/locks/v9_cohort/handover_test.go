package lock

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"oversell/internal/locks/locktest"
)

// Nobody else gets the lock until its holder's context has ended, no matter how the holder got the
// lock and what ttl the previous holder had. If the holder dies, the lock is free after the larger ttl.
func TestNobodyReliesOnMoreThanRedisKeeps(t *testing.T) {
	const short, long = 300 * time.Millisecond, 6 * time.Second
	for _, ttls := range [][2]time.Duration{{short, long}, {long, short}} {
		for _, way := range []struct {
			name    string
			another bool // the next holder is in another process
			late    bool // the process has used up its turns: the lock goes through Redis
			between bool // another process waits, and is served first
			unheard bool // the message that wakes the next holder is lost
		}{
			{name: "to another process", another: true},
			{name: "to another process that asks again", another: true, unheard: true},
			{name: "in the process"},
			{name: "kept by the process", late: true},
			{name: "back to the process", late: true, between: true},
		} {
			t.Run(fmt.Sprint(way.name, " ", ttls), func(t *testing.T) {
				own := ttls[0]
				locktest.Scenario(t, withTTL(&own), func(w *locktest.World) {
					a, between := w.Holder("a"), w.Holder("between")
					own = long
					other := w.Holder("other")
					own = ttls[1]
					b := a.Sibling("b")
					if way.another {
						b = between.Sibling("b")
					}
					a.MustLock()
					var first locktest.Attempt
					if way.between {
						first, _ = between.Wait()
					}
					if way.unheard {
						between.Hook.On(locktest.Command("blpop"), 1, locktest.LoseReply(locktest.ErrCut))
					}
					served, _ := b.Wait()
					time.Sleep(short / 4)
					if way.late {
						time.Sleep(2 * long)
					}
					a.MustUnlock()
					if way.between {
						mustBeServed(w, first, "between")
						between.MustUnlock()
					}
					if way.unheard {
						time.Sleep(short)
					}
					mustBeServed(w, served, "b")
					for _, h := range []*locktest.Holder{a, between} {
						h.Hook.On(locktest.Script(renewSource), -1, locktest.Fail(locktest.ErrCut))
					}
					start, ctx := time.Now(), b.Context()
					for ctx.Err() == nil {
						w.Expect(!other.TryLock(), "a second holder came in after %v, and the first was not told",
							time.Since(start))
						time.Sleep(short / 10)
						synctest.Wait()
					}
					time.Sleep(long)
					other.MustLock()
					other.MustUnlock()
					_ = b.Mutex.Unlock(b.Ctx)
					time.Sleep(2 * long) // until the last token is forgotten
				})
			})
		}
	}
}

// errReadOnly is the reply of a server that has just become a replica.
var errReadOnly = errors.New("READONLY You can't write against a read only replica")

// outage is much shorter than the ttl patient.
const outage = time.Second

var patient = 30 * outage // a long ttl

// If Redis fails for a while just as the lock is released, the next waiter gets the lock
// soon after Redis answers again, and does not wait for the ttl to pass.
func TestFailedUnlockIsTriedAgain(t *testing.T) {
	for _, own := range []bool{false, true} { // whether the process has a waiter
		for name, fault := range map[string]locktest.Action{
			"refused":       locktest.Fail(errReadOnly),
			"reply is lost": locktest.LoseReply(locktest.ErrCut),
			"without answer": func(context.Context, func() error) error {
				time.Sleep(outage / 2)
				return locktest.ErrCut
			},
		} {
			locktest.Scenario(t, withTTL(&patient), func(w *locktest.World) {
				a, c := w.Holder("a"), w.Holder("c")
				a.MustLock()
				if own {
					go retries(a.Sibling("b"))
					time.Sleep(2 * patient) // then the lock is not handed on in the process
				}
				rule := a.Hook.On(locktest.Any, -1, fault)
				time.AfterFunc(outage, rule.Off)
				start := time.Now()
				err := a.Mutex.Unlock(a.Ctx)
				w.Expect(err != nil, "%s: Unlock succeeded", name)
				took := time.Since(start)
				w.Expect(took <= outage/2, "%s: the holder was kept for %v", name, took)
				err = mutex(c).Lock(c.Ctx)
				took = time.Since(start)
				w.Expect(err == nil && took <= 2*outage,
					"%s, with a waiter of its own: %v: the next process: %v after %v", name, own, err, took)
				c.MustUnlock()
				time.Sleep(2 * patient) // until the messages to waiters that have left expire
			})
		}
	}
}

// retries calls Lock until it succeeds, as a buyer that retries does, and then releases the lock.
func retries(h *locktest.Holder) {
	for mutex(h).Lock(h.Ctx) != nil {
		if h.Ctx.Err() != nil {
			return
		}
		time.Sleep(outage / 10)
	}
	_ = h.Mutex.Unlock(h.Ctx)
}

// A caller that gives up cancels its ticket as soon as Redis answers again, whether the ticket is
// still in the queue or has already got the lock.
func TestFailedGivingUpIsTriedAgain(t *testing.T) {
	locktest.Scenario(t, withTTL(&patient), func(w *locktest.World) {
		a, b, c := w.Holder("a"), w.Holder("b"), w.Holder("c")
		// The reply to a's TryLock is lost, and the request that releases the lock fails.
		rule := a.Hook.On(locktest.Any, -1, locktest.LoseReply(locktest.ErrCut))
		a.Hook.On(locktest.Script(leaveSource), 3, locktest.Fail(errReadOnly))
		time.AfterFunc(outage, rule.Off)
		ok, err := a.Mutex.TryLock(a.Ctx)
		w.Expect(!ok && errors.Is(err, locktest.ErrCut), "TryLock = %v, %v", ok, err)
		start := time.Now()
		err = mutex(c).Lock(c.Ctx)
		w.Expect(err == nil && time.Since(start) <= 2*outage, "c: %v after %v", err, time.Since(start))
		// b waits and leaves, but the request that removes b from the queue fails.
		gone, leave := b.Wait()
		rule = b.Hook.On(locktest.Script(leaveSource), -1, locktest.Fail(errReadOnly))
		time.AfterFunc(outage, rule.Off)
		leave()
		<-gone
		time.Sleep(3 * outage)
		queue, _ := w.List(w.Key + ":queue")
		w.Expect(len(queue) == 0, "%v after it was given up the queue has %v", 3*outage, queue)
		c.MustUnlock()
		time.Sleep(2 * patient) // until the messages to waiters that have left expire
	})
}

// While Redis is unavailable, a release is retried only until the ttl has passed.
func TestTryingAgainEnds(t *testing.T) {
	locktest.Scenario(t, stage(), func(w *locktest.World) {
		a := w.Holder("a")
		a.MustLock()
		sent := a.Hook.On(locktest.Any, -1, locktest.Fail(locktest.ErrCut))
		start := time.Now()
		err := a.Mutex.Unlock(a.Ctx)
		w.Expect(errors.Is(err, locktest.ErrCut), "Unlock = %v", err)
		time.Sleep(time.Until(start.Add(ttl)) + ttl/5)
		n := sent.Hits()
		time.Sleep(10 * ttl)
		more := sent.Hits() - n
		w.Expect(n >= 5 && more == 0, "%d commands within the ttl, %d after it; want some and none", n, more)
	})
}

// After a restart of Redis, with or without its data, no waiter has to wait until a ttl has passed.
func TestRestartCostsNoTTL(t *testing.T) {
	for _, empty := range []bool{false, true} {
		for _, work := range []time.Duration{outage / 2, 2 * outage} {
			locktest.Scenario(t, withTTL(&patient), func(w *locktest.World) {
				processes := []*locktest.Holder{w.Holder("a"), w.Holder("b"), w.Holder("c")}
				a := processes[0]
				a.MustLock()
				var all []<-chan struct{}
				for _, h := range processes {
					done, waiter := make(chan struct{}), h.Sibling("waiter")
					all = append(all, done)
					go func() {
						defer close(done)
						retries(waiter)
					}()
				}
				synctest.Wait()
				start := time.Now()
				if empty {
					w.FlushAll()
				}
				for _, h := range processes {
					rule := h.Hook.On(locktest.Any, -1, locktest.Fail(locktest.ErrCut))
					time.AfterFunc(outage, rule.Off)
				}
				time.AfterFunc(work, func() { _ = a.Mutex.Unlock(a.Ctx) })
				for _, done := range all {
					<-done
				}
				took := time.Since(start)
				w.Expect(took <= max(work, outage)+2*outage,
					"without its data: %v, a works for %v: all were served after %v", empty, work, took)
				time.Sleep(2 * patient) // until the messages to waiters that have left expire
			})
		}
	}
}
