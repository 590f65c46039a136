// Package hold is stage 1: a counter in Redis, and beside it a hold that expires.
//
// New: DECRBY takes the units, a key with a ttl remembers the hold, and a sorted set by expiry
// tells the sweep which units to return with INCRBY. The order is written to the database when the
// payment has arrived. Most articles do it this way.
//
// The names are those of tests, of situations in TestSituations, and of anomalies in the lab.
//
// Holds:
//   - a hold keeps its units from other buyers, and returns them when it ends: TestPromises
//   - no more units are held than there are, even if many buyers come at once: TestRush
//
// Breaks:
//   - a payment reads the hold first and writes the order later, without a condition: a late
//     payment sells a unit that the sweep has given back, and so does a payment during a release:
//     late-payment, released-still-payable
//   - an extension has the same flaw: it restores the hold after its unit went to another buyer:
//     extended-after-sold
//   - two sweeps read the same hold, and both return its units: two-sweepers
//   - so do two releases, and two cancellations: double-release, cancelled-twice
//   - if a process dies after DECRBY, the units are lost: killed-with-units
//   - if it dies after it wrote the order, the hold remains, and its unit is sold again:
//     killed-between-order-and-hold
//   - if it dies in a sweep or a release, the units that it was about to give back are stranded:
//     CrashInSweep
//   - the limit and the idempotency key are read before the step that takes the units:
//     limit-outside-the-step, SameKeyAtOnce
//   - the ttl uses the clock of Redis, and the sweep that of its own process: clock-differs
//   - a counter that Redis has lost, by eviction, by a restart or after a week without a hold,
//     starts again with all units: evicted-stock-key-reads-sold-out
//   - a hold of a sale that is over can still be paid: OldSale
//   - a cancelled order still counts towards its buyer's limit, because the buyer is forgotten
//   - an ended hold cannot be told from one that never existed: TestPromises
package hold

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"oversell/internal/holds"
)

// Name is the name of the stage.
const Name = "h1_counter"

// A Stage keeps the holds of sales.
type Stage struct {
	rdb redis.Cmdable
	db  *sql.DB
	sql holds.Dialect
	now func() time.Time
}

// New returns the stage on its backends.
func New(b holds.Backends) *Stage {
	return &Stage{rdb: b.Redis, db: b.DB, sql: b.SQL, now: b.Clock()}
}

// Take takes units from the stock for a hold.
func (s *Stage) Take(ctx context.Context, r holds.Request) (holds.Hold, error) {
	if h, found, err := s.byKey(ctx, r); found || err != nil {
		return h, err
	}
	has, err := s.has(ctx, r.SKU, r.SaleID, r.Buyer)
	if err != nil {
		return holds.Hold{}, err
	}
	if r.Limit > 0 && has+r.Quantity > r.Limit {
		return holds.Hold{}, fmt.Errorf("%w: %d of %d", holds.ErrLimit, has, r.Limit)
	}
	if err := s.takeUnits(ctx, r); err != nil {
		return holds.Hold{}, err
	}
	return s.insert(ctx, r)
}

// Look returns a hold as it is now.
func (s *Stage) Look(ctx context.Context, id string) (holds.Hold, error) {
	h, err := s.read(ctx, id)
	return h.At(s.now()), err
}

// Claim turns a hold into an order.
func (s *Stage) Claim(ctx context.Context, id string, _ int64, paymentID string) (holds.Order, error) {
	h, err := s.Look(ctx, id)
	if err != nil {
		return holds.Order{}, err
	}
	if h.Status == holds.Paid && h.PaymentID == paymentID {
		return holds.ReadOrder(ctx, s.db, id)
	}
	if h.Status != holds.Held {
		return holds.Order{}, holds.NotHeldError{Status: h.Status}
	}
	h.PaymentID = paymentID
	order, err := s.insertOrder(ctx, h.Order(s.now()))
	if err != nil {
		return holds.Order{}, err
	}
	return order, s.end(ctx, h, holds.Paid)
}

// Extend lets a hold expire later.
func (s *Stage) Extend(ctx context.Context, id string, _ int64, ttl, most time.Duration) (holds.Hold, error) {
	h, err := s.Look(ctx, id)
	if err != nil {
		return h, err
	}
	if h.Status != holds.Held {
		return h, holds.NotHeldError{Status: h.Status}
	}
	expires, err := h.Extended(s.now(), ttl, most)
	if err != nil {
		return h, err
	}
	return s.extend(ctx, h, expires)
}

// Release returns the units of a hold to the stock.
func (s *Stage) Release(ctx context.Context, id string, _ int64) error {
	h, err := s.Look(ctx, id)
	if err != nil {
		return err
	}
	if h.Status != holds.Held {
		return holds.NotHeldError{Status: h.Status}
	}
	if err := s.end(ctx, h, holds.Released); err != nil {
		return err
	}
	return s.giveBack(ctx, h)
}

// Cancel removes the order of a paid hold and returns its units to the stock.
func (s *Stage) Cancel(ctx context.Context, id string, _ int64) error {
	h, err := s.Look(ctx, id)
	if err != nil {
		return err
	}
	if h.Status != holds.Paid {
		return holds.NotHeldError{Status: h.Status}
	}
	if err := s.deleteOrder(ctx, id); err != nil {
		return err
	}
	return s.giveBack(ctx, h)
}

// Sweep ends holds that have expired, and returns their units to the stock.
func (s *Stage) Sweep(ctx context.Context, sku string, limit int) (expired int, err error) {
	due, err := s.due(ctx, sku, limit)
	if err != nil {
		return 0, err
	}
	for _, h := range due {
		if endErr := s.end(ctx, h, holds.Expired); endErr != nil {
			err = cmp.Or(err, endErr) // the next hold may succeed
			continue
		}
		if err := s.giveBack(ctx, h); err != nil {
			return expired, err
		}
		expired++
	}
	return expired, err
}

// The keys in Redis: the units left of a sale, the units of a buyer, the hold of an idempotency
// key, the holds of an item by expiry, and a hold.
func leftKey(sku, saleID string) string { return "oversell:h1:" + sku + ":" + saleID + ":left" }
func hasKey(sku, saleID, who string) string {
	return "oversell:h1:" + sku + ":" + saleID + ":has:" + who
}
func firstKey(sku, saleID, k string) string { return "oversell:h1:" + sku + ":" + saleID + ":key:" + k }
func expiryKey(sku string) string           { return "oversell:h1:" + sku + ":expiry" }
func holdKey(id string) string              { return "oversell:h1:hold:" + id }

// text encodes a hold for Redis. It is stored at the hold's key and in the sorted set, because the
// key has expired when the sweep runs. It adds the sale, which the JSON of a hold leaves out.
func text(h holds.Hold) string {
	b, err := json.Marshal([]any{h.SaleID, h})
	if err != nil {
		panic("a hold is not JSON: " + err.Error()) // it has strings, numbers and times
	}
	return string(b)
}

// parse decodes a hold that the function text has encoded.
func parse(text string) (h holds.Hold, err error) {
	var saleID string
	if err := json.Unmarshal([]byte(text), &[]any{&saleID, &h}); err != nil {
		return holds.Hold{}, fmt.Errorf("reading a hold: %w", err)
	}
	h.SaleID = saleID
	return h, nil
}

// read reads a hold. If it no longer exists, it may have become an order.
func (s *Stage) read(ctx context.Context, id string) (holds.Hold, error) {
	text, err := s.rdb.Get(ctx, holdKey(id)).Result()
	if errors.Is(err, redis.Nil) {
		return s.paid(ctx, id)
	}
	if err != nil {
		return holds.Hold{}, fmt.Errorf("reading hold %s: %w", id, err)
	}
	return parse(text)
}

// paid reconstructs a hold from the order that it became.
func (s *Stage) paid(ctx context.Context, id string) (holds.Hold, error) {
	o, err := holds.ReadOrder(ctx, s.db, id)
	if errors.Is(err, sql.ErrNoRows) {
		err = holds.ErrUnknownHold
	}
	if err != nil {
		return holds.Hold{}, err
	}
	return holds.Hold{ID: id, SKU: o.SKU, SaleID: o.SaleID, Quantity: o.Quantity, Status: holds.Paid,
		PaymentID: o.PaymentID, CreatedAt: o.CreatedAt}, nil
}

// byKey returns the hold of an earlier request with the same idempotency key.
func (s *Stage) byKey(ctx context.Context, r holds.Request) (h holds.Hold, found bool, err error) {
	if r.Key == "" {
		return holds.Hold{}, false, nil
	}
	id, err := s.rdb.Get(ctx, firstKey(r.SKU, r.SaleID, r.Key)).Result()
	if err == nil {
		h, err = s.read(ctx, id)
	}
	if errors.Is(err, redis.Nil) || errors.Is(err, holds.ErrUnknownHold) {
		return holds.Hold{}, false, nil
	}
	if err == nil && (h.Status == holds.Held && h.Buyer != r.Buyer || h.Quantity != r.Quantity) {
		err = holds.ErrKeyReused
	}
	return h.At(s.now()), true, err
}

// due reads holds that have expired.
func (s *Stage) due(ctx context.Context, sku string, limit int) ([]holds.Hold, error) {
	return s.byExpiry(ctx, sku, &redis.ZRangeBy{Min: "-inf", Max: s.milliseconds(), Count: int64(limit)})
}

func (s *Stage) byExpiry(ctx context.Context, sku string, between *redis.ZRangeBy) ([]holds.Hold, error) {
	texts, err := s.rdb.ZRangeByScore(ctx, expiryKey(sku), between).Result()
	if err != nil {
		return nil, fmt.Errorf("reading the holds of %s: %w", sku, err)
	}
	all := make([]holds.Hold, len(texts))
	for i, text := range texts {
		if all[i], err = parse(text); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (s *Stage) milliseconds() string { return strconv.FormatInt(s.now().UnixMilli(), 10) }

// has returns how many units a buyer has.
func (s *Stage) has(ctx context.Context, sku, saleID, buyer string) (units int64, err error) {
	units, err = s.rdb.Get(ctx, hasKey(sku, saleID, buyer)).Int64()
	if err != nil && !errors.Is(err, redis.Nil) {
		return 0, fmt.Errorf("reading what the buyer has: %w", err)
	}
	return units, nil
}

// ofSale reads the holds of a sale that have not been ended, as they are now.
func (s *Stage) ofSale(ctx context.Context, sku, saleID string) (all []holds.Hold, err error) {
	there, err := s.byExpiry(ctx, sku, &redis.ZRangeBy{Min: "-inf", Max: "+inf"})
	for _, h := range there {
		if h.SaleID == saleID {
			all = append(all, h.At(s.now()))
		}
	}
	return all, err
}

// List returns the newest holds of a sale that have not been ended. The stage forgets ended holds.
func (s *Stage) List(ctx context.Context, sku, saleID string, limit int) ([]holds.Hold, error) {
	all, err := s.ofSale(ctx, sku, saleID)
	slices.SortFunc(all, func(a, b holds.Hold) int { return cmp.Compare(b.ID, a.ID) }) // ids begin with the time
	return all[:min(len(all), limit)], err
}

// Units counts the units of a sale that are not sold.
func (s *Stage) Units(ctx context.Context, sku, saleID string) (u holds.Units, err error) {
	if u.Left, err = s.left(ctx, sku, saleID); err != nil {
		return u, err
	}
	all, err := s.ofSale(ctx, sku, saleID)
	for _, h := range all {
		if h.Status == holds.Held {
			u.Held += h.Quantity
		} else {
			u.Due += h.Quantity
		}
	}
	return u, err
}

// left reads the units left of a sale. The first reader sets the counter.
func (s *Stage) left(ctx context.Context, sku, saleID string) (units int64, err error) {
	units, err = s.rdb.Get(ctx, leftKey(sku, saleID)).Int64()
	if errors.Is(err, redis.Nil) {
		return s.begin(ctx, sku, saleID)
	}
	if err != nil {
		return 0, fmt.Errorf("reading the counter of %s: %w", sku, err)
	}
	return units, nil
}

// keep is how long the keys of a sale are kept after its last hold.
const keep = 7 * 24 * time.Hour

// begin sets the counter of a sale from the item's row, unless another process was faster.
func (s *Stage) begin(ctx context.Context, sku, saleID string) (left int64, err error) {
	err = s.db.QueryRowContext(ctx, "SELECT remaining FROM oversell_items WHERE sku = ? AND sale_id = ? AND "+
		"keeper = 'holds'", sku, saleID).Scan(&left)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, holds.ErrSaleOver
	}
	if err != nil {
		return 0, fmt.Errorf("reading the stock of %s: %w", sku, err)
	}
	if err := s.rdb.SetNX(ctx, leftKey(sku, saleID), left, keep).Err(); err != nil {
		return 0, fmt.Errorf("setting the counter of %s: %w", sku, err)
	}
	return left, nil
}

// takeUnits takes the units from the counter, and puts them back if there were not enough.
func (s *Stage) takeUnits(ctx context.Context, r holds.Request) error {
	left, err := s.left(ctx, r.SKU, r.SaleID)
	if err != nil {
		return err
	}
	if left < r.Quantity {
		return fmt.Errorf("%w: %d left", holds.ErrSoldOut, left)
	}
	left, err = s.rdb.DecrBy(ctx, leftKey(r.SKU, r.SaleID), r.Quantity).Result()
	if err != nil {
		return fmt.Errorf("taking the units: %w", err)
	}
	if left >= 0 {
		return nil
	}
	if err := s.rdb.IncrBy(ctx, leftKey(r.SKU, r.SaleID), r.Quantity).Err(); err != nil {
		return fmt.Errorf("giving the units back: %w", err)
	}
	return fmt.Errorf("%w: %d left", holds.ErrSoldOut, max(0, left+r.Quantity))
}

// giveBack returns the units of a hold to its sale.
func (s *Stage) giveBack(ctx context.Context, h holds.Hold) error {
	return s.write(ctx, func(p redis.Pipeliner) {
		p.IncrBy(ctx, leftKey(h.SKU, h.SaleID), h.Quantity)
		p.DecrBy(ctx, hasKey(h.SKU, h.SaleID, h.Buyer), h.Quantity)
	})
}

// insert writes the hold for units that were taken.
func (s *Stage) insert(ctx context.Context, r holds.Request) (holds.Hold, error) {
	now := s.now().UTC().Truncate(time.Millisecond)
	h := holds.Hold{
		ID: r.ID, SKU: r.SKU, SaleID: r.SaleID, Buyer: r.Buyer, Quantity: r.Quantity, Status: holds.Held,
		CreatedAt: now, ExpiresAt: now.Add(r.TTL).Truncate(time.Millisecond),
	}
	err := s.write(ctx, func(p redis.Pipeliner) {
		p.Set(ctx, holdKey(h.ID), text(h), r.TTL)
		p.ZAdd(ctx, expiryKey(h.SKU), redis.Z{Score: float64(h.ExpiresAt.UnixMilli()), Member: text(h)})
		p.IncrBy(ctx, hasKey(h.SKU, h.SaleID, h.Buyer), h.Quantity)
		if r.Key != "" {
			p.Set(ctx, firstKey(h.SKU, h.SaleID, r.Key), h.ID, keep)
		}
		p.Expire(ctx, hasKey(h.SKU, h.SaleID, h.Buyer), keep)
		p.Expire(ctx, leftKey(h.SKU, h.SaleID), keep)
	})
	return h, err
}

// extend writes a hold with another expiry.
func (s *Stage) extend(ctx context.Context, h holds.Hold, expires time.Time) (holds.Hold, error) {
	before := text(h)
	h.ExpiresAt = expires
	err := s.write(ctx, func(p redis.Pipeliner) {
		p.Set(ctx, holdKey(h.ID), text(h), expires.Sub(s.now()))
		p.ZAdd(ctx, expiryKey(h.SKU), redis.Z{Score: float64(expires.UnixMilli()), Member: text(h)})
		if before != text(h) {
			p.ZRem(ctx, expiryKey(h.SKU), before)
		}
	})
	return h, err
}

// insertOrder writes the order of a hold. If the payment is reported again, it returns the existing
// order.
func (s *Stage) insertOrder(ctx context.Context, o holds.Order) (holds.Order, error) {
	_, err := s.db.ExecContext(ctx,
		"INSERT INTO oversell_orders (id, sku, sale_id, quantity, idempotency_key, strategy, created_at) VALUES "+
			"(?, ?, ?, ?, ?, ?, ?)",
		o.ID, o.SKU, o.SaleID, o.Quantity, o.PaymentID, Name, o.CreatedAt)
	if err == nil {
		return o, nil
	}
	if !s.sql.Duplicate(err) {
		return holds.Order{}, fmt.Errorf("writing order %s: %w", o.ID, err)
	}
	there, err := holds.ReadOrder(ctx, s.db, o.ID)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return holds.Order{}, holds.ErrPaymentUsed
	case err == nil && there.PaymentID != o.PaymentID:
		return holds.Order{}, holds.NotHeldError{Status: holds.Paid}
	}
	return there, err
}

// deleteOrder removes the order of a hold.
func (s *Stage) deleteOrder(ctx context.Context, id string) error {
	if _, err := s.db.ExecContext(ctx, "DELETE FROM oversell_orders WHERE id = ?", id); err != nil {
		return fmt.Errorf("removing order %s: %w", id, err)
	}
	return nil
}

// end removes the hold: this stage does not remember how a hold ended.
func (s *Stage) end(ctx context.Context, h holds.Hold, _ holds.Status) error {
	h.Status, h.PaymentID = holds.Held, "" // as it was written
	return s.write(ctx, func(p redis.Pipeliner) {
		p.Del(ctx, holdKey(h.ID))
		p.ZRem(ctx, expiryKey(h.SKU), text(h))
	})
}

// write sends commands in one round trip.
func (s *Stage) write(ctx context.Context, commands func(redis.Pipeliner)) error {
	_, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		commands(p)
		return nil
	})
	if err != nil {
		return fmt.Errorf("writing a hold or its units: %w", err)
	}
	return nil
}
