package lock

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"oversell/internal/locks/locktest"
)

// A restart of Redis, with or without its data, costs nobody a ttl: no holder, no
// process that asks for the lock, and no waiter.
func TestRestartCostsNoTTL(t *testing.T) {
	const ttl, outage = 30 * time.Second, time.Second
	for _, empty := range []bool{false, true} {
		for _, work := range []time.Duration{outage / 2, 2 * outage} {
			bubble(t, 3, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, hooks []*locktest.Hook) {
				key := locktest.Key(t)
				a := New(rdb[0], key, ttl)
				mustLock(t, as(t, "a"), a)
				var o order
				for p := range rdb {
					who := fmt.Sprint("waiter ", p)
					o.all.Go(func() {
						m := New(rdb[p], key, ttl)
						for m.Lock(as(t, who)) != nil { // as buyers do who retry
							time.Sleep(outage / 10)
						}
						o.mu.Lock()
						o.who = append(o.who, who)
						o.mu.Unlock()
						_ = m.Unlock(as(t, who))
					})
				}
				synctest.Wait()
				start := time.Now()
				if empty {
					s.FlushAll()
				}
				var rules []*locktest.Rule
				for _, hook := range hooks {
					rules = append(rules, hook.On(locktest.Any, -1, locktest.Fail(locktest.ErrCut)))
				}
				time.AfterFunc(outage, func() {
					for _, rule := range rules {
						rule.Off()
					}
				})
				time.AfterFunc(work, func() { _ = a.Unlock(as(t, "a")) })
				o.all.Wait()
				if took := time.Since(start); took > max(work, outage)+2*outage {
					t.Errorf("without its data: %v, a works for %v: all were served after %v", empty, work, took)
				}
				time.Sleep(2 * ttl) // until the messages to waiters that have left expire
			})
		}
	}
}
