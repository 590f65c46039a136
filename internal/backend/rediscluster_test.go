package backend_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"oversell/internal/backend/backendtest"
)

// count adds one, and then keeps its server busy for longer than its client waits for the reply.
const count = `
redis.call('INCR', KEYS[1])
local function ms() local t = redis.call('TIME'); return t[1] * 1000 + t[2] / 1000 end
local start = ms()
while ms() < start + 400 do end
return 1`

// A command whose reply is lost is not sent again: it may take a unit of the stock twice.
func TestClusterExecutesACommandOnceWhoseReplyIsLost(t *testing.T) {
	url := backendtest.Cluster(t)
	hasty := backendtest.DialRedis(t, url+"?read_timeout=100ms")
	rdb := backendtest.DialRedis(t, url)
	for name, send := range map[string]func(key string) error{
		"alone": func(key string) error { return hasty.Eval(t.Context(), count, []string{key}).Err() },
		"in a pipeline": func(key string) error {
			_, err := hasty.Pipelined(t.Context(), func(p redis.Pipeliner) error {
				p.Eval(t.Context(), count, []string{key})
				return nil
			})
			return err
		},
		"in a pipeline after another": func(key string) error {
			var first *redis.IntCmd
			_, err := hasty.Pipelined(t.Context(), func(p redis.Pipeliner) error {
				first = p.Incr(t.Context(), key+":first")
				p.Eval(t.Context(), count, []string{key})
				return nil
			})
			if first.Err() == nil && first.Val() != 1 {
				t.Errorf("the command before it was executed %d times", first.Val())
			}
			return err
		},
		"in a transaction": func(key string) error {
			_, err := hasty.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
				p.Eval(t.Context(), count, []string{key})
				return nil
			})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			key := "{" + name + "}"
			if err := send(key); err == nil {
				t.Fatal("the reply came in time")
			}
			// The server is asked only when it has nothing more to do.
			within(t, 5*time.Second, func() error {
				n, err := rdb.Get(t.Context(), key).Int()
				if err == nil && n < 1 {
					err = errors.New("it is not executed yet")
				}
				return err
			})
			if n, err := rdb.Get(t.Context(), key).Int(); n != 1 || err != nil {
				t.Errorf("executed %d times, %v; want once", n, err)
			}
		})
	}
}

// A client goes on when a replica has replaced a primary, and knows that the last writes may
// be lost.
func TestWatchNoticesAFailoverOfACluster(t *testing.T) {
	c := backendtest.LocalCluster(t)
	rdb, w := watched(t, c.URL())
	if err := rdb.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	// The client asks any of the nodes for the others. Once it has asked a replica, it must
	// not keep that connection.
	cluster := rdb.(*redis.ClusterClient)
	for range 30 {
		if err := cluster.ForEachShard(t.Context(), func(ctx context.Context, node *redis.Client) error {
			_ = node.Ping(ctx).Err() // replicas refuse
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	first, changes := history(t, rdb, "k"), w.Changes()
	c.Failover(t, c.Slot(t, "k"))
	start := time.Now()
	within(t, 5*time.Second+backendtest.Slack, func() error { return rdb.Set(t.Context(), "k", "w", 0).Err() })
	t.Logf("the client found the new primary after %v", time.Since(start))
	if w.Changes() == changes {
		t.Error("nobody noticed that another server is the primary")
	}
	if now := history(t, rdb, "k"); now == first || now == "" {
		t.Errorf("the history after the failover is %q, and was %q", now, first)
	}
}

// A client follows a slot to another primary, before and after the last key is moved.
func TestClusterClientFollowsASlot(t *testing.T) {
	c := backendtest.LocalCluster(t)
	rdb := backendtest.DialRedis(t, c.URL())
	keys := []string{"{k}1", "{k}2", "{k}3"}
	increment := func() {
		for _, key := range keys {
			if err := rdb.Incr(t.Context(), key).Err(); err != nil {
				t.Error(err)
			}
		}
	}
	increment()
	c.Migrate(t, c.Slot(t, "{k}"), func(int) { increment() })
	increment()
	for _, key := range keys {
		if n, err := rdb.Get(t.Context(), key).Int(); n != 5 || err != nil {
			t.Errorf("%s is %d, %v; want 5", key, n, err)
		}
	}
}
