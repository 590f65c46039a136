package redlock

import (
	"context"
	_ "embed"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

// NodeLimit returns the time in which a node must answer, for a lock with the given ttl: a tenth of the ttl,
// but at least 5 and at most 50 ms. So an unavailable node uses up only a small part of the validity.
func NodeLimit(ttl time.Duration) time.Duration {
	return min(max(ttl/10, 5*time.Millisecond), 50*time.Millisecond)
}

var (
	//go:embed unlock.lua
	unlockSource string
	unlockScript = redis.NewScript(unlockSource)

	//go:embed renew.lua
	renewSource string
	renewScript = redis.NewScript(renewSource)
)

// A claim is one attempt to acquire the lock, and the hold that it may become. Each claim has its
// own token, so late requests of one attempt cannot affect the next attempt.
type claim struct {
	nodes []redis.Cmdable
	key   string
	token string
	ttl   time.Duration

	mu   sync.Mutex
	last []chan struct{} // by node; each is closed when the latest request to the node has ended
}

func newClaim(nodes []redis.Cmdable, key string, ttl time.Duration) *claim {
	c := &claim{nodes: nodes, key: key, token: uuid.NewString(), ttl: ttl}
	c.last = make([]chan struct{}, len(nodes))
	for i := range c.last {
		c.last[i] = make(chan struct{})
		close(c.last[i])
	}
	return c
}

// A request asks one node. If yes is true, the node has set, renewed or deleted the key.
type request func(ctx context.Context, node redis.Cmdable) (yes bool, err error)

func (c *claim) set(ctx context.Context, node redis.Cmdable) (bool, error) {
	err := node.SetArgs(ctx, c.key, c.token, redis.SetArgs{Mode: "NX", TTL: c.ttl}).Err()
	if errors.Is(err, redis.Nil) {
		return false, nil
	}
	return err == nil, err
}

func (c *claim) renew(ctx context.Context, node redis.Cmdable) (bool, error) {
	return renewScript.Run(ctx, node, []string{c.key}, c.token, c.ttl.Milliseconds()).Bool()
}

func (c *claim) unlock(ctx context.Context, node redis.Cmdable) (bool, error) {
	return unlockScript.Run(ctx, node, []string{c.key}, c.token).Bool()
}

// release deletes the claim on every node. A node that refused the claim or did not answer may
// still have the key. ctx ends only the wait, not the requests. The time limit is twice NodeLimit,
// for the preceding request and for the release itself.
func (c *claim) release(ctx context.Context, enough func(votes) bool) votes {
	return c.ask(ctx, 2*NodeLimit(c.ttl), c.unlock, enough)
}

// ask sends a request to all nodes concurrently, and counts the answers until there are enough, the
// time is up, or ctx ends. Unanswered requests go on in the background until the time is up.
//
// The requests of one claim reach a node one after another: a release must not
// overtake the request that it undoes.
func (c *claim) ask(ctx context.Context, within time.Duration, do request, enough func(votes) bool) votes {
	deadline := time.Now().Add(within)
	answers := make(chan answer, len(c.nodes)) // has room for all answers, so that late ones do not block
	c.mu.Lock()
	for i, node := range c.nodes {
		before, done := c.last[i], make(chan struct{})
		c.last[i] = done
		go func() {
			defer close(done)
			ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
			defer cancel()
			select {
			case <-before:
				yes, err := do(ctx, node)
				answers <- answer{i, yes, err}
			case <-ctx.Done():
				answers <- answer{i, false, ctx.Err()}
			}
		}()
	}
	c.mu.Unlock()

	// A client may ignore the deadline of its context, so ask enforces it, too.
	wait, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	v := votes{heard: make([]bool, len(c.nodes))}
	for v.open() > 0 && !enough(v) {
		select {
		case a := <-answers:
			v.count(a)
		case <-wait.Done():
			v.close(context.Cause(wait))
		}
	}
	return v
}

type answer struct {
	node int
	yes  bool
	err  error
}
