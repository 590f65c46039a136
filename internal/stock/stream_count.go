package stock

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"oversell/internal/guard"
	"oversell/internal/stock/stream"
)

// streamed reports whether StreamFamily sells the item's current generation.
func (i Item) streamed() bool { return i.Family == StreamFamily && i.backend().inRedis() }

// endStream ends the item's current generation in Redis, if orders may have been accepted in it,
// and writes those that are in the stream. The caller must have locked the item's row in tx, and
// must give the item another generation, so that an order that is not written now is never written.
// So a count includes everything that was accepted, and each order is either written or refused.
//
// The orders stay in the stream until a consumer finds them in the database. If ended is true, the
// stock was removed, and left is how many units it had.
func (s *Service) endStream(ctx context.Context, tx store, item Item) (left int64, ended bool, err error) {
	if !item.streamed() && !s.cfg.Mixed || item.Generation == "" || !item.backend().inRedis() {
		return 0, false, nil
	}
	rctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if !item.streamed() {
		if lengths, err := s.streams.Lengths(rctx, []string{item.SKU}); err != nil || lengths[0] == 0 {
			return 0, false, err
		}
	}
	if left, err = s.redis.endGeneration(rctx, item.SKU, item.generation()); err != nil {
		return 0, false, err
	}
	entries, gone, err := s.streams.Look(rctx, item.SKU)
	if err != nil {
		return 0, false, err
	}
	if err := tx.writeLast(item, entries); err != nil {
		return 0, false, err
	}
	s.accepted.change(item.SKU, func(i *acceptedItem) { i.ended = item.Generation })
	s.accepted.follower.Wake()
	return left, true, s.recordLost(ctx, tx, item.SKU, item.SaleID, slices.Collect(maps.Keys(gone)))
}

// recordLost records as lost those of the orders that are neither in the database nor dead letters.
// The caller must know that they are not in the stream, and that their generation has ended or ends
// in tx.
func (s *Service) recordLost(ctx context.Context, tx store, sku, saleID string, ids []string) error {
	for page := range slices.Chunk(ids, pageSize) {
		written, err := tx.written(ctx, page...)
		if err != nil {
			return err
		}
		places, err := s.streams.Placed(ctx, sku, page) // an order may have just become a dead letter
		if err != nil {
			return err
		}
		var lost []lostOrder
		for _, id := range page {
			if !written[id] && !stream.IsDead(places[id]) {
				lost = append(lost, lostOrder{ID: id, SKU: sku, SaleID: saleID})
			}
		}
		if len(lost) == 0 {
			continue
		}
		done := tx.db.Clauses(clause.OnConflict{DoNothing: true}).Create(lost)
		if done.Error != nil {
			return fmt.Errorf("recording %d orders of %s that Redis has lost: %w", len(lost), sku, done.Error)
		}
		if done.RowsAffected > 0 { // otherwise another process has recorded them
			s.log.Error("Redis has lost accepted orders", "sku", sku, "sale", saleID, "orders", done.RowsAffected)
		}
	}
	return nil
}

// reasonLost is the reason that a buyer gets if Redis has lost the order. Then only the order's id,
// item and sale are known.
const reasonLost = "Redis lost the order before it was written"

// followEvery is the interval at which a process checks the orders that it has confirmed to buyers
// as accepted, and maxFollowed is how many orders of one item it checks each time.
const (
	followEvery = time.Second
	maxFollowed = 10_000
)

// follow is the background step that checks what has become of accepted orders. By then most of
// them have been written by a consumer of this process, and are no longer followed.
func (s *Service) follow(ctx context.Context) (more bool) {
	if guard.Sleep(ctx, followEvery) != nil {
		return false
	}
	for _, sku := range s.accepted.skus((*acceptedItem).followed) {
		orders, ended := make(map[string]generation), ""
		s.accepted.change(sku, func(i *acceptedItem) {
			ended = i.ended
			for id, g := range i.told { // map order is random: different ones each time
				if orders[id] = g; len(orders) == maxFollowed {
					break
				}
			}
		})
		err := s.followOrders(ctx, sku, orders)
		if ended != "" {
			err = errors.Join(err, s.followEnd(ctx, sku, ended))
		}
		if err != nil && ctx.Err() == nil {
			s.log.Debug("what has become of accepted orders is not known yet", "sku", sku, "error", err)
		}
	}
	return len(s.accepted.skus((*acceptedItem).followed)) > 0
}

// followOrders stops following the orders of an item that are written, and records those that Redis
// has lost. If an order of the current generation is lost, the generation is ended first: a
// consumer may have read the order and may still write it.
func (s *Service) followOrders(ctx context.Context, sku string, orders map[string]generation) error {
	places, err := s.streams.Placed(ctx, sku, slices.Collect(maps.Keys(orders)))
	if err != nil {
		return err
	}
	maps.DeleteFunc(orders, func(id string, _ generation) bool { return places[id] != "" })
	if len(orders) == 0 {
		return nil
	}
	item, err := s.store.item(ctx, sku) // before the look-up: an order may be written until its generation ends
	if errors.Is(err, ErrUnknownItem) {
		item, err = Item{}, nil // no generation is current, and lose records nothing
	}
	if err != nil {
		return err
	}
	written, err := s.store.written(ctx, slices.Collect(maps.Keys(orders))...)
	if err != nil {
		return err
	}
	lost := make(map[string][]string) // by sale
	for id, g := range orders {
		switch {
		case written[id]:
			s.accepted.unfollowOrders(sku, id)
		case g.id == item.Generation:
			s.reconciliation.doubt(sku, g)
		default:
			lost[g.saleID] = append(lost[g.saleID], id)
		}
	}
	for saleID, ids := range lost {
		if err := s.lose(ctx, sku, saleID, ids); err != nil {
			return err
		}
		s.accepted.unfollowOrders(sku, ids...)
	}
	return nil
}

// lose records lost orders of generations that have ended; see recordLost.
func (s *Service) lose(ctx context.Context, sku, saleID string, ids []string) error {
	err := s.store.change(ctx, func(tx store) error {
		if _, err := tx.locked(sku); err != nil {
			return err
		}
		return s.recordLost(ctx, tx, sku, saleID, ids)
	})
	if errors.Is(err, ErrUnknownItem) {
		return nil // it was deleted, and its orders with it
	}
	return err
}

// followEnd cleans up the stream once the database knows that the generation has ended: it removes
// places without an entry and, if no consumer looks after the item any more, the written orders.
func (s *Service) followEnd(ctx context.Context, sku, ended string) error {
	item, err := s.store.item(ctx, sku)
	unknown := errors.Is(err, ErrUnknownItem)
	if !unknown {
		if err != nil || item.Generation == ended {
			return err
		}
		entries, gone, err := s.streams.Look(ctx, sku)
		if err == nil {
			err = s.streams.Release(ctx, stream.Keys{SKU: sku}.Places(), gone)
		}
		if err != nil {
			return err
		}
		if !item.streamed() && len(entries) > 0 {
			ctx, cancel := context.WithTimeout(ctx, countTimeout)
			defer cancel()
			if s.streams.ConsumeOnce(ctx, streamedSale{s}, s.log, sku); ctx.Err() != nil {
				return nil // the next call continues
			}
		}
	}
	s.accepted.change(sku, func(i *acceptedItem) {
		if i.ended == ended {
			i.ended = ""
		}
	})
	return nil
}

// agrees reports whether the stock of a streamed item and the orders in the database and in the
// stream add up. Units of dead letters count as missing.
func (s *Service) agrees(ctx context.Context, tx store, item Item) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	in, entries, err := s.streams.Snapshot(ctx, item.SKU, item.generation().stock(item.SKU))
	if errors.Is(err, redis.Nil) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	waiting, err := tx.unwritten(ctx, item, entries)
	if err != nil {
		return false, err
	}
	left, err := tx.leftByOrders(item)
	return in+waiting == left, err
}

// publish gives Redis the generation in the item's row, with the units in the row. Before that, no
// process can have accepted an order in the generation, unless Redis has the generation already and
// only the row does not say so yet.
func (s *Service) publish(ctx context.Context, tx store, item Item) error {
	history, err := s.history(ctx, item)
	if err != nil {
		return err
	}
	r, ok, err := s.redis.read(ctx, item.SKU)
	if err != nil {
		return err
	}
	published := r.gen == item.generation()
	if published && (!ok || item.History != history) {
		return s.startGeneration(ctx, tx, item, item.Family) // its stock may be an older one
	}
	if !published {
		if err := s.loadBuyers(ctx, tx, item); err != nil {
			return err
		}
		if err := s.redis.start(ctx, item, item.Remaining, generation{}); err != nil {
			return err
		}
	}
	item.Unpublished, item.History = false, history
	return tx.setGeneration(item)
}

// loadBuyers copies to Redis how many units each buyer has in the orders of the sale, for an item
// with a limit. The generation is not published yet, and so has no orders.
func (s *Service) loadBuyers(ctx context.Context, tx store, item Item) error {
	if item.Limit == 0 {
		return nil
	}
	key, after := stream.Keys{SKU: item.SKU}.Buyers(item.SaleID, item.Generation), ""
	page := []purchased{{}} // the field with the empty name
	for {
		within, cancel := context.WithTimeout(ctx, startTimeout)
		_, err := s.redis.rdb.Pipelined(within, func(p redis.Pipeliner) error {
			for _, b := range page {
				p.HSetNX(within, key, b.Buyer, b.Units)
			}
			return nil
		})
		cancel()
		if err == nil {
			page, err = tx.buyers(item, after, pageSize)
		}
		if err != nil {
			return fmt.Errorf("loading the units of each buyer of %s: %w", item.SKU, err)
		}
		if len(page) == 0 {
			return nil
		}
		after = page[len(page)-1].Buyer
	}
}

// behind adds up the units of accepted orders that are not written yet: orders of the current
// generation in the stream, or in a dead letter that still has its units. It also returns the time
// within which 99 of 100 orders were written.
func (s *Service) behind(ctx context.Context, item Item) (unwritten int64, lag99 time.Duration, err error) {
	if !item.streamed() && !s.cfg.Mixed {
		return 0, 0, nil
	}
	if lag99, err = s.streams.Lag99(ctx, item.SKU, item.SaleID); err != nil {
		return 0, 0, err
	}
	entries, err := s.streams.Unwritten(ctx, item.SKU)
	if err != nil {
		return 0, 0, err
	}
	unwritten, err = s.store.unwritten(ctx, item, entries)
	return unwritten, lag99, err
}

// acceptedLost counts the orders of the item's sale that were refused after they were accepted, or
// that Redis lost. Another family may sell the item by now.
func (s *Service) acceptedLost(ctx context.Context, item Item) (int64, error) {
	if !item.backend().inRedis() {
		return 0, nil
	}
	var n int64
	err := s.store.query(ctx, func(db *gorm.DB) *gorm.DB {
		return db.Model(&lostOrder{}).Where("sku = ? AND sale_id = ?", item.SKU, item.SaleID).Count(&n)
	}, "counting the lost orders of sale %s", item.SaleID)
	if err != nil {
		return 0, err
	}
	letters, err := s.streams.DeadLetters(ctx, item.SKU)
	for _, letter := range letters {
		waits := letter.Kind == stream.Failed && letter.Generation == item.Generation
		if letter.SaleID == item.SaleID && !waits {
			n++
		}
	}
	return n, err
}

// unwritten adds up the units of orders of the item's current generation that are not in
// the database.
func (s store) unwritten(ctx context.Context, item Item, entries []stream.Entry) (units int64, err error) {
	waiting := make(map[string]int64) // units by the order's id
	var ids []string
	for _, e := range entries {
		if e.Malformed == nil && e.Generation == item.Generation {
			waiting[e.ID] = e.Quantity
			ids = append(ids, e.ID)
		}
	}
	written, err := s.written(ctx, ids...)
	if err != nil {
		return 0, err
	}
	for id := range written {
		delete(waiting, id)
	}
	for _, n := range waiting {
		units += n
	}
	return units, nil
}

// Unwritten counts the orders that may still be written, of items for which this process has
// accepted orders: in the streams, and in dead letters that wait for a retry. Orders that cannot be
// looked up in the database count, too.
func (s *Service) Unwritten(ctx context.Context) (orders int, err error) {
	skus := s.accepted.skus(func(*acceptedItem) bool { return true })
	var entries []stream.Entry
	for _, sku := range skus {
		found, err := s.streams.Unwritten(ctx, sku)
		if err != nil {
			return 0, err
		}
		entries = append(entries, found...)
	}
	generations, err := s.store.generations(ctx, skus)
	if err != nil {
		return len(entries), nil
	}
	var ids []string
	for _, e := range entries {
		if slices.Contains(generations, e.Generation) { // the orders of ended generations are refused
			ids = append(ids, e.ID)
		}
	}
	written, err := s.store.written(ctx, ids...)
	if err != nil {
		return len(ids), nil
	}
	return len(ids) - len(written), nil
}

func (s store) generations(ctx context.Context, skus []string) (current []string, err error) {
	err = s.query(ctx, func(db *gorm.DB) *gorm.DB {
		return db.Model(&Item{}).Where("sku IN ?", skus).Pluck("generation", &current)
	}, "reading the generations of %d items", len(skus))
	return current, err
}
