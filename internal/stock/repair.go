package stock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"time"

	"oversell/internal/guard"
)

// DefaultGrace is how long units must be missing from both the stock and the orders before a repair
// treats them as stranded. It is far longer than a statement on a healthy database takes. If it was
// too short for an order, that order is refused, and its buyer tries again.
const DefaultGrace = 3 * time.Second

// Balance is a comparison of an item's stock with its orders. It is read without a lock: first the
// stock, then the orders, then what is in flight. So an order that is written in between can hide a
// missing unit, but cannot make a unit look missing.
type Balance struct {
	SKU, SaleID, Generation string

	Left      int64 // units in the stock
	Missing   int64 // units that are neither in the stock nor in an order; negative: units that are in both
	Pending   int64 // units in known purchases in progress, and in accepted orders that are not written
	Unwritten int64 // units in accepted orders that are not written

	keeper Backend // "": InRedis
}

// InFlight returns how many of the missing units may still become orders or return to the stock.
func (b Balance) InFlight() int64 { return max(0, min(b.Missing, b.Pending)) }

// Stranded returns how many units are missing and not in flight.
func (b Balance) Stranded() int64 { return max(0, b.Missing-b.Pending) }

// Balance compares the stock of an item in Redis with its orders. If the stock is the same as in
// last, and nothing was missing then, the orders are not counted again; last may be the zero
// Balance. For a stock that is not in Redis only SKU, SaleID, Generation and Left are set: it
// changes together with the orders, so nothing can be missing. It returns ErrUnknownItem if there
// is no such item.
func (s *Service) Balance(ctx context.Context, sku string, last Balance) (Balance, error) {
	item, err := s.store.item(ctx, sku)
	if err != nil {
		return Balance{}, err
	}
	if !item.backend().inRedis() {
		return Balance{SKU: sku, SaleID: item.SaleID, Generation: item.Generation, Left: item.left(),
			keeper: item.backend()}, nil
	}
	r, ok, err := s.redis.read(ctx, sku)
	if err == nil && (!ok || r.gen != item.generation() || r.backend != InRedis) {
		if r, err = s.reconcile(ctx, sku); err == nil {
			item, err = s.store.item(ctx, sku)
		}
	}
	if err != nil {
		return Balance{}, err
	}
	b := Balance{SKU: sku, SaleID: r.gen.saleID, Generation: r.gen.id, Left: r.left}
	switch {
	case r.gen != item.generation() || r.backend != InRedis: // it is changing right now
		return b, nil
	case last.Generation == b.Generation && last.Left == b.Left && last.Missing == 0:
		return last, nil
	}
	unwritten, _, err := s.behind(ctx, item) // first, or an order written in between would be in neither
	if err != nil {
		return Balance{}, err
	}
	found, err := s.store.count(ctx, sku, item.SaleID)
	if err != nil {
		return Balance{}, err
	}
	if b.Missing = item.Initial - b.Left - found.Sold; b.Missing <= 0 {
		return b, nil
	}
	buying, err := s.flights.of(ctx, sku)
	b.Unwritten, b.Pending = unwritten, unwritten+buying
	return b, err
}

// Recount puts the units that were stranded in a balance back on sale, and returns how many units
// the stock has gained. It returns 0 if another generation has begun since, or if nothing is
// missing any more.
//
// The stock is not overwritten. With the item's row locked, a new generation begins with the units
// that are not in orders. Units in flight belong to the generation that ended: either their orders
// were written before the count, or they are refused, and their buyers try again in the new
// generation. So a unit cannot be sold twice, even if units are in flight, the balance was wrong,
// or several processes recount. If ctx ends in the middle, or the process is killed, the row is
// unchanged, and the next reader makes Redis agree with it.
func (s *Service) Recount(ctx context.Context, b Balance) (returned int64, err error) {
	return s.recount(ctx, b, func(difference int64) bool { return difference > 0 })
}

// recount begins a new generation if wrong returns true for the difference between the units that
// are not in orders and the units in the stock. For a streamed item any difference is enough, and
// the units of dead letters count as missing.
func (s *Service) recount(
	ctx context.Context, b Balance, wrong func(difference int64) bool,
) (returned int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	var before int64 // the units in a streamed stock, before its generation was ended
	err = s.store.changePool(ctx, b.SKU, func(tx store) error {
		returned = 0
		item, err := tx.locked(b.SKU)
		if err != nil || item.Generation != b.Generation {
			return err
		}
		if item.streamed() {
			if ok, err := s.agrees(ctx, tx, item); ok || err != nil {
				return err
			}
		}
		if item.backend() == InDatabase {
			if item, err = tx.drain(item); err != nil { // a claim does not need the item's row
				return err
			}
		}
		last, ended, err := s.endStream(ctx, tx, item)
		if err != nil {
			return err
		}
		left, err := tx.leftByOrders(item)
		if err != nil {
			return err
		}
		before = max(before, last) // if the transaction is repeated, the stock is already gone
		in := before
		if !ended {
			if in, err = s.inStock(ctx, item); err != nil || !wrong(left-in) {
				return err
			}
		}
		if item.backend() == InDatabase {
			if err := tx.setRemaining(item, left); err != nil {
				return err
			}
			item.Remaining = left
		}
		returned = left - in
		return s.beginGeneration(ctx, tx, item, left)
	})
	if err != nil {
		return 0, fmt.Errorf("counting the stock of %s again: %w", b.SKU, err)
	}
	return returned, nil
}

// inStock returns the units in the stock of an item whose row is locked: 0 if Redis has lost the
// generation.
func (s *Service) inStock(ctx context.Context, item Item) (int64, error) {
	if item.backend() == InDatabase {
		return item.Remaining, nil
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout) // the row is locked
	defer cancel()
	left, err := plainCounter{s.redis.rdb, item.generation().stock(item.SKU)}.Get(ctx)
	if errors.Is(err, errOtherSale) {
		return 0, nil
	}
	return left, err
}

// Repair is the result of a repair.
type Repair struct {
	SKU    string `json:"sku"`
	SaleID string `json:"sale_id"`
	// Returned is the number of units that the repair has added to the stock. It includes units in
	// flight, whose buyers try again. It is negative if the stock had units that were already sold.
	Returned int64 `json:"returned"`
}

// Repair makes the stock of an item agree with its orders; see Recount. Missing units may be in
// flight, so Repair waits until some have been missing for the whole grace time, or until ctx ends.
// In a rush some are always missing, and then a new generation begins even if none is stranded. If
// the stock has units that are already sold, Repair does not wait. It returns ErrUnknownItem if
// there is no such item, and ErrNoRepair if the item is sold by holds: the sweep of package holds
// returns the units of such an item.
func (s *Service) Repair(ctx context.Context, sku string) (Repair, error) {
	if err := CheckSKU(sku); err != nil {
		return Repair{}, err
	}
	var w watched
	whole := context.WithoutCancel(ctx) // if the client leaves, a count that has begun is still used
	for {
		b, most, err := s.mostMissing(ctx, sku)
		if err != nil {
			return Repair{}, err
		}
		done := Repair{SKU: sku, SaleID: b.SaleID}
		switch elapsed := w.missing(b.Generation, most-b.Unwritten); {
		case b.keeper == InHolds:
			return Repair{}, fmt.Errorf("repairing the stock of %s: %w", sku, ErrNoRepair)
		case b.keeper == InDatabase:
			done.Returned, err = s.recount(whole, b, func(difference int64) bool { return difference != 0 })
			return done, err
		case most <= b.Unwritten:
			done.Returned, err = s.recount(whole, b, func(difference int64) bool { return difference < 0 })
			return done, err
		case elapsed >= s.cfg.Grace:
			done.Returned, err = s.Recount(whole, b)
			return done, err
		}
		if err := guard.Sleep(ctx, s.cfg.Grace/10); err != nil {
			return Repair{}, fmt.Errorf("repairing the stock of %s: %w", sku, err)
		}
	}
}

// mostMissing returns a balance, and the largest number of units that can be missing. Orders that
// are written between the two reads of a balance hide missing units, and in a rush there are always
// such orders. So the orders are also counted before the stock is read.
func (s *Service) mostMissing(ctx context.Context, sku string) (Balance, int64, error) {
	item, err := s.store.item(ctx, sku)
	if err != nil {
		return Balance{}, 0, err
	}
	before, err := s.store.count(ctx, sku, item.SaleID)
	if err != nil {
		return Balance{}, 0, err
	}
	b, err := s.Balance(ctx, sku, Balance{})
	if err != nil || b.Generation != item.Generation {
		return b, b.Missing, err
	}
	return b, item.Initial - b.Left - before.Sold, nil
}

// watched tracks for how long an item's units have been missing.
type watched struct {
	last       Balance
	generation string
	since      time.Time // when units of the generation began to be missing
}

// missing records how many units are missing now, and returns how long some have been missing
// without a break.
func (w *watched) missing(generation string, units int64) time.Duration {
	switch {
	case units <= 0:
		w.generation = ""
		return 0
	case w.generation != generation:
		w.generation, w.since = generation, time.Now()
	}
	return time.Since(w.since)
}

const (
	// maxFailures is how many items in a row may fail before a round of ReturnStranded ends: then a
	// backend is probably unavailable, and each other item would fail too, after a timeout.
	maxFailures = 3
	// roundShare limits the share of time spent in rounds to 1/roundShare.
	roundShare = 5
)

// ReturnStranded puts stranded units back on sale until ctx ends: units that a process took from a
// stock in Redis before it was killed. It checks all items in rounds, with a pause after each, and
// logs the start and the end of an outage. Several processes may run it at the same time, because
// Recount cannot oversell: one of them returns the units, and the others find another generation.
func (s *Service) ReturnStranded(ctx context.Context, every time.Duration) {
	items, failing := make(map[string]*watched), false
	for pause := every; guard.Sleep(ctx, pause) == nil; {
		began := time.Now()
		err := s.returnRound(ctx, items)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failing:
			s.log.Warn("stranded units cannot be found or put back now", "error", err)
		case err == nil && failing:
			s.log.Info("stranded units are found and put back again")
		}
		failing = err != nil
		pause = max(every, (roundShare-1)*time.Since(began))
	}
}

// returnRound compares the items whose stock is in Redis with their orders, and repairs those whose
// units have been stranded for the grace time. It returns the first error. The items are visited in
// random order, so that a few that always fail do not block the others.
func (s *Service) returnRound(ctx context.Context, items map[string]*watched) (first error) {
	skus, err := s.store.skus(ctx, "keeper IN ?", []Backend{"", InRedis})
	if err != nil {
		return err
	}
	known := maps.Clone(items)
	clear(items)
	for _, sku := range skus {
		items[sku] = cmp.Or(known[sku], new(watched))
	}
	failed := 0 // in a row
	for _, i := range rand.Perm(len(skus)) {
		if ctx.Err() != nil || failed == maxFailures {
			break
		}
		switch err := s.returnUnits(ctx, skus[i], items[skus[i]]); {
		case err == nil:
			failed = 0
		case !errors.Is(err, ErrUnknownItem): // an item that was just deleted is no failure
			first, failed = cmp.Or(first, err), failed+1
		}
	}
	return first
}

// returnUnits repairs one item if some of its units have been stranded for the grace time.
func (s *Service) returnUnits(ctx context.Context, sku string, one *watched) (err error) {
	if one.last, err = s.Balance(ctx, sku, one.last); err != nil {
		return err
	}
	if one.missing(one.last.Generation, one.last.Stranded()) < s.cfg.Grace {
		return nil
	}
	returned, err := s.Recount(ctx, one.last)
	if err != nil {
		return err
	}
	s.log.Info("stranded units are on sale again", "sku", sku, "stranded", one.last.Stranded(), "returned", returned)
	*one = watched{}
	return nil
}
