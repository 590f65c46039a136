package stock

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"gorm.io/gorm"

	"oversell/internal/fence"
	"oversell/internal/guard"
	"oversell/internal/message"
	"oversell/internal/stock/stream"
)

var (
	//go:embed putback.lua
	putBackSource string
	putBackScript = redis.NewScript(putBackSource)

	//go:embed forget.lua
	forgetSource string
	forgetScript = redis.NewScript(forgetSource)
)

// generation identifies one stock of one sale in Redis. The item's row in the database names the
// current generation, and an order is written only while the generation from which its units were
// taken is current.
//
// A stock that Redis has lost is rebuilt from the orders in the database, as a new
// generation. An order that had not been written by then is refused, so its units cannot
// be sold twice.
type generation struct {
	saleID string
	id     string // unique among all generations of all items
	family string // of the strategies that sell it, "" before the first buyer
	limit  int64  // most units that one buyer may have in the sale; 0: no limit
}

func (i Item) generation() generation { return generation{i.SaleID, i.Generation, i.Family, i.Limit} }

// String returns the value of the sale's key in Redis. The id alone would be enough; the rest saves
// reading the database.
func (g generation) String() string {
	text := g.saleID + ":" + g.id + ":" + g.family
	if g.limit > 0 {
		text += ":" + strconv.FormatInt(g.limit, 10)
	}
	return text
}

// parseGeneration parses what String returns. For anything else it returns the zero generation,
// which is never current.
func parseGeneration(text string) generation {
	parts := strings.SplitN(text, ":", 4)
	if len(parts) < 3 {
		return generation{}
	}
	g := generation{saleID: parts[0], id: parts[1], family: parts[2]}
	if len(parts) == 4 {
		limit, err := strconv.ParseInt(parts[3], 10, 64)
		if err != nil || limit < 1 {
			return generation{}
		}
		g.limit = limit
	}
	return g
}

// stock returns the key of the generation's stock; see stream.Keys.
func (g generation) stock(sku string) string { return stream.Keys{SKU: sku}.Stock(g.saleID, g.id) }

// keys returns all keys of the generation.
func (g generation) keys(sku string) []string {
	return []string{g.stock(sku), fenceKey(g.stock(sku)), stream.Keys{SKU: sku}.Buyers(g.saleID, g.id)}
}

// fenceKey is the key of the largest token that the stock at key has seen.
func fenceKey(key string) string { return key + ":fence" }

// lockKey is the key of a strategy's lock. Each strategy has its own key, because their locks store
// different types.
func lockKey(sku, strategy string) string { return "oversell:{" + sku + "}:lock:" + strategy }

// redisStock reads and writes the stock of items in Redis. It is safe for concurrent use.
type redisStock struct {
	rdb redis.Cmdable
	// seen caches the last reading of each SKU. It saves a round trip: the sale and the stock of the
	// cached generation are read in one command, and a buyer that needs no lock can skip reading the
	// item.
	seen *sync.Map
}

func (r redisStock) remember(sku string, now reading) { r.seen.Store(sku, now) }

func (r redisStock) recall(sku string) (last reading, ok bool) {
	found, _ := r.seen.Load(sku)
	last, ok = found.(reading)
	return last, ok
}

// reading is the result of reading an item once.
type reading struct {
	left    int64 // 0 if the stock is not in Redis, and only Redis was read
	gen     generation
	backend Backend // of the stock
}

// isOf reports whether the reading of Redis agrees with an item's row.
func (r reading) isOf(i Item) bool {
	return r.gen == i.generation() && r.backend == i.backend() && !i.Unpublished
}

// readCurrent reads an item's keys, and also its row if the keys say that the stock is in the
// database. It returns errOtherSale if the caller must reconcile first, because a comparison is due
// or keys are missing. For a strategy that needs the stock in the database it reads only the row, so
// that such a strategy works while Redis is down.
func (s *Service) readCurrent(ctx context.Context, sku string, needed Backend) (reading, error) {
	if needed == InDatabase {
		return s.readItem(ctx, sku)
	}
	if s.reconciliation.mustCompare(sku) {
		return reading{}, fmt.Errorf("reading the stock of %s: it must be compared: %w", sku, errOtherSale)
	}
	r, ok, err := s.redis.read(ctx, sku)
	switch {
	case err != nil:
		last, ok := s.redis.recall(sku)
		if ok && !errors.Is(err, context.Canceled) { // a client that has left says nothing about Redis
			s.reconciliation.doubt(sku, last.gen) // Redis may come back with an older stock
		}
		return reading{}, err
	case !ok:
		return reading{}, fmt.Errorf("reading the stock of %s: Redis does not have it: %w", sku, errOtherSale)
	case !r.backend.inRedis():
		return s.readItem(ctx, sku)
	}
	return r, nil
}

// reconcileStock reconciles, and then reads a stock in Redis again: reconcile may have shared a
// call that read it a while ago, and Redis may have lost it since. If the stock is not in Redis,
// the returned number of units is 0.
func (s *Service) reconcileStock(ctx context.Context, sku string) (reading, error) {
	for range maxCompare {
		r, err := s.reconcile(ctx, sku)
		if err != nil || !r.backend.inRedis() {
			return r, err
		}
		r, ok, err := s.redis.read(ctx, sku)
		if err != nil || ok {
			return r, err
		}
	}
	return reading{}, fmt.Errorf("reading the stock of %s: it has changed %d times meanwhile", sku, maxCompare)
}

// readItem reads the item's row. The units left are only meaningful if the stock is not in Redis.
func (s *Service) readItem(ctx context.Context, sku string) (reading, error) {
	item, err := s.store.item(ctx, sku)
	return reading{item.left(), item.generation(), item.backend()}, err
}

// read returns the units left and the generation. It returns false if Redis lacks either, or if
// the sale keeps changing; the generation is then the one in the sale's key, if any.
//
// It reads the sale together with the stock of the cached generation, in one command. If another
// generation is current, it reads again.
func (r redisStock) read(ctx context.Context, sku string) (reading, bool, error) {
	last, _ := r.recall(sku)
	now := reading{gen: last.gen}
	for range 3 {
		asked := now.gen.stock(sku)
		values, err := r.rdb.MGet(ctx, stream.Keys{SKU: sku}.Sale(), asked).Result()
		if err != nil {
			return reading{}, false, fmt.Errorf("reading the stock of %s: %w", sku, err)
		}
		sale, _ := values[0].(string)
		if now.gen = parseGeneration(sale); now.gen.stock(sku) != asked {
			continue
		}
		text, ok := values[1].(string)
		if !ok {
			return now, false, nil
		}
		now.backend = InRedis
		if keeper := Backend(text); !keeper.inRedis() {
			now.backend = keeper
		} else if now.left, err = strconv.ParseInt(text, 10, 64); err != nil {
			return now, false, fmt.Errorf("the stock of %s is not a number: %w", sku, err)
		}
		r.remember(sku, now)
		return now, true, nil
	}
	return now, false, nil
}

// saleText returns what the sale's key contains, or "" if it does not exist.
func (r redisStock) saleText(ctx context.Context, k stream.Keys) (string, error) {
	text, err := r.rdb.Get(ctx, k.Sale()).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return "", fmt.Errorf("reading the sale of %s: %w", k.SKU, err)
	}
	return text, nil
}

// startTimeout is the time limit of calls to Redis, most of which are made while the item's row is
// locked.
const startTimeout = 2 * time.Second

// start sets the keys of the item's generation, with left units if the stock is in Redis. It removes
// the keys of the generation that Redis has, and those of last. The caller must have locked the
// item's row, so that two starts cannot overlap.
func (r redisStock) start(ctx context.Context, item Item, left int64, last generation) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	k := stream.Keys{SKU: item.SKU}
	text, err := r.saleText(ctx, k)
	if err != nil {
		return err
	}
	gen, value := item.generation(), any(left)
	if !item.backend().inRedis() {
		value = string(item.backend())
	}
	_, err = r.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		for _, old := range []generation{parseGeneration(text), last} {
			p.Del(ctx, old.keys(item.SKU)...)
		}
		p.Set(ctx, gen.stock(item.SKU), value, 0)
		p.Set(ctx, k.Sale(), gen.String(), 0)
		return nil
	})
	if err != nil {
		return fmt.Errorf("setting the stock of %s: %w", item.SKU, err)
	}
	r.seen.Delete(item.SKU)
	return nil
}

// endGeneration ends a generation in Redis: no script accepts an order in it any more. The sale's key
// may still name the generation before it, which ends too. It returns the units that were left in the
// stock of g, or 0 if Redis had lost it. The caller must have locked the item's row.
func (r redisStock) endGeneration(ctx context.Context, sku string, g generation) (left int64, err error) {
	k := stream.Keys{SKU: sku}
	text, err := r.saleText(ctx, k)
	if err != nil {
		return 0, err
	}
	gone := slices.Concat([]string{k.Sale()}, g.keys(sku), parseGeneration(text).keys(sku))
	var stock *redis.StringCmd
	_, err = r.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		stock = p.Get(ctx, g.stock(sku))
		p.Del(ctx, gone...)
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return 0, fmt.Errorf("ending a generation of %s in Redis: %w", sku, err)
	}
	left, _ = stock.Int64() // 0 if it is not a number
	return left, nil
}

// putBack returns units that were taken but not sold to the stock that they were taken from. If
// that stock is gone it does nothing: the next one was counted from the orders, and includes these
// units already. It increments the number atomically, so that it does not overwrite another buyer's
// write.
func (r redisStock) putBack(ctx context.Context, sku string, g generation, quantity int64) error {
	if err := putBackScript.Run(ctx, r.rdb, []string{g.stock(sku)}, quantity).Err(); err != nil {
		return fmt.Errorf("putting back %d units of %s: %w", quantity, sku, err)
	}
	return nil
}

func (r redisStock) unclaim(ctx context.Context, sku, saleID, key string) error {
	_, err := r.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, at := range (stream.Keys{SKU: sku}).Claims(saleID, time.Now()) {
			p.HDel(ctx, at, key)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("releasing the claim on an idempotency key: %w", err)
	}
	return nil
}

// forget removes the keys of a sale that the database does not know, unless Redis has
// another sale by then.
func (r redisStock) forget(ctx context.Context, sku string) error {
	k := stream.Keys{SKU: sku}
	text, err := r.saleText(ctx, k)
	if err != nil {
		return err
	}
	at := append([]string{k.Sale()}, parseGeneration(text).keys(sku)...)
	if err := forgetScript.Run(ctx, r.rdb, at, text).Err(); err != nil {
		return fmt.Errorf("removing the keys of %s: %w", sku, err)
	}
	r.seen.Delete(sku)
	return nil
}

// delete removes the item's keys, including the locks of the given strategies.
func (r redisStock) delete(ctx context.Context, sku string, last generation, strategies []string) error {
	k := stream.Keys{SKU: sku}
	text, err := r.saleText(ctx, k)
	if err != nil {
		return err
	}
	all := []string{k.Sale()}
	for _, g := range []generation{parseGeneration(text), last} {
		all = append(all, g.keys(sku)...)
		all = append(all, k.Claims(g.saleID, time.Now())...)
		all = append(all, k.All(g.saleID)...)
	}
	for _, name := range strategies {
		all = append(all, lockKey(sku, name))
	}
	if err := r.rdb.Del(ctx, all...).Err(); err != nil {
		return fmt.Errorf("deleting the keys of %s: %w", sku, err)
	}
	r.seen.Delete(sku)
	return nil
}

// Clients are the clients of a Guard that works with a stock in Redis or in the database. A client
// that is not used may be nil.
type Clients struct {
	Redis    redis.Cmdable
	DB       *gorm.DB
	Unfenced bool   // the stock does not check fencing tokens
	Strategy string // only tokens of the same strategy are compared
}

// Exclusive returns a Guard that keeps other callers out, for a stock in Redis or in the database.
// If the lock gives out fencing tokens, the stock checks them, unless c.Unfenced is set.
func Exclusive(c Clients, g guard.Guard) Guard { return exclusive{g, c, c.inDatabase} }

// ExclusiveInRedis is like Exclusive, for a stock in Redis only. A program that uses no other Guard
// is linked without a database client.
func ExclusiveInRedis(c Clients, g guard.Guard) Guard { return exclusive{g, c, nil} }

// exclusive is the Guard of a lock.
type exclusive struct {
	guard      guard.Guard
	clients    Clients
	inDatabase func(ctx context.Context, at Location) Counter // nil: the stock is always in Redis
}

// Do runs the section under the lock. If the lock has given the holder a fencing token, the
// section's Counter shows the token to the stock.
func (x exclusive) Do(ctx context.Context, at Location, e guard.Entry, section Section) (guard.Stats, error) {
	return x.guard.Do(ctx, e, func(ctx context.Context) error {
		if !at.inRedis() && x.inDatabase != nil {
			return section(ctx, x.inDatabase(ctx, at))
		}
		if token, fenced := guard.Token(ctx); fenced && !x.clients.Unfenced {
			return section(ctx, &fencedCounter{x.clients.Redis, at.Key, shown{x.clients.Strategy, token}})
		}
		return section(ctx, plainCounter{x.clients.Redis, at.Key})
	})
}

func (c Clients) inDatabase(ctx context.Context, at Location) Counter {
	l := ledger{store: store{c.DB}, at: at}
	if token, fenced := guard.Token(ctx); fenced && !c.Unfenced {
		return &fencedLedger{l, shown{c.Strategy, token}}
	}
	return l
}

// plainCounter reads with GET and writes with SET, so a guard must keep others out.
type plainCounter struct {
	rdb redis.Cmdable
	key string
}

func (c plainCounter) Get(ctx context.Context) (int64, error) {
	left, err := c.rdb.Get(ctx, c.key).Int64()
	if errors.Is(err, redis.Nil) {
		return 0, fmt.Errorf("reading the stock: the key is gone: %w", errOtherSale)
	}
	if err != nil {
		return 0, fmt.Errorf("reading the stock: %w", err)
	}
	return left, nil
}

// Set writes only if the key exists: a generation that has ended must not come back.
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

// fencedCounter reads and writes with the holder's fencing token, which is checked in the same
// step.
type fencedCounter struct {
	rdb redis.Cmdable
	key string
	shown
}

func (c *fencedCounter) value() fence.Value {
	return fence.Value{Client: c.rdb, Key: c.key, Fence: fenceKey(c.key), Lock: c.of}
}

func (c *fencedCounter) Get(ctx context.Context) (int64, error) {
	value, err := c.value().Get(ctx, c.token)
	var stale fence.StaleError
	if errors.As(err, &stale) && c.replace(ctx, stale.Seen) {
		value, err = c.value().Get(ctx, c.token)
	}
	if err != nil {
		return 0, c.failed("reading", err)
	}
	left, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("reading the stock: %w", err)
	}
	return left, nil
}

func (c *fencedCounter) Set(ctx context.Context, left int64) error {
	if err := c.value().Set(ctx, c.token, left); err != nil {
		return c.failed("writing", err)
	}
	return nil
}

func (c *fencedCounter) failed(doing string, err error) error {
	switch {
	case errors.Is(err, fence.ErrStaleToken):
		return message.Errorf(doing+" the stock with token %d: %w", c.token, ErrFenced)
	case errors.Is(err, fence.ErrMissing):
		return fmt.Errorf("%s the stock: the key is gone: %w", doing, errOtherSale)
	}
	return fmt.Errorf("%s the stock: %w", doing, err)
}
