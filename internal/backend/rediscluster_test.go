package backend_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"oversell/internal/backend/backendtest"
)

func TestCluster(t *testing.T) {
	url := backendtest.Redis(t, "local:cluster")
	rdb := backendtest.DialRedis(t, url)
	checkCounts(t, rdb) // the commands go to every master
	checkRedisName(t, rdb, url, "(cluster, 3 masters)")
	var used int
	user, nodes, _ := strings.Cut(url, "@")
	for addr := range strings.SplitSeq(nodes, ",") {
		node := backendtest.DialRedis(t, user+"@"+addr)
		if node.DBSize(t.Context()).Val() > 0 {
			used++
		}
	}
	if used < 2 {
		t.Errorf("%d masters hold keys, want several", used)
	}
	t.Run("histories", func(t *testing.T) { watchesEachPrimary(t, url) })
	t.Run("lost replies", func(t *testing.T) { executesOnce(t, url) })
}

// Each primary has its own history, and more connections to it do not count as a change.
func watchesEachPrimary(t *testing.T, url string) {
	rdb, w := watched(t, url)
	histories := make(map[string]bool)
	for _, key := range strings.Fields("a b c d e f g h i j") {
		backendtest.Must(t, rdb.Set(t.Context(), key, "v", 0).Err())
		histories[history(t, rdb, key)] = true
	}
	if len(histories) < 2 {
		t.Errorf("the masters have %d histories, want one each", len(histories))
	}
	manyConnections(t, rdb, w)
}

// count is a script that adds one, and then keeps the server busy for longer than the client waits for the
// reply.
const count = `
redis.call('INCR', KEYS[1])
local function ms() local t = redis.call('TIME'); return t[1] * 1000 + t[2] / 1000 end
local start = ms()
while ms() < start + 400 do end
return 1`

// A command whose reply is lost is not sent again, because it might take two units instead of one.
func executesOnce(t *testing.T, url string) {
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
			// Wait until the server has executed the script and answers again.
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

// After a replica has replaced a primary, the client continues, and notices that the last writes may be
// lost.
func TestClusterFailover(t *testing.T) {
	c := backendtest.LocalCluster(t)
	rdb, w := watched(t, c.URL())
	backendtest.Must(t, rdb.Set(t.Context(), "k", "v", 0).Err())
	// The client asks any node for the list of nodes. If it has asked a replica, it must not keep that
	// connection.
	cluster := rdb.(*redis.ClusterClient)
	for range 30 {
		if err := cluster.ForEachShard(t.Context(), func(ctx context.Context, node *redis.Client) error {
			_ = node.Ping(ctx).Err() // a replica returns an error
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	noticed := changeOf(t, rdb, w)
	c.Failover(t, c.Slot(t, "k"))
	start := time.Now()
	within(t, 5*time.Second+backendtest.Slack, func() error { return rdb.Set(t.Context(), "k", "w", 0).Err() })
	t.Logf("the client found the new primary after %v", time.Since(start))
	noticed()
}

// A client finds the keys of a slot that moves to another primary, during the move and after it.
func TestClientFollowsASlot(t *testing.T) {
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
