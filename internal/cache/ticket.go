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

var storeScript = redis.NewScript(storeSource)

// countTTL is how long the loads of a value are remembered after the last one,
// and a ticket after it was drawn. It bounds what visitors can leave behind by
// asking for what does not exist. A load that takes longer is not stored.
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
func (r *Reader) store(ctx context.Context, key, ticket string, value []byte, ttl time.Duration) error {
	k := keys{key}
	err := storeScript.Run(ctx, r.cfg.Redis, []string{k.value(), k.ticket()}, ticket, value, ttl.Milliseconds()).Err()
	if err != nil {
		return fmt.Errorf("storing the value: %w", err)
	}
	return nil
}
