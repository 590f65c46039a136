package cache

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

// Each load draws a ticket before it asks the source. Forget invalidates the ticket, and a load
// with an invalid ticket stores nothing. Otherwise a load that is slower than a change of its
// source would store the old value again, for the whole ttl. These are the leases of "Scaling
// Memcache at Facebook" (Nishtala et al., 2013), except that tickets do not limit concurrent loads:
// all concurrent loads get the same ticket. Limiting loads is the guard's job, and the bench shows
// which guards fail at it.

//go:embed store.lua
var storeSource string

var storeScript = redis.NewScript(storeSource)

// countTTL is how long the count of loads is kept after the last load, and how long a ticket is
// valid after it was drawn. The result of a load that takes longer is not stored.
const countTTL = time.Hour

// begin counts a load of this instance and draws its ticket. Tickets are random, so a ticket drawn
// after a Forget differs from all earlier ones.
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

// store stores a value, or the marker of a missing one, unless it was forgotten since the ticket was
// drawn. If it was forgotten, what was loaded is still a valid answer for this reader, but not for
// later readers.
func (r *Reader) store(ctx context.Context, key, ticket string, value []byte, found bool) error {
	k := keys{key}
	all, ttl := []string{k.value(), k.ticket()}, valueTTL
	if !found { // the ticket and the count of loads are kept only for values that exist, which are few
		all, value, ttl = append(all, k.ticket(), k.loads()), []byte(empty), emptyTTL
	}
	if err := storeScript.Run(ctx, r.cfg.Redis, all, ticket, value, ttl.Milliseconds()).Err(); err != nil {
		return fmt.Errorf("storing the value: %w", err)
	}
	return nil
}

// failure is a failed load, as stored in Redis for emptyTTL. A reader remembers the failure that
// its first look found. If it finds a different one later, that load failed while the reader
// waited.
type failure struct{ id, text string } // id is "" if there is no failure

// since returns the error of the failure. It returns nil if there is no failure, or if its id is
// before.
func (f failure) since(before string) error {
	if f.id == "" || f.id == before {
		return nil
	}
	return fmt.Errorf("%w by another reader: %s", errLoad, f.text)
}

// failed stores the failure of a load for readers that wait in other instances. It shortens the
// expiry of the ticket and the count, because the value may not exist. Until the ticket expires,
// the results of concurrent loads can still be stored.
func (r *Reader) failed(ctx context.Context, key string, failed error) error {
	k := keys{key}
	_, err := r.cfg.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.Set(ctx, k.failure(), uuid.NewString()+" "+failed.Error(), emptyTTL)
		p.PExpire(ctx, k.ticket(), emptyTTL)
		p.PExpire(ctx, k.loads(), emptyTTL)
		return nil
	})
	if err != nil {
		return fmt.Errorf("after the load failed: %w", err)
	}
	return nil
}
