package stock

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// Put puts an item on sale with item.Initial units; a new sale begins. It
// returns ErrInvalid for an item that cannot be.
//
// The sale changes as one step, when the database commits it: orders of the last
// sale are written before that, and none after. Redis is changed within the
// transaction, while the item's row is locked. Where that is not known to have
// gone well the transaction is undone, and whoever looks next makes Redis agree
// with the database again. A caller that goes away does not cut it short.
func (s *Service) Put(ctx context.Context, item Item) (Item, error) {
	if err := item.check(); err != nil {
		return Item{}, err
	}
	ctx = context.WithoutCancel(ctx)
	var err error
	if item.History, err = s.history(ctx, item); err != nil {
		return Item{}, err
	}
	return s.store.put(ctx, item, func(item, last Item) error {
		return s.stock.start(ctx, item, item.Initial, last.generation())
	})
}

// Offer puts an item on sale unless there is one with its SKU already. Several
// instances may offer the same item at once: one sale begins.
func (s *Service) Offer(ctx context.Context, item Item) error {
	if err := item.check(); err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	var err error
	if item.History, err = s.history(ctx, item); err != nil {
		return err
	}
	err = s.store.putNew(ctx, item, func(item Item) error {
		return s.stock.start(ctx, item, item.Initial, generation{})
	})
	if err != nil {
		return err
	}
	_, err = s.agree(ctx, item.SKU)
	return err
}

// Delete removes an item, its orders and its keys, as one step like Put. Deleting
// an item that is not there is no error.
func (s *Service) Delete(ctx context.Context, sku string) error {
	if err := CheckSKU(sku); err != nil {
		return err
	}
	names := make([]string, 0, len(s.guards))
	for name := range s.guards {
		names = append(names, name)
	}
	ctx = context.WithoutCancel(ctx)
	return s.store.delete(ctx, sku, func(last Item) error {
		return s.stock.delete(ctx, sku, last.generation(), names)
	})
}

// agreement is what a Service knows of how far Redis agrees with the database,
// which decides which sale is on.
type agreement struct {
	calls   singleflight.Group
	changes func() uint64 // how often Redis was found to be another one

	mu     sync.Mutex
	seen   map[string]comparison      // by SKU: how both were last compared
	doubts map[string]map[string]bool // by SKU: ids of generations whose units may be taken with no order
	failed map[string]failure         // by SKU: the last count, if it failed

	settle   func() // settles the doubts while there are any
	settling bool   // settle is running
	closed   bool
	settlers sync.WaitGroup
}

// failure is a count that failed, and until when nobody tries another one.
type failure struct {
	err   error
	until time.Time
}

// Bounds of how long nobody counts after a count that failed. In between it is as
// long as that took: a database that is slow is left alone for half of the time.
const (
	minCountPause = 100 * time.Millisecond
	maxCountPause = 5 * time.Second
)

// count calls f, which locks the item's row and counts, unless that has just failed:
// those who come within a short time share the error.
func (a *agreement) count(sku string, f func() error) error {
	a.mu.Lock()
	last := a.failed[sku]
	a.mu.Unlock()
	if time.Now().Before(last.until) {
		return last.err
	}
	begun := time.Now()
	err := f()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, told := range []error{nil, ErrUnknownItem, ErrOtherStrategy, context.Canceled} {
		if errors.Is(err, told) {
			delete(a.failed, sku)
			return err
		}
	}
	if a.failed == nil || len(a.failed) >= maxSeen {
		a.failed = make(map[string]failure)
	}
	rest := min(max(time.Since(begun), minCountPause), maxCountPause)
	a.failed[sku] = failure{err, time.Now().Add(rest)}
	return err
}

// comparison is one that found that Redis agrees.
type comparison struct {
	at      time.Time
	changes uint64 // those that Redis had seen when it began
}

// compareEvery is how often the item's row is looked at while buyers come. What is
// in Redis may belong to another database, or be as old as a replica's.
const compareEvery = time.Second

// due reports whether the caller has to compare now. Where only time has passed it
// takes it that the caller does, and others need not. Where there is a doubt
// everybody has to, and where Redis may be another one now, with an older stock.
func (a *agreement) due(sku string) bool {
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

// fresh reports whether the item was compared lately, and nothing happened since.
func (a *agreement) fresh(sku string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.isFresh(sku)
}

func (a *agreement) isFresh(sku string) bool {
	return len(a.doubts[sku]) == 0 && a.isOf(sku, a.changes()) && time.Since(a.seen[sku].at) < compareEvery
}

// of reports whether the item was compared after Redis had seen so many changes,
// and before the next.
func (a *agreement) of(sku string, changes uint64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.isOf(sku, changes)
}

func (a *agreement) isOf(sku string, changes uint64) bool {
	last, ok := a.seen[sku]
	return ok && last.changes == changes
}

// maxSeen bounds the items of which is known when they were last compared.
const maxSeen = 10_000

// compared notes that both were found to agree, by who began after so many changes.
func (a *agreement) compared(sku string, changes uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.seen == nil || len(a.seen) >= maxSeen {
		a.seen = make(map[string]comparison)
	}
	a.seen[sku] = comparison{time.Now(), changes}
}

// doubt notes that units may be taken from a generation with no order, in a way
// that this process cannot undo, or that its stock may be an older one: the next
// who compares counts anew.
func (a *agreement) doubt(sku string, g generation) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.doubts == nil {
		a.doubts = make(map[string]map[string]bool)
	}
	if a.doubts[sku] == nil {
		a.doubts[sku] = make(map[string]bool)
	}
	a.doubts[sku][g.id] = true
	if !a.settling && !a.closed {
		a.settling = true
		a.settlers.Go(a.settle)
	}
}

// inDoubt returns the items that are in doubt. If there are none the settler, who
// asks, has to end.
func (a *agreement) inDoubt() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.settling = len(a.doubts) > 0
	return slices.Collect(maps.Keys(a.doubts))
}

// close has nobody settle doubts any more. The settler is told by its context.
func (a *agreement) close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.settlers.Wait()
}

// doubted returns the ids of the generations that are in doubt.
func (a *agreement) doubted(sku string) map[string]bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.doubts[sku])
}

// resolve forgets those of the doubts that are about other generations than the
// current one. Doubts that are newer than the look at the row stay.
func (a *agreement) resolve(sku string, doubts map[string]bool, current string) {
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

// read looks at an item's keys, and at its row where they say that the stock is
// there. Now and then, and where keys are missing, it makes Redis agree with the
// database first.
func (s *Service) read(ctx context.Context, sku string) (reading, error) {
	if s.agreement.due(sku) {
		return s.agreeOn(ctx, sku)
	}
	r, ok, err := s.stock.look(ctx, sku)
	if err != nil {
		if seen := s.stock.recall(sku); seen != nil {
			s.agreement.doubt(sku, seen.gen) // it may come back with an older stock
		}
		return reading{}, err
	}
	if !ok {
		return s.agreeOn(ctx, sku)
	}
	if r.keeper == InDatabase {
		return s.readItem(ctx, sku)
	}
	return r, nil
}

// agreeOn agrees and reads the stock. What agree returned may be as old as the call
// that was shared.
func (s *Service) agreeOn(ctx context.Context, sku string) (reading, error) {
	agreed, err := s.agree(ctx, sku)
	if err != nil {
		return reading{}, err
	}
	if agreed.keeper == InDatabase {
		return s.readItem(ctx, sku)
	}
	r, ok, err := s.stock.look(ctx, sku)
	if err != nil || !ok {
		return agreed, err
	}
	return r, nil
}

// readItem looks at the item's row. What it says is left is right if the stock is
// kept there.
func (s *Service) readItem(ctx context.Context, sku string) (reading, error) {
	item, err := s.store.item(ctx, sku)
	return reading{item.Remaining, item.generation(), item.keeper()}, err
}

// agree compares Redis with the item's row, and makes it agree where it does not:
// it completes what a process left half done, removes a sale that the database
// does not know, and rebuilds a stock that was lost. It returns what Redis has
// then, and ErrUnknownItem. Those who come at the same time share the outcome.
func (s *Service) agree(ctx context.Context, sku string) (reading, error) {
	ctx = context.WithoutCancel(ctx)
	return s.agreeWithin(ctx, ctx, sku)
}

// agreeWithin is agree for a caller that goes when wait ends, and returns the cause
// then. What was begun goes on.
func (s *Service) agreeWithin(ctx, wait context.Context, sku string) (reading, error) {
	ctx = context.WithoutCancel(ctx)
	for tries := 1; ; tries++ {
		outcome := s.agreement.calls.DoChan(sku, func() (any, error) {
			return s.compare(ctx, sku)
		})
		select {
		case found := <-outcome:
			r, _ := found.Val.(reading)
			// A call that was shared may have begun before somebody had a doubt.
			if found.Err != nil || tries == maxCompare || !s.agreement.doubted(sku)[r.gen.id] {
				return r, found.Err
			}
		case <-wait.Done():
			return reading{}, context.Cause(wait)
		}
	}
}

// The settler waits for a while first, for most doubts are settled by the next
// buyer, and for longer after each time that it failed.
const (
	minSettleDelay = 100 * time.Millisecond
	maxSettleDelay = 10 * time.Second
)

// settleDoubts has the items in doubt counted, until none is left or ctx ends. After
// the last buyer nobody else would come and put unsold units back on sale.
func (s *Service) settleDoubts(ctx context.Context) {
	for delay := minSettleDelay; pause(ctx, delay) == nil; {
		doubted := s.agreement.inDoubt()
		if len(doubted) == 0 {
			return
		}
		delay = min(2*delay, maxSettleDelay)
		for _, sku := range doubted {
			if ctx.Err() != nil {
				return
			}
			_, err := s.compare(ctx, sku)
			if err == nil || errors.Is(err, ErrUnknownItem) {
				delay = minSettleDelay
				continue
			}
			s.log.Warn("units may be taken with no order, and cannot be counted yet", "sku", sku, "again in", delay, "error", err)
		}
	}
}

// maxCompare is how often Redis and the row are compared, if they change all the
// time.
const maxCompare = 4

func (s *Service) compare(ctx context.Context, sku string) (reading, error) {
	for range maxCompare {
		changes, doubts := s.agreement.changes(), s.agreement.doubted(sku) // before anything is read
		r, ok, lookErr := s.stock.look(ctx, sku)
		item, err := s.store.item(ctx, sku)
		if errors.Is(err, ErrUnknownItem) {
			s.agreement.resolve(sku, doubts, "")
			return reading{}, errors.Join(err, s.stock.forget(ctx, sku))
		}
		if err := errors.Join(err, lookErr); err != nil {
			return reading{}, err
		}
		history, err := s.history(ctx, item)
		if err != nil {
			return reading{}, err
		}
		sound, current := !doubts[item.Generation] && item.History == history, item.Generation
		if item.keeper() == InDatabase {
			sound, current = true, "" // its row is right, whatever Redis says
		}
		s.agreement.resolve(sku, doubts, current)
		if sound && ok && r.gen == item.generation() && r.keeper == item.keeper() {
			s.agreement.compared(sku, changes)
			return r, nil
		}
		needed := func(now Item) bool {
			if !sound && now.Generation == item.Generation {
				return true
			}
			r, ok, err := s.stock.look(ctx, sku)
			return err != nil || !ok || r.gen != now.generation() || r.keeper != now.keeper()
		}
		if err := s.rebuild(ctx, sku, needed); err != nil {
			return reading{}, err
		}
	}
	return reading{}, fmt.Errorf("reading the stock of %s: it is lost again and again", sku)
}

// history is that of the Redis that keeps an item's stock, "" if the database does.
func (s *Service) history(ctx context.Context, item Item) (string, error) {
	if item.keeper() == InDatabase {
		return "", nil
	}
	return s.stock.history(ctx, item.SKU)
}

// rebuild has the item's stock in Redis begin a new generation, if needed says so
// of the item's row while that is locked.
func (s *Service) rebuild(ctx context.Context, sku string, needed func(Item) bool) error {
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	err := s.agreement.count(sku, func() error {
		return s.store.changeWithin(ctx, func(tx store) error {
			item, err := tx.locked(sku)
			if err != nil || !needed(item) {
				return err
			}
			return s.renew(ctx, tx, item, item.Family)
		})
	})
	if err != nil {
		return fmt.Errorf("rebuilding the stock of %s: %w", sku, err)
	}
	return nil
}

// renew begins a new generation, which has what the orders in the database leave.
// The item's row is locked in tx: the orders that are being written are written
// first, and those that come later belong to a generation that has ended, and are
// refused. So what is counted is all that was sold.
//
// A stock that is kept in the database is right as it is, and so is its
// generation while the same strategies are at work.
func (s *Service) renew(ctx context.Context, tx store, item Item, family string) error {
	last := item.generation()
	inDatabase := item.keeper() == InDatabase
	if inDatabase && family == item.Family {
		return s.stock.start(ctx, item, 0, last)
	}
	next := newGeneration(item.SaleID, family)
	item.Generation, item.Family = next.id, next.family
	var err error
	if item.History, err = s.history(ctx, item); err != nil {
		return err
	}
	if err := tx.setGeneration(item); err != nil || inDatabase {
		return err
	}
	sold, err := tx.sold(item.SKU, item.SaleID)
	if err != nil {
		return err
	}
	return s.stock.start(ctx, item, max(0, item.Initial-sold), last)
}

// maxDecide is how often a generation is tried to end; a call that was under way
// already may not have known of the doubt.
const maxDecide = 3

// decide finds out which of the orders of a generation are there, after the
// database did not tell. It ends the generation, after which none of them can be
// written any more, and units without an order are back in the stock.
func (s *Service) decide(ctx context.Context, sku string, g generation, ids []string) (written map[string]bool, err error) {
	s.agreement.doubt(sku, g)
	for range maxDecide {
		if _, err := s.agree(ctx, sku); err != nil {
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
	return nil, fmt.Errorf("ending a generation of %s: it is still the current one", sku)
}
