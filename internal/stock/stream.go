package stock

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed settle.lua
	settleSource string
	settleScript = redis.NewScript(settleSource)

	//go:embed bury.lua
	burySource string
	buryScript = redis.NewScript(burySource)

	//go:embed requeue.lua
	requeueSource string
	requeueScript = redis.NewScript(requeueSource)

	//go:embed release.lua
	releaseSource string
	releaseScript = redis.NewScript(releaseSource)

	//go:embed retire.lua
	retireSource string
	retireScript = redis.NewScript(retireSource)
)

const (
	// StreamFamily is the family of the strategies that append orders to a stream. A
	// count writes the orders in the stream of an item that this family sells.
	StreamFamily = "lua_stream"

	// consumerGroup is the consumer group of all streams.
	consumerGroup = "writers"

	// keysKept is how long the idempotency keys of accepted orders are kept after the
	// last order: longer than an order may wait to be written.
	keysKept = 24 * time.Hour

	// maxDead is how many dead letters an item has at most. Older ones are removed.
	maxDead = 10_000

	// deadPrefix begins the place of an order that is a dead letter, see bury.lua.
	deadPrefix = "dead:"

	// streamPage is how many entries are read from a stream at once.
	streamPage = 1_000
)

// stream is the key of the orders that were accepted and are not written yet.
func (k keys) stream() string { return "oversell:{" + k.sku + "}:stream" }

// dead is the key of the dead letters: orders that could not be written.
func (k keys) dead() string { return k.stream() + ":dead" }

// refusals is the key of the hash with how often the database has refused an entry.
func (k keys) refusals() string { return k.stream() + ":refusals" }

// accepted is the key of the hash with each accepted order's entry in the stream.
func (k keys) accepted() string { return k.stream() + ":orders" }

// streamKeys is the key of the hash with the accepted orders by their idempotency keys.
func (k keys) streamKeys(saleID string) string { return k.stream() + ":keys:" + saleID }

// lag is the key of the histogram of the times until orders were written.
func (k keys) lag(saleID string) string { return k.stream() + ":lag:" + saleID }

// ofStream are the keys of an item's stream and of one of its sales.
func (k keys) ofStream(saleID string) []string {
	return []string{k.stream(), k.dead(), k.refusals(), k.accepted(), k.streamKeys(saleID), k.lag(saleID)}
}

// entry is an accepted order in a stream.
type entry struct {
	at         string // its id in the stream
	order      Order
	generation string // that its units were taken from
	buyer      string // "": none
	malformed  error  // why it is not an order
}

// fields are the names and values of the entry.
func (e entry) fields() []any {
	return []any{
		"id", e.order.ID, "sku", e.order.SKU, "sale", e.order.SaleID, "generation", e.generation,
		"quantity", e.order.Quantity, "key", e.key(), "strategy", e.order.Strategy, "time", e.order.CreatedAt.UnixMilli(),
		"buyer", e.buyer,
	}
}

// key is the idempotency key of the order, "" for none.
func (e entry) key() string {
	if e.order.IdempotencyKey == nil {
		return ""
	}
	return *e.order.IdempotencyKey
}

// parseEntry parses an entry of the item's stream. Somebody else may have written it.
func parseEntry(sku string, m redis.XMessage) entry {
	text := func(name string) string {
		value, _ := m.Values[name].(string)
		return value
	}
	e := entry{at: m.ID, generation: text("generation"), buyer: text("buyer"), order: Order{
		ID: text("id"), SKU: sku, SaleID: text("sale"), Strategy: text("strategy"),
	}}
	e.order.Buyer = &e.buyer
	if key := text("key"); key != "" {
		e.order.IdempotencyKey = &key
	}
	milliseconds, err := strconv.ParseInt(text("time"), 10, 64)
	e.order.CreatedAt = time.UnixMilli(milliseconds).UTC()
	quantity, quantityErr := strconv.ParseInt(text("quantity"), 10, 64)
	e.order.Quantity = quantity
	switch err := errors.Join(err, quantityErr); {
	case err != nil:
		e.malformed = err
	case !orderIDForm.MatchString(e.order.ID) || quantity < 1 || quantity > MaxQuantity || len(e.key()) > MaxKey || len(e.buyer) > MaxBuyer:
		e.malformed = errors.New("it has no valid id, quantity, key or buyer")
	}
	return e
}

func parseEntries(sku string, all []redis.XMessage) []entry {
	entries := make([]entry, len(all))
	for i, m := range all {
		entries[i] = parseEntry(sku, m)
	}
	return entries
}

// streams has the accepted orders of items in Redis. It is safe for concurrent use.
type streams struct{ rdb redis.UniversalClient }

// join creates the consumer group of an item's stream, unless it exists. It begins with
// the first entry of the stream. It returns false if there is no stream: nobody deletes one
// that it would create after the item was deleted.
func (s streams) join(ctx context.Context, sku string) (bool, error) {
	err := s.rdb.XGroupCreate(ctx, keys{sku}.stream(), consumerGroup, "0").Err()
	if err == nil || redis.HasErrorPrefix(err, "BUSYGROUP") {
		return true, nil
	}
	if n, lookErr := s.rdb.Exists(ctx, keys{sku}.stream()).Result(); lookErr == nil && n == 0 {
		return false, nil
	}
	return false, fmt.Errorf("creating the consumer group of %s: %w", sku, err)
}

// read reads entries that no consumer has read.
func (s streams) read(ctx context.Context, sku, consumer string, most int) ([]entry, error) {
	found, err := s.rdb.XReadGroup(ctx, &redis.XReadGroupArgs{
		Group: consumerGroup, Consumer: consumer, Streams: []string{keys{sku}.stream(), ">"},
		Count: int64(most), Block: -1, // do not block
	}).Result()
	if errors.Is(err, redis.Nil) || err == nil && len(found) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the stream of %s: %w", sku, err)
	}
	return parseEntries(sku, found[0].Messages), nil
}

// claim takes over entries that a consumer has read and not removed for this long.
func (s streams) claim(ctx context.Context, sku, consumer string, idle time.Duration, most int) ([]entry, error) {
	found, _, err := s.rdb.XAutoClaim(ctx, &redis.XAutoClaimArgs{
		Stream: keys{sku}.stream(), Group: consumerGroup, Consumer: consumer, MinIdle: idle, Start: "0-0", Count: int64(most),
	}).Result()
	if err != nil {
		return nil, fmt.Errorf("claiming entries of the stream of %s: %w", sku, err)
	}
	return parseEntries(sku, found), nil
}

// retire removes consumers that were idle for this long and have no entries, but not the one that asks.
func (s streams) retire(ctx context.Context, sku, asks string, idle time.Duration) error {
	if err := retireScript.Run(ctx, s.rdb, []string{keys{sku}.stream()}, consumerGroup, idle.Milliseconds(), asks).Err(); err != nil {
		return fmt.Errorf("removing dead consumers of the stream of %s: %w", sku, err)
	}
	return nil
}

// countRefusal counts that the database has refused the values of an entry, and returns how often
// it has. Deliveries are no measure: they grow while the database is away. The count of an entry
// that is written after all expires.
func (s streams) countRefusal(ctx context.Context, sku, at string) (int64, error) {
	var n *redis.IntCmd
	_, err := s.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		n = p.HIncrBy(ctx, keys{sku}.refusals(), at, 1)
		p.PExpire(ctx, keys{sku}.refusals(), keysKept)
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("counting the refusals of an entry of %s: %w", sku, err)
	}
	return n.Val(), nil
}

// lengths returns how many entries the streams of items have.
func (s streams) lengths(ctx context.Context, skus []string) ([]int64, error) {
	calls := make([]*redis.IntCmd, len(skus))
	_, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, sku := range skus {
			calls[i] = p.XLen(ctx, keys{sku}.stream())
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the lengths of %d streams: %w", len(skus), err)
	}
	lengths := make([]int64, len(skus))
	for i, call := range calls {
		lengths[i] = call.Val()
	}
	return lengths, nil
}

// all reads the whole stream of an item.
func (s streams) all(ctx context.Context, sku string) ([]entry, error) {
	found, err := s.pages(ctx, keys{sku}.stream(), "+")
	if err != nil {
		return nil, fmt.Errorf("reading the stream of %s: %w", sku, err)
	}
	return parseEntries(sku, found), nil
}

// pages reads a stream page by page, up to an entry, or all of it up to "+".
func (s streams) pages(ctx context.Context, key, to string) (all []redis.XMessage, err error) {
	for from := "-"; ; {
		page, err := s.rdb.XRangeN(ctx, key, from, to, streamPage).Result()
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if len(page) < streamPage {
			return all, nil
		}
		from = "(" + page[len(page)-1].ID
	}
}

// settle removes orders that are in the database from the stream.
func (s streams) settle(ctx context.Context, sku string, written []entry) error {
	k, bySale := keys{sku}, make(map[string][]any)
	for _, e := range written {
		bySale[e.order.SaleID] = append(bySale[e.order.SaleID], e.at, e.order.ID, e.key())
	}
	for saleID, orders := range bySale {
		at := []string{k.stream(), k.accepted(), k.streamKeys(saleID), k.claimed(saleID, time.Now())[0]}
		args := append([]any{consumerGroup, (2 * claimPeriod).Milliseconds()}, orders...)
		if err := settleScript.Run(ctx, s.rdb, at, args...).Err(); err != nil {
			return fmt.Errorf("removing %d written orders of %s from the stream: %w", len(orders)/3, sku, err)
		}
	}
	return nil
}

// bury moves an entry to the dead letters. It reports whether it was still in the stream.
func (s streams) bury(ctx context.Context, e entry, why refusal) (bool, error) {
	k := keys{e.order.SKU}
	g := generation{saleID: e.order.SaleID, id: e.generation}
	key, putBack := e.key(), int64(0)
	if why.kind == kindFailed {
		key = "" // the order may still be written: it keeps its key
	}
	if why.putBack {
		putBack = e.order.Quantity
	}
	args := append([]any{consumerGroup, e.at, e.order.ID, key, putBack, maxDead, e.buyer}, e.fields()...)
	args = append(args, "kind", why.kind, "reason", why.reason, "error", why.err, "refusals", why.refusals, "died", now().UnixMilli())
	at := []string{k.stream(), k.dead(), k.accepted(), k.streamKeys(e.order.SaleID), k.stock(g), k.buyers(g), k.refusals()}
	moved, err := buryScript.Run(ctx, s.rdb, at, args...).Int()
	if err != nil {
		return false, fmt.Errorf("moving order %s to the dead letters: %w", e.order.ID, err)
	}
	return moved == 1, nil
}

// find returns an accepted order, and its dead letter if it has one. It returns false if
// neither the stream nor the dead letters have the order.
func (s streams) find(ctx context.Context, sku, orderID string) (found DeadLetter, ok bool, err error) {
	k := keys{sku}
	for last := ""; ; {
		at, err := s.rdb.HGet(ctx, k.accepted(), orderID).Result()
		if errors.Is(err, redis.Nil) || err == nil && at == last {
			return DeadLetter{}, false, nil
		}
		if err != nil {
			return DeadLetter{}, false, fmt.Errorf("looking up order %s in the stream: %w", orderID, err)
		}
		last = at
		key, dead := k.stream(), strings.HasPrefix(at, deadPrefix)
		if dead {
			key, at = k.dead(), strings.TrimPrefix(at, deadPrefix)
		}
		messages, err := s.rdb.XRange(ctx, key, at, at).Result()
		switch {
		case err != nil:
			return DeadLetter{}, false, fmt.Errorf("looking up order %s in the stream: %w", orderID, err)
		case len(messages) == 0: // it has just been moved or removed: look again
		case dead:
			return parseDead(sku, messages[0]), true, nil
		default:
			e := parseEntry(sku, messages[0])
			return DeadLetter{entry: e, Order: e.order}, true, nil
		}
	}
}

// orderOf returns the id of the accepted order of a sale that has an idempotency key, or "".
func (s streams) orderOf(ctx context.Context, sku, saleID, key string) (string, error) {
	id, err := s.rdb.HGet(ctx, keys{sku}.streamKeys(saleID), key).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return "", fmt.Errorf("looking up the accepted order of an idempotency key: %w", err)
	}
	return id, nil
}

// places returns where each accepted order of an item is: an entry of the stream, or after
// deadPrefix a dead letter.
func (s streams) places(ctx context.Context, sku string) (map[string]string, error) {
	places, err := s.rdb.HGetAll(ctx, keys{sku}.accepted()).Result()
	if err != nil {
		return nil, fmt.Errorf("reading which orders of %s are accepted: %w", sku, err)
	}
	return places, nil
}

// placed returns which of these orders have a place.
func (s streams) placed(ctx context.Context, sku string, ids []string) (map[string]string, error) {
	there := make(map[string]string)
	for page := range slices.Chunk(ids, streamPage) {
		found, err := s.rdb.HMGet(ctx, keys{sku}.accepted(), page...).Result()
		if err != nil {
			return nil, fmt.Errorf("looking up %d orders of %s in the stream: %w", len(page), sku, err)
		}
		for i, at := range found {
			if at, ok := at.(string); ok {
				there[page[i]] = at
			}
		}
	}
	return there, nil
}

// release removes fields of a hash that have these values.
func (s streams) release(ctx context.Context, key string, fields map[string]string) error {
	for page := range slices.Chunk(slices.Collect(maps.Keys(fields)), streamPage) {
		var args []any
		for _, name := range page {
			args = append(args, name, fields[name])
		}
		if err := releaseScript.Run(ctx, s.rdb, []string{key}, args...).Err(); err != nil {
			return fmt.Errorf("removing %d fields of %s: %w", len(page), key, err)
		}
	}
	return nil
}

// fence ends a generation in Redis: no script accepts an order in it any more. The sale's key
// may still name the generation before it, which ends too. It returns the units that were left
// in the stock of g, 0 if Redis had lost it. The caller has locked the item's row.
func (s streams) fence(ctx context.Context, sku string, g generation) (left int64, err error) {
	k := keys{sku}
	text, err := s.rdb.Get(ctx, k.sale()).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return 0, fmt.Errorf("reading the sale of %s: %w", sku, err)
	}
	gone := slices.Concat([]string{k.sale()}, k.of(g), k.of(inSale(text)))
	var stock *redis.StringCmd
	_, err = s.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		stock = p.Get(ctx, k.stock(g))
		p.Del(ctx, gone...)
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return 0, fmt.Errorf("ending a generation of %s in Redis: %w", sku, err)
	}
	left, _ = stock.Int64() // 0 if somebody else wrote it
	return left, nil
}

// snapshot returns the units in the stock of a generation, and the entries that the stream had
// at the same moment, except those that are removed meanwhile. It returns redis.Nil if Redis
// has lost the stock.
func (s streams) snapshot(ctx context.Context, sku string, g generation) (left int64, entries []entry, err error) {
	k := keys{sku}
	var stock *redis.StringCmd
	var last *redis.XMessageSliceCmd
	_, err = s.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		stock = p.Get(ctx, k.stock(g))
		last = p.XRevRangeN(ctx, k.stream(), "+", "-", 1)
		return nil
	})
	if err == nil {
		left, err = stock.Int64()
	}
	if err != nil {
		return 0, nil, fmt.Errorf("reading the stock and the stream of %s: %w", sku, err)
	}
	if len(last.Val()) == 0 {
		return left, nil, nil
	}
	found, err := s.pages(ctx, k.stream(), last.Val()[0].ID)
	if err != nil {
		return 0, nil, fmt.Errorf("reading the stream of %s: %w", sku, err)
	}
	return left, parseEntries(sku, found), nil
}
