package cache

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

// Each load draws a ticket before it asks the source, Forget makes the ticket
// worthless, and a load with a worthless ticket stores nothing. Otherwise a
// load that is slower than a change of its source would put back what was
// forgotten, for the whole ttl. These are the leases of "Scaling Memcache at
// Facebook" (Nishtala et al., 2013), which lacks their other half on purpose:
// all loads that are under way at once have the same ticket, so that it keeps
// nobody from loading. That is for the guard to do, and to be seen failing at.

//go:embed store.lua
var storeSource string

//go:embed mark.lua
var markSource string

var (
	storeScript = redis.NewScript(storeSource)
	markScript  = redis.NewScript(markSource)
)

// countTTL is how long the loads of a value are remembered after the last one,
// and a ticket after it was drawn. A load that takes longer is not stored.
const countTTL = time.Hour

// begin counts a load of this instance and draws its ticket. Tickets are
// random, so that one drawn after a Forget is never like one from before.
func (r *Reader) begin(ctx context.Context, key string) (ticket string, err error) {
	k := keys{key}
	var drawn *redis.StringCmd
	_, err = r.cfg.Redis.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.HIncrBy(ctx, k.loads(), r.cfg.Instance, 1)
		p.Expire(ctx, k.loads(), countTTL)
		p.SetNX(ctx, k.ticket(), uuid.NewString(), countTTL)
		drawn = p.Get(ctx, k.ticket())
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("counting the load: %w", err)
	}
	return drawn.Val(), nil
}

// store keeps a value, unless it was forgotten since the ticket was drawn: what
// was loaded is then as good as the answer to who asked, and to nobody later.
func (r *Reader) store(ctx context.Context, key, ticket string, value []byte) error {
	k := keys{key}
	err := storeScript.Run(ctx, r.cfg.Redis, []string{k.value(), k.ticket()}, ticket, value, r.cfg.TTL.Milliseconds()).Err()
	if err != nil {
		return fmt.Errorf("storing the value: %w", err)
	}
	return nil
}

// mark keeps a marker for a value that does not exist, on the same condition. Tickets and
// loads are kept for values that exist, of which there are few.
func (r *Reader) mark(ctx context.Context, key, ticket string) error {
	k := keys{key}
	err := markScript.Run(ctx, r.cfg.Redis, []string{k.value(), k.ticket(), k.loads()}, ticket, empty, r.cfg.EmptyTTL.Milliseconds()).Err()
	if err != nil {
		return fmt.Errorf("marking the value as missing: %w", err)
	}
	return nil
}

// failed shortens how long a load is remembered that has failed: it is not known whether
// the value exists. Loads that are under way can still be stored for as long.
func (r *Reader) failed(ctx context.Context, key string) error {
	k := keys{key}
	_, err := r.cfg.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.PExpire(ctx, k.ticket(), r.cfg.EmptyTTL)
		p.PExpire(ctx, k.loads(), r.cfg.EmptyTTL)
		return nil
	})
	if err != nil {
		return fmt.Errorf("after the load failed: %w", err)
	}
	return nil
}
