package stock

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/singleflight"

	"oversell/internal/guard"
	"oversell/internal/stock/stream"
)

// Put begins a new sale of an item, with item.Initial units. It returns ErrInvalid if the item is
// not valid.
func (s *Service) Put(ctx context.Context, item Item) (Item, error) {
	return s.beginSale(ctx, item, true)
}

// Offer puts an item on sale unless an item with its SKU exists. If several instances offer the
// same item at the same time, only one sale begins.
func (s *Service) Offer(ctx context.Context, item Item) error {
	_, err := s.beginSale(ctx, item, false)
	return err
}

// beginSale begins a sale of an item. If the item exists, replace decides: if it is true, the new
// sale replaces the last one, otherwise nothing changes.
//
// The sale changes when the database commits: after that, no order of the last sale can be written.
// Redis is updated within the transaction, while the item's row is locked. If that fails, or may
// have failed, the transaction is rolled back, and the next reader makes Redis agree with the
// database again. The call runs to its end even if ctx is cancelled: Redis and the database must
// not be left half changed.
func (s *Service) beginSale(ctx context.Context, item Item, replace bool) (Item, error) {
	if err := item.check(); err != nil {
		return Item{}, err
	}
	if item.Limit > 0 && item.backend().inRedis() {
		item.Family = StreamFamily // no other family can sell it
	}
	ctx = context.WithoutCancel(ctx)
	var err error
	if item.History, err = s.history(ctx, item); err != nil {
		return Item{}, err
	}
	tctx, cancel := context.WithTimeout(ctx, countTimeout) // the last sale's accepted orders are written
	defer cancel()
	var ended string // the sale before this one
	err = s.store.changePool(tctx, item.SKU, func(tx store) error {
		last, unknown := Item{}, true
		if replace { // Offer does not lock the row first: if several processes did, they would deadlock
			var err error
			last, err = tx.locked(item.SKU)
			if unknown = errors.Is(err, ErrUnknownItem); err != nil && !unknown {
				return err
			}
		}
		if last.backend() == InDatabase {
			if _, err := last.pool().Drain(tx.db); err != nil {
				return err
			}
		}
		begun, err := tx.begin(item, unknown)
		if err != nil {
			if errors.Is(err, errAppeared) && !replace {
				return nil
			}
			return err
		}
		item, ended = begun, last.SaleID
		if _, _, err := s.endStream(ctx, tx, last); err != nil {
			return err
		}
		if item.Unpublished {
			_, err := s.redis.endGeneration(ctx, item.SKU, last.generation())
			return err
		}
		return s.redis.start(ctx, item, item.Initial, last.generation())
	})
	if err != nil {
		return item, err
	}
	if ended != "" {
		if err := s.store.forgetSale(ctx, item.SKU, ended); err != nil {
			s.log.Warn("rows of a sale that is over stay until the item is deleted",
				"sku", item.SKU, "sale", ended, "error", err)
		}
	}
	if item.Unpublished || !replace {
		_, err = s.reconcile(ctx, item.SKU) // publishes it
	}
	return item, err
}

// Delete removes an item, its orders, its holds and its keys in one transaction, like Put.
// It returns nil if there is no such item, and ErrHoldsOpen while a buyer may still pay for
// a hold: then nothing is removed.
func (s *Service) Delete(ctx context.Context, sku string) error {
	if err := CheckSKU(sku); err != nil {
		return err
	}
	names := slices.Collect(maps.Keys(s.cfg.Strategies))
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteTimeout) // as in beginSale
	defer cancel()
	err := s.store.changePool(ctx, sku, func(tx store) error {
		last, err := tx.locked(sku)
		if err != nil && !errors.Is(err, ErrUnknownItem) {
			return err
		}
		last.SKU = sku // an item that is unknown may still have holds
		if err := s.cfg.Holds.Forget(tx.db, last); err != nil {
			return err
		}
		// Delete the units first: this waits for the claims under way. After that, each of them has
		// either written its order or never will.
		for _, rows := range []any{&Unit{}, &Order{}, &Item{}, &Sale{}, &flight{}, &purchased{}, &lostOrder{},
			&restock{}} {
			if err := tx.db.Where("sku = ?", sku).Delete(rows).Error; err != nil {
				return err
			}
		}
		return s.redis.delete(ctx, sku, last.generation(), names)
	})
	if err != nil {
		return fmt.Errorf("deleting item %s and its orders: %w", sku, err)
	}
	return nil
}

// reconciliation records whether Redis is known to agree with the database. The database decides
// which sale is current.
type reconciliation struct {
	calls   singleflight.Group
	changes func() uint64 // returns how many times Redis was replaced by another server

	mu     sync.Mutex
	seen   map[string]comparison      // by SKU: the last comparison that found Redis and the database in agreement
	doubts map[string]map[string]bool // by SKU: ids of generations in which units may be taken without an order

	settler *guard.Background // reconciles until nothing is in doubt
}

// comparison records when Redis was last found to agree with the database.
type comparison struct {
	at      time.Time
	changes uint64 // reconciliation.changes when it began
}

// compareEvery is the time between two comparisons of Redis with the item's row while buyers
// arrive. The data in Redis may belong to another database, or come from a replica that lags
// behind.
const compareEvery = time.Second

// mustCompare reports whether the caller must compare now. If the last comparison is merely old,
// only the first caller must: mustCompare returns true once, and then false for compareEvery. If
// something is in doubt, or if Redis was replaced and may have an older stock, every caller must.
func (a *reconciliation) mustCompare(sku string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.isFresh(sku) {
		return false
	}
	if last, ok := a.seen[sku]; ok {
		last.at = time.Now()
		a.seen[sku] = last
	}
	return true
}

// fresh reports whether the last comparison still holds: it is recent, nothing is in doubt, and
// Redis has not been replaced.
func (a *reconciliation) fresh(sku string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.isFresh(sku)
}

func (a *reconciliation) isFresh(sku string) bool {
	last, ok := a.seen[sku]
	return ok && last.changes == a.changes() && len(a.doubts[sku]) == 0 && time.Since(last.at) < compareEvery
}

// comparedAt reports whether the item's last comparison began at the given count of changes.
func (a *reconciliation) comparedAt(sku string, changes uint64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	last, ok := a.seen[sku]
	return ok && last.changes == changes
}

// maxSeen limits how many items a Service remembers in its maps.
const maxSeen = 10_000

// compared records that Redis agreed with the database, in a comparison that began at this count of
// changes.
func (a *reconciliation) compared(sku string, changes uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.seen) >= maxSeen {
		clear(a.seen)
	}
	a.seen[sku] = comparison{time.Now(), changes}
}

// doubt records that units of a generation may be taken without an order and cannot be put back, or
// that Redis may have an older stock. The next comparison counts the orders and rebuilds the stock.
func (a *reconciliation) doubt(sku string, g generation) {
	a.mu.Lock()
	if a.doubts[sku] == nil {
		a.doubts[sku] = make(map[string]bool)
	}
	a.doubts[sku][g.id] = true
	a.mu.Unlock()
	a.settler.Wake()
}

func (a *reconciliation) inDoubt() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Collect(maps.Keys(a.doubts))
}

func (a *reconciliation) doubted(sku string) map[string]bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.doubts[sku])
}

// dropDoubts drops the given doubts, except those about the current generation. Doubts that arose
// after the row was read are not among them, and stay.
func (a *reconciliation) dropDoubts(sku string, doubts map[string]bool, current string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id := range doubts {
		if id != current {
			delete(a.doubts[sku], id)
		}
	}
	if len(a.doubts[sku]) == 0 {
		delete(a.doubts, sku)
	}
}

// reconcile compares Redis with the item's row, and makes Redis agree with it: it completes what
// another process left half done, removes a sale that the database does not know, and rebuilds a
// stock that was lost. It returns what Redis then has, or ErrUnknownItem. Concurrent callers share
// one call. When wait ends, reconcile returns the cause, but the shared call continues.
func (s *Service) reconcile(wait context.Context, sku string) (reading, error) {
	ctx := context.WithoutCancel(wait) // others share the call
	for tries := 1; ; tries++ {
		outcome := s.reconciliation.calls.DoChan(sku, func() (any, error) {
			return s.compare(ctx, sku)
		})
		select {
		case found := <-outcome:
			r, _ := found.Val.(reading)
			// The shared call may have begun before the doubt arose.
			if found.Err != nil || tries == maxCompare || !s.reconciliation.doubted(sku)[r.gen.id] {
				return r, found.Err
			}
		case <-wait.Done():
			return reading{}, context.Cause(wait)
		}
	}
}

// The settler sleeps before each round, because the next buyer settles most doubts. It sleeps
// longer after each failure.
const (
	minSettleDelay = 100 * time.Millisecond
	maxSettleDelay = 10 * time.Second
)

// settleDoubts returns the background step that reconciles the items in doubt. Without it, units in
// doubt after the last buyer would never be put back on sale.
func (s *Service) settleDoubts() (step func(ctx context.Context) (more bool)) {
	delay := minSettleDelay
	return func(ctx context.Context) bool {
		_ = guard.Sleep(ctx, delay)
		next := minSettleDelay
		for _, sku := range s.reconciliation.inDoubt() {
			if ctx.Err() != nil {
				break
			}
			if _, err := s.compare(ctx, sku); err != nil && !errors.Is(err, ErrUnknownItem) {
				next = min(2*delay, maxSettleDelay)
				s.log.Warn("units may be taken with no order, and the orders cannot be counted yet",
					"sku", sku, "again in", next, "error", err)
			}
		}
		delay = next
		return len(s.reconciliation.inDoubt()) > 0
	}
}

// maxCompare limits how many times Redis and the row are compared while they keep changing. Many
// restocks may arrive together, and each changes both. But a Redis that forgets every write must
// not be asked forever.
const maxCompare = 50

// compare does the work of reconcile, once for all callers that share it.
func (s *Service) compare(ctx context.Context, sku string) (reading, error) {
	for range maxCompare {
		changes, doubts := s.reconciliation.changes(), s.reconciliation.doubted(sku) // before the reads below
		r, ok, lookErr := s.redis.read(ctx, sku)
		item, err := s.store.item(ctx, sku)
		if errors.Is(err, ErrUnknownItem) {
			s.reconciliation.dropDoubts(sku, doubts, "")
			if failed := s.redis.forget(ctx, sku); failed != nil {
				err = errors.Join(err, failed)
			}
			return reading{}, err
		}
		if err := errors.Join(err, lookErr); err != nil {
			return reading{}, err
		}
		history, err := s.history(ctx, item)
		if err != nil {
			return reading{}, err
		}
		sound, current := !doubts[item.Generation] && item.History == history, item.Generation
		if !item.backend().inRedis() {
			sound, current = true, "" // the row is right, even if Redis disagrees
		}
		s.reconciliation.dropDoubts(sku, doubts, current)
		if sound && ok && r.isOf(item) {
			s.reconciliation.compared(sku, changes)
			return r, nil
		}
		needed := func(now Item) bool {
			if !sound && now.Generation == item.Generation {
				return true
			}
			r, ok, err := s.redis.read(ctx, sku)
			return err != nil || !ok || !r.isOf(now)
		}
		if err := s.rebuild(ctx, sku, needed); err != nil {
			return reading{}, err
		}
	}
	return reading{}, fmt.Errorf("comparing the stock of %s: it has changed %d times meanwhile", sku, maxCompare)
}

// history returns the history id of the Redis that has the item's stock (see Config.History), or ""
// if the stock is not in Redis.
func (s *Service) history(ctx context.Context, item Item) (string, error) {
	if s.cfg.History == nil || !item.backend().inRedis() {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	id, err := s.cfg.History(ctx, stream.Keys{SKU: item.SKU}.Sale())
	if err != nil {
		return "", fmt.Errorf("checking which Redis has %s: %w", item.SKU, err)
	}
	return id, nil
}

// rebuild locks the item's row and, if needed returns true for it, starts a new
// generation of the stock.
func (s *Service) rebuild(ctx context.Context, sku string, needed func(Item) bool) error {
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	err := s.store.changeWithin(ctx, func(tx store) error {
		item, err := tx.locked(sku)
		if err != nil || !needed(item) {
			return err
		}
		if item.Unpublished {
			return s.publish(ctx, tx, item)
		}
		return s.startGeneration(ctx, tx, item, item.Family)
	})
	if err != nil {
		return fmt.Errorf("rebuilding the stock of %s: %w", sku, err)
	}
	return nil
}

// startGeneration starts a new generation. Its stock is the initial units minus the orders in the
// database. The caller must have locked the item's row in tx: then orders that were being written
// have been written, and later ones are refused, because their generation has ended. So the count
// includes everything that was sold.
//
// If the stock is in the database, it gets a new generation only when another family begins its
// turn, and the orders are counted only to record how many were sold by then. The claims of the
// last generation end with its pool.
//
// A generation for StreamFamily is only written to the row here. Redis gets it from publish, once
// the row is committed. Otherwise a process that is killed in between would leave Redis with a
// generation that the row does not name, and orders that were accepted in it could never be
// written.
func (s *Service) startGeneration(ctx context.Context, tx store, item Item, family string) error {
	last := item.generation()
	if !item.backend().inRedis() {
		if family == item.Family {
			return s.redis.start(ctx, item, 0, last)
		}
		var err error
		if item, err = tx.drain(item); err != nil { // another family sells only from the item's row
			return err
		}
	}
	if _, _, err := s.endStream(ctx, tx, item); err != nil {
		return err
	}
	sold, err := tx.sold(item.SKU, item.SaleID)
	if err == nil && family != item.Family {
		item.Family, item.TurnSold = family, sold
		item.TurnBegan, err = s.clock(tx)
	}
	if err != nil {
		return err
	}
	return s.beginGeneration(ctx, tx, item, item.unsold(sold))
}

// unsold returns the item's initial units minus those sold, or 0 if more were sold than the sale
// had.
func (i Item) unsold(sold int64) int64 { return max(0, i.Initial-sold) }

// leftByOrders returns the item's initial units minus those in orders of its sale. While the item's
// row is locked, the count includes everything that was sold.
func (s store) leftByOrders(item Item) (int64, error) {
	sold, err := s.sold(item.SKU, item.SaleID)
	return item.unsold(sold), err
}

// beginGeneration begins a new generation, with left units if the stock is in Redis. If the stock
// is in the database, it does not need Redis, which gets the new generation at the next comparison.
func (s *Service) beginGeneration(ctx context.Context, tx store, item Item, left int64) error {
	last := item.generation()
	item.Generation = uuid.NewString()
	var err error
	if item.History, err = s.history(ctx, item); err != nil {
		return err
	}
	if !item.backend().inRedis() {
		return tx.setGeneration(item)
	}
	item.Remaining, item.Unpublished = left, item.streamed()
	if err := tx.setGeneration(item); err != nil || item.Unpublished {
		return err
	}
	return s.redis.start(ctx, item, left, last)
}

// findWritten finds out which orders of a generation were written, after the database did not
// confirm that it wrote them. It ends the generation first: from then on none of the orders can be
// written, and units without an order are back in the stock.
func (s *Service) findWritten(
	ctx context.Context, sku string, g generation, ids []string,
) (written map[string]bool, err error) {
	const maxTries = 3 // a shared call may have begun before this doubt arose
	s.reconciliation.doubt(sku, g)
	for range maxTries {
		if _, err := s.reconcile(context.WithoutCancel(ctx), sku); err != nil {
			return nil, err
		}
		item, err := s.store.item(ctx, sku)
		if err != nil {
			return nil, err
		}
		if item.Generation != g.id {
			return s.store.written(ctx, ids...)
		}
	}
	return nil, fmt.Errorf("ending a generation of %s: it is still current", sku)
}
