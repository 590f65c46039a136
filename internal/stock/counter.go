package stock

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// keys are an item's keys in Redis. They share a hash tag, so that a cluster
// keeps them together.
type keys struct{ sku string }

// sale has the id of the current sale.
func (k keys) sale() string { return "oversell:{" + k.sku + "}:sale" }

// stock has the units left in one sale, a plain number. Each sale has its own:
// whoever is still at work on the last one must not write into the next.
func (k keys) stock(saleID string) string { return "oversell:{" + k.sku + "}:stock:" + saleID }

// lock is the key of a strategy's lock. Each strategy has its own: what one
// stores under it, another could not read.
func (k keys) lock(strategy string) string { return "oversell:{" + k.sku + "}:lock:" + strategy }

// claims has the idempotency keys for which units were taken without a guard.
func (k keys) claims(saleID string) string { return "oversell:{" + k.sku + "}:claims:" + saleID }

// counters keeps the stock of items in Redis. It is safe for concurrent use.
type counters struct {
	rdb redis.UniversalClient
	// seen has a *glimpse for each SKU.
	seen *sync.Map
}

// glimpse is what was last seen of an item: a guess that is mostly right, and
// saves a round trip. The sale is read together with the stock that it is
// guessed to have, and who needs no guard need not look before he takes.
type glimpse struct {
	saleID string
	left   atomic.Int64
}

// remember keeps what was seen of an item.
func (c counters) remember(sku string, now reading) {
	if g := c.recall(sku); g != nil && g.saleID == now.saleID {
		g.left.Store(now.left)
		return
	}
	g := &glimpse{saleID: now.saleID}
	g.left.Store(now.left)
	c.seen.Store(sku, g)
}

// recall returns what was last seen of an item, or nil.
func (c counters) recall(sku string) *glimpse {
	found, _ := c.seen.Load(sku)
	g, _ := found.(*glimpse)
	return g
}

// reading is what one look at an item's keys shows.
type reading struct {
	left   int64 // 0 while only the keys were read, and the stock is not kept there
	saleID string
	keeper Keeper // of the stock
}

// place is where the stock that was read is kept.
func (r reading) place(sku string) Place {
	at := Place{SKU: sku, SaleID: r.saleID}
	if r.keeper != InDatabase {
		at.Key = keys{sku}.stock(r.saleID)
	}
	return at
}

// look returns the units left and the sale, and false if Redis lacks either.
func (c counters) look(ctx context.Context, sku string) (reading, bool, error) {
	saleID := ""
	if g := c.recall(sku); g != nil {
		saleID = g.saleID
	}
	for range 2 {
		current, r, ok, err := c.lookAt(ctx, sku, saleID)
		if ok {
			c.remember(sku, r)
		}
		if err != nil || current == saleID || current == "" {
			return r, ok, err
		}
		saleID = current // the guess was wrong, or the sale is new
	}
	return reading{}, false, fmt.Errorf("reading the stock of %s: its sale changes all the time", sku)
}

// lookAt reads the id of the current sale, "" if there is none, and the stock
// of the one that is asked for.
func (c counters) lookAt(ctx context.Context, sku, saleID string) (current string, r reading, ok bool, err error) {
	k := keys{sku}
	values, err := c.rdb.MGet(ctx, k.sale(), k.stock(saleID)).Result()
	if err != nil {
		return "", reading{}, false, fmt.Errorf("reading the stock of %s: %w", sku, err)
	}
	current, _ = values[0].(string)
	text, ok := values[1].(string)
	if !ok || current != saleID {
		return current, reading{}, false, nil
	}
	if text == string(InDatabase) {
		return current, reading{0, saleID, InDatabase}, true, nil
	}
	left, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return current, reading{}, false, fmt.Errorf("the stock of %s is no number: %w", sku, err)
	}
	return current, reading{left, saleID, InRedis}, true, nil
}

// lastSale is how long the stock of a sale is kept after the next one began,
// for those who are still at work on it.
const lastSale = 10 * time.Minute

// counter is what the stock's key has while left units are left: their number, or
// who keeps it.
func (i Item) counter(left int64) any {
	if i.keeper() == InDatabase {
		return string(InDatabase)
	}
	return left
}

// start sets the keys for a new sale.
func (c counters) start(ctx context.Context, item Item) error {
	k := keys{item.SKU}
	last, err := c.rdb.Get(ctx, k.sale()).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return fmt.Errorf("reading the sale of %s: %w", item.SKU, err)
	}
	_, err = c.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Set(ctx, k.stock(item.SaleID), item.counter(item.Initial), 0)
		p.Set(ctx, k.sale(), item.SaleID, 0)
		p.Expire(ctx, k.stock(last), lastSale)
		p.Expire(ctx, fenceKey(k.stock(last)), lastSale)
		return nil
	})
	if err != nil {
		return fmt.Errorf("setting the stock of %s: %w", item.SKU, err)
	}
	if item.keeper() == InRedis {
		c.remember(item.SKU, reading{item.Initial, item.SaleID, InRedis})
	}
	return nil
}

// restore sets the keys that are missing from what the database knows. A Redis
// that was restarted empty, or that had to forget a key, needs it. Somebody
// else who restores at the same time does no harm: who is late sets nothing.
func (c counters) restore(ctx context.Context, item Item, sold int64) error {
	k := keys{item.SKU}
	left := max(0, item.Initial-sold)
	_, err := c.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.SetNX(ctx, k.stock(item.SaleID), item.counter(left), 0)
		p.SetNX(ctx, k.sale(), item.SaleID, 0)
		return nil
	})
	if err != nil {
		return fmt.Errorf("restoring the stock of %s: %w", item.SKU, err)
	}
	return nil
}

// putBack returns units that were taken and not sold. It adds, where the sale
// itself reads and writes, so that it undoes nobody else's write.
func (c counters) putBack(ctx context.Context, sku, saleID string, quantity int64) error {
	if err := c.rdb.IncrBy(ctx, keys{sku}.stock(saleID), quantity).Err(); err != nil {
		return fmt.Errorf("putting back %d units of %s: %w", quantity, sku, err)
	}
	return nil
}

// unclaim gives up the claim on an idempotency key.
func (c counters) unclaim(ctx context.Context, sku, saleID, key string) error {
	if err := c.rdb.HDel(ctx, keys{sku}.claims(saleID), key).Err(); err != nil {
		return fmt.Errorf("giving up the claim on an idempotency key: %w", err)
	}
	return nil
}

// delete removes the item's keys, the locks of the given strategies included.
func (c counters) delete(ctx context.Context, sku string, strategies []string) error {
	k := keys{sku}
	saleID, err := c.rdb.Get(ctx, k.sale()).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return fmt.Errorf("reading the sale of %s: %w", sku, err)
	}
	all := []string{k.stock(saleID), fenceKey(k.stock(saleID)), k.claims(saleID), k.sale()}
	for _, name := range strategies {
		all = append(all, k.lock(name))
	}
	if err := c.rdb.Del(ctx, all...).Err(); err != nil {
		return fmt.Errorf("deleting the keys of %s: %w", sku, err)
	}
	c.seen.Delete(sku)
	return nil
}

// Counter is an item's stock as a section sees it.
type Counter interface {
	Get(ctx context.Context) (int64, error)
	// Set writes the stock. The counter of an optimistic guard returns
	// errConflict when the stock has changed since Get.
	Set(ctx context.Context, left int64) error
}

// plainCounter reads with GET and writes with SET: a guard must keep others out.
type plainCounter struct {
	rdb redis.Cmdable
	key string
}

func (c plainCounter) Get(ctx context.Context) (int64, error) {
	return getStock(ctx, c.rdb, c.key)
}

func (c plainCounter) Set(ctx context.Context, left int64) error {
	if err := c.rdb.Set(ctx, c.key, left, redis.KeepTTL).Err(); err != nil {
		return fmt.Errorf("writing the stock: %w", err)
	}
	return nil
}

func getStock(ctx context.Context, rdb redis.Cmdable, key string) (int64, error) {
	left, err := rdb.Get(ctx, key).Int64()
	if errors.Is(err, redis.Nil) {
		return 0, fmt.Errorf("reading the stock: the key is gone: %w", err)
	}
	if err != nil {
		return 0, fmt.Errorf("reading the stock: %w", err)
	}
	return left, nil
}
