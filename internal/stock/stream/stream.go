// Package stream keeps the orders that a sale has accepted until they are in the database. For each
// item Redis has a stream of these orders, a stream of dead letters (orders that the database did
// not take), and hashes that find an order by its id and by its idempotency key. A Consumer writes
// the orders to the database.
//
// All that the package knows about a sale is the names of its keys (Keys) and the functions that a
// Consumer calls (Sale).
package stream

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
)

const (
	// group is the consumer group of all streams.
	group = "writers"

	// consumer is the name of all processes in the group. Redis gives each entry to one reader, and
	// measures how long the entry waits, whatever the readers are called. So no name of a dead process
	// is left over.
	consumer = "writer"

	// KeysKept is how long the idempotency keys of accepted orders are kept after the last order:
	// longer than an order should ever wait to be written.
	KeysKept = 24 * time.Hour

	// maxDead is the maximum number of dead letters of an item. Older ones are removed.
	maxDead = 10_000

	// deadPrefix begins the place of an order that is a dead letter; see bury.lua.
	deadPrefix = "dead:"

	// page is how many entries are read from a stream in one call.
	page = 1_000
)

// Keys are an item's keys in Redis. They share a hash tag, so that a cluster keeps them in one slot.
type Keys struct{ SKU string }

func (k Keys) prefix() string { return "oversell:{" + k.SKU + "}:" }

// Sale is the key of the name of the current generation.
func (k Keys) Sale() string { return k.prefix() + "sale" }

// Stock is the key of the units left, a plain number, or of the keeper if that is not Redis. Each
// generation has its own key, so that a late holder of one generation cannot write into the next.
func (k Keys) Stock(saleID, generation string) string {
	return k.prefix() + "stock:" + saleID + ":" + generation
}

// Buyers is the key of the hash with the units that each buyer has in the sale, for an item with a
// limit. The hash has a field with an empty name, so that it exists as long as the stock does.
func (k Keys) Buyers(saleID, generation string) string {
	return k.Stock(saleID, generation) + ":buyers"
}

// claimPeriod is the shortest time that a claim on an idempotency key lasts; the longest is
// ClaimsKept. Most buyers need less time between looking up their key and taking units; for slower
// ones the unique index in the database decides. Claims of one period share a hash, so that only the
// claims of two periods are kept, even in a long sale.
const (
	claimPeriod = 10 * time.Second
	ClaimsKept  = 2 * claimPeriod
)

// Claims returns the keys of the idempotency keys that are claimed in the period at the given time,
// and in the period before it.
func (k Keys) Claims(saleID string, at time.Time) []string {
	claims, period := k.prefix()+"claims:"+saleID+":", at.UnixMilli()/claimPeriod.Milliseconds()
	return []string{claims + strconv.FormatInt(period, 10), claims + strconv.FormatInt(period-1, 10)}
}

// Stream is the key of the orders that were accepted and are not written yet.
func (k Keys) Stream() string { return k.prefix() + "stream" }

// Dead is the key of the dead letters: orders that could not be written.
func (k Keys) Dead() string { return k.Stream() + ":dead" }

// Refusals is the key of the hash that counts how many times the database has refused each entry.
func (k Keys) Refusals() string { return k.Stream() + ":refusals" }

// Places is the key of the hash that maps each accepted order's id to its entry in the stream.
func (k Keys) Places() string { return k.Stream() + ":orders" }

// ByKey is the key of the hash that maps idempotency keys to accepted orders.
func (k Keys) ByKey(saleID string) string { return k.Stream() + ":keys:" + saleID }

// Lag is the key of the histogram of lags. A lag is how long an order waited to be written.
func (k Keys) Lag(saleID string) string { return k.Stream() + ":lag:" + saleID }

// All returns the keys of an item's stream, including those of one of its sales.
func (k Keys) All(saleID string) []string {
	return []string{k.Stream(), k.Dead(), k.Refusals(), k.Places(), k.ByKey(saleID), k.Lag(saleID)}
}

// Entry is an accepted order in a stream. Its JSON form is a part of that of a DeadLetter.
type Entry struct {
	ID         string    `json:"order_id"`
	Quantity   int64     `json:"quantity"`
	Buyer      string    `json:"buyer,omitempty"`
	Strategy   string    `json:"strategy"`
	AcceptedAt time.Time `json:"accepted_at"`

	At          string `json:"-"` // its id in the stream
	SKU, SaleID string `json:"-"`
	Generation  string `json:"-"` // the generation that its units were taken from
	Key         string `json:"-"` // the idempotency key; "" for none
	Malformed   error  `json:"-"` // why it is not a valid order; nil: it is valid
}

// fields returns the field names and values of the stream entry.
func (e Entry) fields() []any {
	return []any{
		"id", e.ID, "sku", e.SKU, "sale", e.SaleID, "generation", e.Generation, "quantity", e.Quantity,
		"key", e.Key, "strategy", e.Strategy, "time", e.AcceptedAt.UnixMilli(), "buyer", e.Buyer,
	}
}

// parseEntry parses an entry of the item's stream. The entry may be malformed.
func (s Streams) parseEntry(sku string, m redis.XMessage) Entry {
	text := func(name string) string {
		value, _ := m.Values[name].(string)
		return value
	}
	e := Entry{
		At: m.ID, ID: text("id"), SKU: sku, SaleID: text("sale"), Generation: text("generation"),
		Key: text("key"), Buyer: text("buyer"), Strategy: text("strategy"),
	}
	milliseconds, err := strconv.ParseInt(text("time"), 10, 64)
	e.AcceptedAt = time.UnixMilli(milliseconds).UTC()
	quantity, quantityErr := strconv.ParseInt(text("quantity"), 10, 64)
	e.Quantity = quantity
	if e.Malformed = errors.Join(err, quantityErr); e.Malformed == nil {
		e.Malformed = s.Check(e)
	}
	return e
}

func (s Streams) parseEntries(sku string, all []redis.XMessage) []Entry {
	entries := make([]Entry, len(all))
	for i, m := range all {
		entries[i] = s.parseEntry(sku, m)
	}
	return entries
}

// Streams stores the accepted orders of items in Redis. It is safe for concurrent use.
type Streams struct {
	Redis redis.Cmdable
	Check func(Entry) error // returns why an entry is not a valid order, or nil
}

// join creates the consumer group of an item's stream, unless it exists. The group begins with the
// first entry of the stream. If there is no stream, join returns false and creates none: after the
// item was deleted, nobody would delete the stream.
func (s Streams) join(ctx context.Context, sku string) (bool, error) {
	err := s.Redis.XGroupCreate(ctx, Keys{sku}.Stream(), group, "0").Err()
	if err == nil || redis.HasErrorPrefix(err, "BUSYGROUP") {
		return true, nil
	}
	if n, lookErr := s.Redis.Exists(ctx, Keys{sku}.Stream()).Result(); lookErr == nil && n == 0 {
		return false, nil
	}
	return false, fmt.Errorf("creating the consumer group of %s: %w", sku, err)
}

// read reads entries that no process has read.
func (s Streams) read(ctx context.Context, sku string, most int) ([]Entry, error) {
	found, err := s.Redis.XReadGroup(ctx, &redis.XReadGroupArgs{
		Group: group, Consumer: consumer, Streams: []string{Keys{sku}.Stream(), ">"},
		Count: int64(most), Block: -1, // do not block
	}).Result()
	if errors.Is(err, redis.Nil) || err == nil && len(found) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the stream of %s: %w", sku, err)
	}
	return s.parseEntries(sku, found[0].Messages), nil
}

// claim takes over entries that a process read at least idle ago and has not removed.
func (s Streams) claim(ctx context.Context, sku string, idle time.Duration, most int) ([]Entry, error) {
	found, _, err := s.Redis.XAutoClaim(ctx, &redis.XAutoClaimArgs{
		Stream: Keys{sku}.Stream(), Group: group, Consumer: consumer, MinIdle: idle, Start: "0-0", Count: int64(most),
	}).Result()
	if err != nil {
		return nil, fmt.Errorf("claiming entries of the stream of %s: %w", sku, err)
	}
	return s.parseEntries(sku, found), nil
}

// countRefusal increments the number of times that the database has refused an entry's values, and
// returns it. The number of deliveries cannot be used instead, because it grows while the database
// is unavailable. If the entry is written in the end, its count expires.
func (s Streams) countRefusal(ctx context.Context, sku, at string) (int64, error) {
	var n *redis.IntCmd
	_, err := s.Redis.TxPipelined(ctx, func(p redis.Pipeliner) error {
		n = p.HIncrBy(ctx, Keys{sku}.Refusals(), at, 1)
		p.PExpire(ctx, Keys{sku}.Refusals(), KeysKept)
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("counting the refusals of an entry of %s: %w", sku, err)
	}
	return n.Val(), nil
}

// Lengths returns how many entries the streams of items have.
func (s Streams) Lengths(ctx context.Context, skus []string) ([]int64, error) {
	calls := make([]*redis.IntCmd, len(skus))
	_, err := s.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, sku := range skus {
			calls[i] = p.XLen(ctx, Keys{sku}.Stream())
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

// All reads the whole stream of an item.
func (s Streams) All(ctx context.Context, sku string) ([]Entry, error) {
	found, err := s.pages(ctx, Keys{sku}.Stream(), "+")
	if err != nil {
		return nil, fmt.Errorf("reading the stream of %s: %w", sku, err)
	}
	return s.parseEntries(sku, found), nil
}

// pages reads a stream page by page. The last entry that it reads is to, or the end of the stream
// if to is "+".
func (s Streams) pages(ctx context.Context, key, to string) (all []redis.XMessage, err error) {
	for from := "-"; ; {
		found, err := s.Redis.XRangeN(ctx, key, from, to, page).Result()
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
		if len(found) < page {
			return all, nil
		}
		from = "(" + found[len(found)-1].ID
	}
}

// settle removes orders that are in the database from the stream.
func (s Streams) settle(ctx context.Context, sku string, written []Entry) error {
	k, bySale := Keys{sku}, make(map[string][]any)
	for _, e := range written {
		bySale[e.SaleID] = append(bySale[e.SaleID], e.At, e.ID, e.Key)
	}
	for saleID, orders := range bySale {
		at := []string{k.Stream(), k.Places(), k.ByKey(saleID), k.Claims(saleID, time.Now())[0]}
		args := append([]any{group, ClaimsKept.Milliseconds()}, orders...)
		if err := settleScript.Run(ctx, s.Redis, at, args...).Err(); err != nil {
			return fmt.Errorf("removing %d written orders of %s from the stream: %w", len(orders)/3, sku, err)
		}
	}
	return nil
}

// bury moves an entry to the dead letters. It reports whether it was still in the stream.
func (s Streams) bury(ctx context.Context, e Entry, why Refusal) (bool, error) {
	k, key, putBack := Keys{e.SKU}, e.Key, int64(0)
	if why.Kind == Failed {
		key = "" // the order may still be written: it keeps its key
	}
	if why.PutBack {
		putBack = e.Quantity
	}
	args := append([]any{group, e.At, e.ID, key, putBack, maxDead, e.Buyer}, e.fields()...)
	args = append(args, "kind", why.Kind, "reason", why.Reason, "error", why.Err, "refusals", why.Refusals, "died",
		time.Now().UnixMilli())
	at := []string{k.Stream(), k.Dead(), k.Places(), k.ByKey(e.SaleID), k.Stock(e.SaleID, e.Generation),
		k.Buyers(e.SaleID, e.Generation), k.Refusals()}
	moved, err := buryScript.Run(ctx, s.Redis, at, args...).Int()
	if err != nil {
		return false, fmt.Errorf("moving order %s to the dead letters: %w", e.ID, err)
	}
	return moved == 1, nil
}

// Find returns an accepted order, and its dead letter if it has one. It returns false if
// neither the stream nor the dead letters have the order.
func (s Streams) Find(ctx context.Context, sku, orderID string) (found DeadLetter, ok bool, err error) {
	k := Keys{sku}
	for last := ""; ; {
		at, err := s.Redis.HGet(ctx, k.Places(), orderID).Result()
		if errors.Is(err, redis.Nil) || err == nil && at == last {
			return DeadLetter{}, false, nil
		}
		if err != nil {
			return DeadLetter{}, false, fmt.Errorf("looking up order %s in the stream: %w", orderID, err)
		}
		last = at
		key, dead := k.Stream(), IsDead(at)
		if dead {
			key, at = k.Dead(), strings.TrimPrefix(at, deadPrefix)
		}
		messages, err := s.Redis.XRange(ctx, key, at, at).Result()
		switch {
		case err != nil:
			return DeadLetter{}, false, fmt.Errorf("looking up order %s in the stream: %w", orderID, err)
		case len(messages) == 0: // it has just been moved or removed: look again
		case dead:
			return s.parseDead(sku, messages[0]), true, nil
		default:
			return DeadLetter{Entry: s.parseEntry(sku, messages[0])}, true, nil
		}
	}
}

// OrderOf looks up an idempotency key of a sale. It returns the id of the accepted order that has
// the key, or "".
func (s Streams) OrderOf(ctx context.Context, sku, saleID, key string) (string, error) {
	id, err := s.Redis.HGet(ctx, Keys{sku}.ByKey(saleID), key).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return "", fmt.Errorf("looking up the accepted order of an idempotency key: %w", err)
	}
	return id, nil
}

// Look reads the stream of an item. It also maps each accepted order without an entry to its place
// in the stream: Redis has lost these orders, unless they were removed in the meantime.
func (s Streams) Look(ctx context.Context, sku string) (entries []Entry, gone map[string]string, err error) {
	gone, err = s.Redis.HGetAll(ctx, Keys{sku}.Places()).Result() // first: orders settled later are written
	if err != nil {
		return nil, nil, fmt.Errorf("reading which orders of %s are accepted: %w", sku, err)
	}
	if entries, err = s.All(ctx, sku); err != nil {
		return nil, nil, err
	}
	maps.DeleteFunc(gone, func(_, at string) bool { return IsDead(at) })
	for _, e := range entries {
		delete(gone, e.ID)
	}
	return entries, gone, nil
}

// Unwritten returns the accepted orders of an item that may still be written: in the stream, and
// in dead letters of the kind Failed.
func (s Streams) Unwritten(ctx context.Context, sku string) ([]Entry, error) {
	entries, err := s.All(ctx, sku)
	if err != nil {
		return nil, err
	}
	letters, err := s.DeadLetters(ctx, sku)
	for _, letter := range letters {
		if letter.Kind == Failed {
			entries = append(entries, letter.Entry)
		}
	}
	return entries, err
}

// IsDead reports whether a place belongs to a dead letter.
func IsDead(place string) bool { return strings.HasPrefix(place, deadPrefix) }

// Placed returns the places of the given orders by their id, without orders that have no place.
func (s Streams) Placed(ctx context.Context, sku string, ids []string) (map[string]string, error) {
	there := make(map[string]string)
	for some := range slices.Chunk(ids, page) {
		found, err := s.Redis.HMGet(ctx, Keys{sku}.Places(), some...).Result()
		if err != nil {
			return nil, fmt.Errorf("looking up %d orders of %s in the stream: %w", len(some), sku, err)
		}
		for i, at := range found {
			if at, ok := at.(string); ok {
				there[some[i]] = at
			}
		}
	}
	return there, nil
}

// Release removes fields of a hash, if they still have the given values.
func (s Streams) Release(ctx context.Context, key string, fields map[string]string) error {
	for some := range slices.Chunk(slices.Collect(maps.Keys(fields)), page) {
		var args []any
		for _, name := range some {
			args = append(args, name, fields[name])
		}
		if err := releaseScript.Run(ctx, s.Redis, []string{key}, args...).Err(); err != nil {
			return fmt.Errorf("removing %d fields of %s: %w", len(some), key, err)
		}
	}
	return nil
}

// Snapshot returns the units in the stock at a key, and the entries that the stream had at the same
// moment, except entries that are removed while the stream is read. It returns redis.Nil if Redis
// has lost the stock.
func (s Streams) Snapshot(ctx context.Context, sku, stockKey string) (left int64, entries []Entry, err error) {
	k := Keys{sku}
	var stock *redis.StringCmd
	var last *redis.XMessageSliceCmd
	_, err = s.Redis.TxPipelined(ctx, func(p redis.Pipeliner) error {
		stock = p.Get(ctx, stockKey)
		last = p.XRevRangeN(ctx, k.Stream(), "+", "-", 1)
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
	found, err := s.pages(ctx, k.Stream(), last.Val()[0].ID)
	if err != nil {
		return 0, nil, fmt.Errorf("reading the stream of %s: %w", sku, err)
	}
	return left, s.parseEntries(sku, found), nil
}
