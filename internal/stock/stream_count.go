package stock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// streamed reports whether the family of streams sells the item's current generation.
func (i Item) streamed() bool { return i.Family == StreamFamily && i.backend().inRedis() }

// endStream ends the item's current generation in Redis, if orders may have been accepted
// in it, and writes those that are in the stream. An order that is not written then is
// never written: the caller, who has locked the item's row in tx, gives it another
// generation. So a count has all that was accepted, and each order is either written
// or refused.
//
// The orders stay in the stream until a consumer finds them in the database. If ended is
// true, the stock had left units, and is gone.
func (s *Service) endStream(ctx context.Context, tx store, item Item) (left int64, ended bool, err error) {
	if !item.streamed() && !s.families.mixed || item.Generation == "" || !item.backend().inRedis() {
		return 0, false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if !item.streamed() {
		if lengths, err := s.streams.lengths(ctx, []string{item.SKU}); err != nil || lengths[0] == 0 {
			return 0, false, err
		}
	}
	if left, err = s.streams.fence(ctx, item.SKU, item.generation()); err != nil {
		return 0, false, err
	}
	entries, err := s.streams.all(ctx, item.SKU)
	if err != nil {
		return 0, false, err
	}
	return left, true, tx.writeLast(item, entries)
}

// agrees reports whether the stock of a streamed item and the orders in the database and in
// the stream add up. Units of dead letters are missing. The caller has locked the item's row
// in tx, so nobody else writes its orders.
func (s *Service) agrees(ctx context.Context, tx store, item Item) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	in, entries, err := s.streams.snapshot(ctx, item.SKU, item.generation())
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
	left, err := s.leftByOrders(ctx, tx, item)
	return in+waiting == left, err
}

// publish gives Redis the generation that the item's row has, with the units that the row
// has for it. The caller has locked the row in tx. Nobody can have accepted an order in
// the generation, unless Redis has it already and only the row does not say so.
func (s *Service) publish(ctx context.Context, tx store, item Item) error {
	history, err := s.history(ctx, item)
	if err != nil {
		return err
	}
	r, ok, err := s.stock.look(ctx, item.SKU)
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
		if err := s.stock.start(ctx, item, item.Remaining, generation{}); err != nil {
			return err
		}
	}
	item.Unpublished, item.History = false, history
	return tx.setGeneration(item)
}

// loadBuyers gives Redis the units that the buyers of an item with a limit have in the orders
// of its sale, for a generation that is not published. The caller has locked the item's row
// in tx, and nobody can have written or accepted an order of the generation.
func (s *Service) loadBuyers(ctx context.Context, tx store, item Item) error {
	if item.Limit == 0 {
		return nil
	}
	key, after := keys{item.SKU}.buyers(item.generation()), ""
	page := []purchased{{}} // the field with the empty name
	for {
		err := s.streams.setBuyers(ctx, key, page)
		if err == nil {
			page, err = tx.buyers(item, after, streamPage)
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

// setBuyers writes the units of buyers into a hash, for those that it does not have.
func (s streams) setBuyers(ctx context.Context, key string, all []purchased) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	_, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, b := range all {
			p.HSetNX(ctx, key, b.Buyer, b.Units)
		}
		return nil
	})
	return err
}

// behind is what an audit says about orders that are written behind the sale.
type behind struct {
	unwritten int64         // units of accepted orders that are not in the database
	refused   int64         // orders that were refused after they were accepted
	lag99     time.Duration // within which 99 of 100 orders were written
}

// behind reads the accepted orders of an item. Those that are unwritten belong to the current
// generation, and are in the stream or in a dead letter that still has its units.
func (s *Service) behind(ctx context.Context, item Item) (found behind, err error) {
	if !item.streamed() && !s.families.mixed {
		return behind{}, nil
	}
	if found.lag99, err = s.streams.lag99(ctx, item.SKU, item.SaleID); err != nil {
		return behind{}, err
	}
	entries, err := s.streams.all(ctx, item.SKU)
	if err != nil {
		return behind{}, err
	}
	letters, err := s.streams.deadLetters(ctx, item.SKU)
	if err != nil {
		return behind{}, err
	}
	for _, letter := range letters {
		switch {
		case letter.Kind == kindFailed && letter.generation == item.Generation:
			entries = append(entries, letter.entry)
		case letter.Order.SaleID == item.SaleID:
			found.refused++
		}
	}
	found.unwritten, err = s.store.unwritten(ctx, item, entries)
	return found, err
}

// unwritten adds up the units of orders of the item's current generation that are not in
// the database.
func (s store) unwritten(ctx context.Context, item Item, entries []entry) (units int64, err error) {
	waiting := make(map[string]int64) // units by the order's id
	var ids []string
	for _, e := range entries {
		if e.malformed == nil && e.generation == item.Generation {
			waiting[e.order.ID] = e.order.Quantity
			ids = append(ids, e.order.ID)
		}
	}
	for from := 0; from < len(ids); from += streamPage {
		written, err := s.written(ctx, ids[from:min(from+streamPage, len(ids))]...)
		if err != nil {
			return 0, err
		}
		for id := range written {
			delete(waiting, id)
		}
	}
	for _, n := range waiting {
		units += n
	}
	return units, nil
}
