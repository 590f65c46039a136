package stock

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// The steps of a purchase, see Request.Steps.
const (
	StepLook    = "look"    // reading the item, and any earlier order with the same key
	StepJoin    = "join"    // waiting until strategies of other families have left
	StepWait    = "wait"    // waiting for the guard, or for the batch to begin
	StepAcquire = "acquire" // the attempt that took the lock, with the wait in the lock's queue if it has one
	StepRead    = "read"    // reading the stock
	StepWork    = "work"    // what Config.Work does
	StepWrite   = "write"   // writing the stock, in one transaction with the order where both are in the database
	StepTake    = "take"    // the script that checks and takes
	StepOrder   = "order"   // writing the order, with others in a batch
	StepRelease = "release" // releasing the lock, or committing
)

// IsFailure reports whether a step has failed with err, which may be nil. It is no failure if the
// step has found that the item is sold out, or that another buyer was faster.
func IsFailure(err error) bool {
	for _, answer := range []error{ErrSoldOut, ErrLimit, ErrKeyReused, errConflict, errDuplicate, errOtherSale} {
		if errors.Is(err, answer) {
			return false
		}
	}
	return err != nil
}

// Deduct sells req.Quantity units. It returns ErrInvalid, ErrUnknownStrategy,
// ErrUnknownItem, ErrSoldOut, ErrBusy when the lock was not acquired in time,
// ErrLost, ErrClosing, or the error of a database or Redis that failed. If a
// backend failed, units may be taken without an order: they are not sold again until the
// stock is counted. ErrFenced, ErrLocation, ErrBacklog, ErrLimit, ErrUnlimited,
// ErrKeyReused and ErrOtherStrategy are returned, too.
//
// A request takes these steps: wait for requests with the same idempotency key; read
// the item, and any earlier order with that key; wait until strategies of other
// families, which this one does not exclude, have left; sell as the strategy does, see guardedPurchase and scriptPurchase. If
// another sale has begun in the meantime, it starts again with reading the item.
func (s *Service) Deduct(ctx context.Context, req Request) (Result, error) {
	b, err := s.newBuyer(req)
	if err != nil {
		return Result{}, err
	}
	if err := req.check(); err != nil {
		return Result{}, err
	}
	if err := b.buy(ctx); err != nil {
		return b.res, fmt.Errorf("deducting %d of %s: %w", req.Quantity, req.SKU, err)
	}
	if b.res.Accepted {
		b.res.State = StateAccepted
	} else if script := s.scripts[req.Strategy]; script != nil && script.streamed {
		b.res.State = StateWritten
	}
	return b.res, nil
}

// newBuyer returns a buyer with the purchase of its strategy, or ErrUnknownStrategy.
func (s *Service) newBuyer(req Request) (*buyer, error) {
	b := &buyer{service: s, req: req}
	if isolation, ok := s.isolations[req.Strategy]; ok {
		b.purchase = &guardedPurchase{buyer: b, isolation: isolation}
	} else if script, ok := s.scripts[req.Strategy]; ok {
		b.purchase = &scriptPurchase{buyer: b, script: script}
	} else {
		return nil, fmt.Errorf("%w: %q", ErrUnknownStrategy, req.Strategy)
	}
	return b, nil
}

// CanSell returns why a strategy cannot sell an item as it is about to be put on sale:
// ErrInvalid, ErrLocation, ErrUnlimited or ErrUnknownStrategy.
func (s *Service) CanSell(strategy string, item Item) error {
	if err := item.check(); err != nil {
		return err
	}
	b, err := s.newBuyer(Request{SKU: item.SKU, Strategy: strategy})
	if err != nil {
		return err
	}
	b.gen = item.generation()
	err = b.canSell(item.backend(), reading{gen: b.gen, backend: item.backend()}.location(item.SKU))
	if err == nil {
		err = b.checksLimit()
	}
	if err != nil {
		return fmt.Errorf("putting %s on sale with %s: %w", item.SKU, strategy, err)
	}
	return nil
}

// purchase is how a strategy sells to one buyer.
type purchase interface {
	// canSkipLook reports whether the buyer need not read the item first.
	canSkipLook() bool
	// checkLocation returns ErrLocation if the strategy cannot sell a stock at this
	// location.
	checkLocation(at Location) error
	// checksLimit reports whether the strategy checks an item's limit per buyer.
	checksLimit() bool
	// sell sells from the stock that the buyer found. It returns the cause of wait if
	// wait ended before anything was taken, and errOtherSale if that stock is no longer
	// current.
	sell(ctx, wait context.Context) error
	// end is called once, when the request is over.
	end()
}

// buyer is one request while it is being served.
type buyer struct {
	service  *Service
	req      Request
	purchase purchase
	gen      generation // the one that the buyer found
	at       Location   // of its stock
	changes  uint64     // reconciliation.changes, from before gen was read
	stale    bool       // Redis may not have the current sale: reconcile first
	res      Result
}

// buy buys, or answers with the order of another request with the same key. Another
// process may have sold the last units to that request, or the buyer's last ones.
func (b *buyer) buy(ctx context.Context) error {
	err := b.buyAlone(ctx)
	if b.req.IdempotencyKey != "" && (errors.Is(err, ErrSoldOut) || errors.Is(err, ErrLimit)) {
		if found, lookErr := b.replayLate(ctx); found || lookErr != nil {
			return lookErr
		}
	}
	return err
}

// buyAlone lets requests of this process with the same idempotency key buy one after the
// other. So a later one finds the order of the first, even if that has taken the last
// unit and is still writing its order.
func (b *buyer) buyAlone(ctx context.Context) error {
	wait := ctx
	if b.req.IdempotencyKey != "" {
		var cancel context.CancelFunc
		wait, cancel = context.WithTimeoutCause(ctx, b.service.wait, ErrBusy)
		defer cancel()
		hold, err := b.service.sameKey.Lock(wait, b.req.SKU+" "+b.req.IdempotencyKey)
		if err != nil {
			return err
		}
		defer hold.Unlock()
	}
	defer b.purchase.end()
	return b.buyInCurrentSale(ctx, wait)
}

// maxSales bounds how often a buyer starts again because another sale has begun, or
// because the stock was rebuilt.
const maxSales = 8

// buyInCurrentSale buys in the current sale. If that ends before it has sold anything to
// the buyer, the buyer goes on in the next one.
func (b *buyer) buyInCurrentSale(ctx, wait context.Context) error {
	deadline := time.Now().Add(b.service.wait)
	for range maxSales {
		err := b.buyOnce(ctx, wait, time.Until(deadline))
		if !errors.Is(err, errOtherSale) {
			return err
		}
		b.stale = true
	}
	return fmt.Errorf("%w: the sale changed %d times", ErrBusy, maxSales)
}

// buyOnce finds the stock and sells from it, unless there is an earlier order with
// the buyer's key. It stops waiting when outer ends, or after limit.
func (b *buyer) buyOnce(ctx, outer context.Context, limit time.Duration) error {
	s := b.service
	b.changes = s.reconciliation.changes()
	wait, w := s.waiters.Begin(outer, limit, ErrBusy)
	defer w.Done()
	looked := b.req.Steps.Begin(StepLook)
	err := b.find(ctx, wait)
	looked(err)
	if err != nil || b.res.Replayed {
		return err
	}
	found := b.gen
	w.Attend(waitKey(b.req.SKU, found)) // another family may sell out while the buyer waits
	joined := b.req.Steps.Begin(StepJoin)
	leave, err := b.join(ctx, wait)
	joined(err)
	if err != nil || b.res.Replayed {
		return err
	}
	defer leave()
	if b.at.Key != "" && !s.reconciliation.comparedAt(b.req.SKU, b.changes) {
		return fmt.Errorf("checking which Redis has the stock: it has just changed: %w", errOtherSale)
	}
	if b.gen != found { // the family has begun a generation of its own
		w.Attend(waitKey(b.req.SKU, b.gen))
	}
	return b.purchase.sell(ctx, wait)
}

// endWaits ends the waits of all buyers of the same generation.
func (b *buyer) endWaits(cause error) { b.service.waiters.End(waitKey(b.req.SKU, b.gen), cause) }

// find reads the stock, and any earlier order with the same key. It returns ErrSoldOut
// if too little is left.
func (b *buyer) find(ctx, wait context.Context) error {
	if wait.Err() != nil {
		return context.Cause(wait)
	}
	if b.purchase.canSkipLook() {
		return nil
	}
	return b.lookAdmitted(ctx, wait, b.purchase.canSkipLook) // another buyer may look while this one waits
}

// lookAdmitted waits for admission, and then reads the item unless skip returns true by
// then.
func (b *buyer) lookAdmitted(ctx, wait context.Context, skip func() bool) error {
	if err := b.reconcile(wait); err != nil {
		return err
	}
	leave, err := b.admission(wait)
	if err != nil {
		return err
	}
	defer leave()
	if skip() {
		return nil
	}
	return b.look(ctx)
}

// reconcile makes Redis agree with the database if that is due. It does so before the
// buyer is admitted, because it may take long and others need the slot.
func (b *buyer) reconcile(wait context.Context) error {
	s := b.service
	if s.inDatabase[b.req.Strategy] || !b.stale && !s.reconciliation.due(b.req.SKU) {
		return nil
	}
	b.stale = false
	_, err := s.reconcileWithin(wait, b.req.SKU)
	return err
}

// admission waits until the buyer is admitted to look at items, see Service.admitted.
// The caller must call leave.
func (b *buyer) admission(wait context.Context) (leave func(), err error) {
	if wait.Err() != nil {
		return nil, context.Cause(wait)
	}
	admitted := b.service.admitted
	select {
	case admitted <- struct{}{}:
		return func() { <-admitted }, nil
	case <-wait.Done():
		return nil, context.Cause(wait)
	}
}

func (b *buyer) look(ctx context.Context) error {
	now, err := b.read(ctx)
	if err != nil {
		return err
	}
	b.gen, b.at, b.res.Left = now.gen, now.location(b.req.SKU), now.left
	if err := b.canSell(now.backend, b.at); err != nil {
		return err
	}
	if err := b.checkLimit(); err != nil {
		return err
	}
	if found, err := b.replay(ctx); found || err != nil {
		return err
	}
	if now.left < b.req.Quantity {
		return fmt.Errorf("%w: %d left", ErrSoldOut, now.left)
	}
	return nil
}

// checkLimit returns ErrUnlimited if the item has a limit per buyer that the strategy does not
// check, and ErrInvalid if the buyer has no name.
func (b *buyer) checkLimit() error {
	if err := b.checksLimit(); err != nil {
		return err
	}
	if b.gen.limit > 0 && b.req.Buyer == "" {
		return fmt.Errorf("%w: buyer is missing: the item has a limit of %d units per buyer", ErrInvalid, b.gen.limit)
	}
	return nil
}

// checksLimit returns ErrUnlimited if the item has a limit per buyer that the strategy does
// not check.
func (b *buyer) checksLimit() error {
	if b.gen.limit > 0 && !b.purchase.checksLimit() {
		return fmt.Errorf("%w of %d; sell it with %s", ErrUnlimited, b.gen.limit, StreamFamily)
	}
	return nil
}

// canSell returns ErrLocation if the strategy cannot sell a stock that is kept there.
func (b *buyer) canSell(kept Backend, at Location) error {
	if err := kept.notInHolds(); err != nil {
		return err
	}
	return b.purchase.checkLocation(at)
}

// read reads the stock where the buyer's strategy does. A strategy that does not need
// Redis must not fail because Redis is down.
func (b *buyer) read(ctx context.Context) (reading, error) {
	if b.service.inDatabase[b.req.Strategy] {
		return b.service.readItem(ctx, b.req.SKU)
	}
	return b.service.read(ctx, b.req.SKU)
}

// replay answers with the order that an earlier request with the same key made, or with
// ErrKeyReused.
func (b *buyer) replay(ctx context.Context) (bool, error) {
	if b.req.IdempotencyKey == "" {
		return false, nil
	}
	order, found, err := b.service.store.byKey(ctx, b.req.SKU, b.gen.saleID, b.req.IdempotencyKey)
	switch {
	case err != nil:
		return false, err
	case !found:
		return b.acceptedReplay(ctx)
	}
	return b.replayed(order)
}

// replayed answers with a written order that has the buyer's key, or with ErrKeyReused.
func (b *buyer) replayed(order Order) (bool, error) {
	if err := order.answers(b.req); err != nil {
		return false, err
	}
	b.res.Order, b.res.Replayed = order, true
	return true, nil
}

// replayLate is replay for a buyer that got ErrSoldOut, perhaps before it knew the
// current sale. All waiters get ErrSoldOut at the same moment, so it waits to be
// admitted first: otherwise the last orders would queue behind a crowd of look-ups.
func (b *buyer) replayLate(ctx context.Context) (bool, error) {
	leave, err := b.admission(ctx)
	if err != nil {
		return false, err
	}
	defer leave()
	if b.gen == (generation{}) {
		now, err := b.read(ctx)
		if err != nil {
			return false, err
		}
		b.gen = now.gen
	}
	return b.replay(ctx)
}
