package stock

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"oversell/internal/backend"
)

var (
	//go:embed putback.lua
	putBackSource string
	putBackScript = redis.NewScript(putBackSource)

	//go:embed forget.lua
	forgetSource string
	forgetScript = redis.NewScript(forgetSource)
)

// keys are an item's keys in Redis. They share a hash tag, so that a cluster
// keeps them together.
type keys struct{ sku string }

// sale has the current generation, as generation.String writes it.
func (k keys) sale() string { return "oversell:{" + k.sku + "}:sale" }

// stock has the units left, a plain number. Each generation has its own: whoever
// is still at work on the last one must not write into the next.
func (k keys) stock(g generation) string {
	return "oversell:{" + k.sku + "}:stock:" + g.saleID + ":" + g.id
}

// lock is the key of a strategy's lock. Each strategy has its own: what one
// stores under it, another could not read.
func (k keys) lock(strategy string) string { return "oversell:{" + k.sku + "}:lock:" + strategy }

// claims has the idempotency keys for which units were taken without a guard
// during one period, see claimPeriod.
func (k keys) claims(saleID string, period int64) string {
	return "oversell:{" + k.sku + "}:claims:" + saleID + ":" + strconv.FormatInt(period, 10)
}

// of are the keys of a generation's stock, and those that versions of the shop
// without generations made for its sale. One of those may have run before.
func (k keys) of(g generation) []string {
	old := "oversell:{" + k.sku + "}:stock:" + g.saleID
	return []string{
		k.stock(g), fenceKey(k.stock(g)),
		old, fenceKey(old), "oversell:{" + k.sku + "}:claims:" + g.saleID,
	}
}

// inSale is the generation that the sale's key names, or only its sale, where the
// key was written by a version without generations.
func inSale(text string) generation {
	if g := parseGeneration(text); g != (generation{}) {
		return g
	}
	return generation{saleID: text}
}

// counters keeps the stock of items in Redis. It is safe for concurrent use.
type counters struct {
	rdb redis.UniversalClient
	// seen has a *glimpse for each SKU.
	seen *sync.Map
}

// glimpse is what was last seen of an item: a guess that is mostly right, and
// saves a round trip. The sale is read together with the stock that it is
// guessed to have, and a buyer that needs no guard need not look first.
type glimpse struct {
	gen  generation
	left atomic.Int64
}

// remember keeps what was seen of an item.
func (c counters) remember(sku string, now reading) {
	if g := c.recall(sku); g != nil && g.gen == now.gen {
		g.left.Store(now.left)
		return
	}
	g := &glimpse{gen: now.gen}
	g.left.Store(now.left)
	c.seen.Store(sku, g)
}

// recall returns what was last seen of an item, or nil.
func (c counters) recall(sku string) *glimpse {
	found, _ := c.seen.Load(sku)
	g, _ := found.(*glimpse)
	return g
}

// reading is what one look at an item shows.
type reading struct {
	left   int64 // 0 while only the keys were read, and the stock is not kept there
	gen    generation
	keeper Keeper // of the stock
}

// place is where the stock that was read is kept.
func (r reading) place(sku string) Place {
	at := Place{SKU: sku, SaleID: r.gen.saleID, Generation: r.gen.id}
	if r.keeper != InDatabase {
		at.Key = keys{sku}.stock(r.gen)
	}
	return at
}

// look returns the units left and the generation, and false if Redis lacks
// either, or where the sale changes all the time. The generation is then what the
// sale's key has, if there is one.
func (c counters) look(ctx context.Context, sku string) (reading, bool, error) {
	var guess generation
	if g := c.recall(sku); g != nil {
		guess = g.gen
	}
	for range 3 {
		r, ok, err := c.lookAt(ctx, sku, guess)
		if ok {
			c.remember(sku, r)
		}
		if err != nil || r.gen.sameStock(guess) {
			return r, ok, err
		}
		guess = r.gen // the guess was wrong, or the sale is new
	}
	return reading{gen: guess}, false, nil
}

// lookAt reads the current generation and the stock of the one that is asked for.
// It reports whether they belong together.
func (c counters) lookAt(ctx context.Context, sku string, guess generation) (r reading, ok bool, err error) {
	k := keys{sku}
	values, err := c.rdb.MGet(ctx, k.sale(), k.stock(guess)).Result()
	if err != nil {
		return reading{}, false, fmt.Errorf("reading the stock of %s: %w", sku, err)
	}
	sale, _ := values[0].(string)
	r.gen = parseGeneration(sale)
	text, ok := values[1].(string)
	if !ok || !r.gen.sameStock(guess) {
		return r, false, nil
	}
	if text == string(InDatabase) {
		r.keeper = InDatabase
		return r, true, nil
	}
	left, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return r, false, fmt.Errorf("the stock of %s is not a number: %w", sku, err)
	}
	r.left, r.keeper = left, InRedis
	return r, true, nil
}

// counter is what the stock's key has while left units are left: their number, or
// who keeps it.
func (i Item) counter(left int64) any {
	if i.keeper() == InDatabase {
		return string(InDatabase)
	}
	return left
}

// startTimeout bounds start and history, which keep others from the item's row.
const startTimeout = 2 * time.Second

// history is that of the Redis which has the item's keys, see backend.RedisHistory.
func (c counters) history(ctx context.Context, sku string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	id, err := backend.RedisHistory(ctx, c.rdb, keys{sku}.sale())
	if err != nil {
		return "", fmt.Errorf("looking which Redis has %s: %w", sku, err)
	}
	return id, nil
}

// start sets the keys for the item's generation with left units, and removes
// those of the generation that Redis has, and of last. The caller has locked the
// item's row: two that start cannot cross.
func (c counters) start(ctx context.Context, item Item, left int64, last generation) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	k := keys{item.SKU}
	text, err := c.rdb.Get(ctx, k.sale()).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return fmt.Errorf("reading the sale of %s: %w", item.SKU, err)
	}
	gen := item.generation()
	_, err = c.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		for _, old := range []generation{inSale(text), last} {
			p.Del(ctx, k.of(old)...)
		}
		p.Set(ctx, k.stock(gen), item.counter(left), 0)
		p.Set(ctx, k.sale(), gen.String(), 0)
		return nil
	})
	if err != nil {
		return fmt.Errorf("setting the stock of %s: %w", item.SKU, err)
	}
	c.seen.Delete(item.SKU)
	return nil
}

// putBack returns units that were taken and not sold to the stock that they were
// taken from. Where that is gone it does nothing: the stock that took its place
// was counted from the orders, and never lacked these units. It adds, where the
// sale itself reads and writes, so that it undoes no other buyer's write.
func (c counters) putBack(ctx context.Context, sku string, g generation, quantity int64) error {
	if err := putBackScript.Run(ctx, c.rdb, []string{keys{sku}.stock(g)}, quantity).Err(); err != nil {
		return fmt.Errorf("putting back %d units of %s: %w", quantity, sku, err)
	}
	return nil
}

// unclaim gives up the claim on an idempotency key.
func (c counters) unclaim(ctx context.Context, sku, saleID, key string) error {
	_, err := c.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, at := range (keys{sku}).claimed(saleID, time.Now()) {
			p.HDel(ctx, at, key)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("giving up the claim on an idempotency key: %w", err)
	}
	return nil
}

// forget removes the keys of a sale that the database does not know, unless another
// has taken its place.
func (c counters) forget(ctx context.Context, sku string) error {
	k := keys{sku}
	text, err := c.rdb.Get(ctx, k.sale()).Result()
	if errors.Is(err, redis.Nil) {
		c.seen.Delete(sku)
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the sale of %s: %w", sku, err)
	}
	at := append([]string{k.sale()}, k.of(inSale(text))...)
	if err := forgetScript.Run(ctx, c.rdb, at, text).Err(); err != nil {
		return fmt.Errorf("removing the keys of %s: %w", sku, err)
	}
	c.seen.Delete(sku)
	return nil
}

// delete removes the item's keys, the locks of the given strategies included.
func (c counters) delete(ctx context.Context, sku string, last generation, strategies []string) error {
	k := keys{sku}
	text, err := c.rdb.Get(ctx, k.sale()).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return fmt.Errorf("reading the sale of %s: %w", sku, err)
	}
	all := []string{k.sale()}
	for _, g := range []generation{inSale(text), last} {
		all = append(all, k.of(g)...)
		all = append(all, k.claimed(g.saleID, time.Now())...)
	}
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

// Set writes only to a stock that is there: a generation that has ended must not
// come back.
func (c plainCounter) Set(ctx context.Context, left int64) error {
	err := c.rdb.SetArgs(ctx, c.key, left, redis.SetArgs{Mode: "XX", KeepTTL: true}).Err()
	if errors.Is(err, redis.Nil) {
		return fmt.Errorf("writing the stock: the key is gone: %w", errOtherSale)
	}
	if err != nil {
		return fmt.Errorf("writing the stock: %w", err)
	}
	return nil
}

func getStock(ctx context.Context, rdb redis.Cmdable, key string) (int64, error) {
	left, err := rdb.Get(ctx, key).Int64()
	if errors.Is(err, redis.Nil) {
		return 0, fmt.Errorf("reading the stock: the key is gone: %w", errOtherSale)
	}
	if err != nil {
		return 0, fmt.Errorf("reading the stock: %w", err)
	}
	return left, nil
}
