package redlock

import (
	"context"
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"oversell/internal/backend/backendtest"
	"oversell/internal/locks/locktest"
)

const (
	ttl   = 30 * time.Second
	limit = 50 * time.Millisecond // NodeLimit(ttl)
	key   = "lock"                // each test has its own nodes
)

func TestMain(m *testing.M) { os.Exit(backendtest.Main(m)) }

// nodes are independent in-memory Redis servers.
type nodes []*locktest.Server

// inBubble runs f with five nodes in a synctest bubble. The nodes and the test share one fake
// clock, which time.Sleep advances. The test fails if a goroutine never ends.
func inBubble(t *testing.T, f func(t *testing.T, ns nodes)) {
	synctest.Test(t, func(t *testing.T) {
		ns := make(nodes, 5)
		for i := range ns {
			ns[i] = locktest.Start(t)
		}
		// Slow calls continue in the background, but must end in time.
		t.Cleanup(func() { time.Sleep(10 * limit) })
		f(t, ns)
	})
}

// mutex returns a handle that uses the nodes' shared clients.
func (ns nodes) mutex() *Mutex {
	var clients []redis.Cmdable
	for _, n := range ns {
		clients = append(clients, n.Client)
	}
	return New(clients, key, ttl)
}

// own returns a handle with its own clients, like that of another process, and the clients' hooks.
func (ns nodes) own(t *testing.T) (*Mutex, hooks) {
	var clients []redis.Cmdable
	var hs hooks
	for _, n := range ns {
		rdb, hook := n.NewClient()
		t.Cleanup(func() { _ = rdb.Close() })
		clients, hs = append(clients, rdb), append(hs, hook)
	}
	return New(clients, key, ttl), hs
}

func (ns nodes) hooks() hooks {
	var hs hooks
	for _, n := range ns {
		hs = append(hs, n.Hook)
	}
	return hs
}

// tokens returns the value of key on each node, or "" where the key does not exist.
func (ns nodes) tokens() []string {
	var tokens []string
	for _, n := range ns {
		token, _ := n.Get(key)
		tokens = append(tokens, token)
	}
	return tokens
}

// mustBeFree gives work in the background some time to end, and then checks that no node has the key.
func (ns nodes) mustBeFree(t *testing.T) {
	t.Helper()
	time.Sleep(3 * limit)
	for i, token := range ns.tokens() {
		if token != "" {
			t.Errorf("node %d still has the key, of %s", i, token)
		}
	}
}

type hooks []*locktest.Hook

// on applies action to every command that matches, on every node of hs.
func (hs hooks) on(match locktest.Match, action locktest.Action) (off func()) {
	var rules []*locktest.Rule
	for _, h := range hs {
		rules = append(rules, h.On(match, -1, action))
	}
	return func() {
		for _, r := range rules {
			r.Off()
		}
	}
}

// faults contains the ways in which a node can fail to answer, with the expected errors.
var faults = map[string]struct {
	action locktest.Action
	err    error
}{
	"down":       {locktest.Fail(locktest.ErrCut), locktest.ErrCut},
	"silent":     {locktest.Drop, context.DeadlineExceeded},
	"lost reply": {locktest.LoseReply(locktest.ErrCut), locktest.ErrCut},
	"too slow":   {slow(limit + locktest.Tick), context.DeadlineExceeded},
	"client keeps to no deadline": {func(context.Context, func() error) error {
		time.Sleep(2 * limit)
		return locktest.ErrCut
	}, context.DeadlineExceeded},
}

// eachFault runs f in a bubble for each of the faults.
func eachFault(t *testing.T, f func(t *testing.T, ns nodes, fault locktest.Action, err error)) {
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, ns nodes) { f(t, ns, fault.action, fault.err) })
		})
	}
}

// mustFindNoQuorum expects that no majority of the nodes answers TryLock.
func mustFindNoQuorum(t *testing.T, m *Mutex) {
	t.Helper()
	if ok, err := m.TryLock(t.Context()); ok || !errors.Is(err, ErrNoQuorum) {
		t.Errorf("TryLock = %v, %v; want false, %v", ok, err, ErrNoQuorum)
	}
}

// slow makes the node execute a command immediately, but delays its reply by d.
func slow(d time.Duration) locktest.Action {
	return func(ctx context.Context, send func() error) error {
		err := send()
		select {
		case <-time.After(d):
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
