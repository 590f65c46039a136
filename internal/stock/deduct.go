package stock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"oversell/internal/figures"
	"oversell/internal/guard"
)

// Deduct sells req.Quantity units. It returns ErrInvalid, ErrUnknownStrategy,
// ErrUnknownItem, ErrSoldOut, ErrBusy when the lock was not acquired in time,
// ErrLost, ErrClosing, or the error of a database or Redis that failed. If a
// backend failed, units may be taken without an order: they are not sold again until the
// stock is counted. ErrFenced, ErrLocation, ErrBacklog, ErrLimit, ErrUnlimited,
// ErrKeyReused and ErrOtherStrategy are returned, too.
//
// A purchase has eight steps. Step 1 is here, 2, 3 and 8 are in buyOnce, and 4 to 7 in section,
// or for a strategy without a lock in sellByScript.
func (s *Service) Deduct(ctx context.Context, req Request) (Result, error) {
	how, known := s.strategies[req.Strategy]
	if !known {
		return Result{}, fmt.Errorf("%w: %q", ErrUnknownStrategy, req.Strategy)
	}
	if err := req.check(); err != nil {
		return Result{}, err
	}
	p := &purchase{service: s, req: req, Strategy: how}
	deadline := time.Now().Add(s.wait)

	// 1. Same key: requests of this process with the same idempotency key buy one after the
	// other. So a later one finds the order of the first, even if that has taken the last unit
	// and is still writing its order.
	if req.IdempotencyKey != "" {
		wait, cancel := context.WithDeadlineCause(ctx, deadline, ErrBusy)
		defer cancel()
		hold, err := s.sameKey.Lock(wait, req.SKU+" "+req.IdempotencyKey)
		if err != nil {
			return p.result(err)
		}
		defer hold.Unlock()
	}

	defer p.end()
	for range maxSales {
		err := p.buyOnce(ctx, time.Until(deadline))
		switch {
		case errors.Is(err, errOtherSale):
			p.stale = true // the buyer goes on in the next sale
		case req.IdempotencyKey != "" && (errors.Is(err, ErrSoldOut) || errors.Is(err, ErrLimit)):
			return p.result(p.replayLate(ctx, err))
		default:
			return p.result(err)
		}
	}
	return p.result(fmt.Errorf("%w: the sale changed %d times", ErrBusy, maxSales))
}

// maxSales bounds how often a purchase starts again because another sale has begun, or
// because the stock was rebuilt.
const maxSales = 8

// purchase is one request while it is being served, by a Strategy.
type purchase struct {
	service *Service
	req     Request
	Strategy

	gen     generation // the one that was found
	at      Location   // of its stock
	changes uint64     // reconciliation.changes, from before gen was read
	stale   bool       // Redis may not have the current sale: reconcile first
	res     Result

	// For a strategy that sells by script:
	worked      bool   // the work was done: it is done once, even if another sale begins
	after       func() // what the work returned
	ignoreClaim bool   // the purchase has waited for claimTimeout for the order with its key
}

// buyOnce buys in the sale that it finds, and waits no longer than limit. It returns
// errOtherSale if that sale ends before it has sold anything to the buyer.
func (p *purchase) buyOnce(ctx context.Context, limit time.Duration) error {
	s := p.service
	p.changes = s.reconciliation.changes()
	wait, w := s.waiters.Begin(ctx, limit, ErrBusy)
	defer w.Done()

	// 2. Look at the item, and for an earlier order with the same key: nobody should wait for
	// a lock to buy what is sold out.
	looked := p.req.Steps.Begin(StepLook)
	err := p.look(ctx, wait)
	looked(err)
	if err != nil || p.res.Replayed {
		return err
	}
	w.Attend(waitKey(p.req.SKU, p.gen)) // from now on the wait ends when the item is sold out

	// 3. Enter: wait until strategies of other families have left. Within the family the
	// guard, if there is one, lets one buyer at a time in.
	joined := p.req.Steps.Begin(StepJoin)
	leave, err := p.join(ctx, wait)
	joined(err)
	if err != nil || p.res.Replayed {
		return err
	}
	defer leave()
	if p.at.Key != "" && !s.reconciliation.comparedAt(p.req.SKU, p.changes) {
		return fmt.Errorf("checking which Redis has the stock: it has just changed: %w", errOtherSale)
	}
	w.Attend(waitKey(p.req.SKU, p.gen)) // the family may have begun a generation of its own
	if p.Script != nil {
		return p.sellByScript(ctx, wait)
	}

	// The order is written before the guard is left, which is 8., so that the next holder finds
	// stock and orders in agreement.
	begun, tries := time.Now(), len(p.res.Spans)
	entry := guard.Entry{Key: keys{p.req.SKU}.lock(p.req.Strategy), Owner: p.req.Owner}
	p.res.Lock, err = p.Guard.Do(wait, p.at, entry, p.section)
	p.recordGuard(begun, p.res.Spans[tries:], err)
	if p.at.Key == "" && errors.Is(err, errUnsure) {
		s.log.Error("an order may have been written", "sku", p.req.SKU, "quantity", p.req.Quantity, "error", err)
	}
	return err
}

// section is what a holder does.
func (p *purchase) section(ctx context.Context, c Counter) error {
	s, steps := p.service, p.req.Steps
	leave := s.inside.Enter(p.req.SKU)
	defer func() { p.res.Spans = append(p.res.Spans, leave()) }()

	// 4. Read the stock, and once more an earlier order with the same key.
	if found, err := p.replay(ctx); found || err != nil {
		return lost(ctx, err)
	}
	read := steps.Begin(StepRead)
	left, err := c.Get(ctx)
	read(err)
	if err == nil && left < p.req.Quantity {
		err = p.soldOut(left)
	}
	if err != nil {
		return lost(ctx, err)
	}
	p.res.Left = left

	// 5. Work.
	after, err := p.work(ctx)
	if err != nil {
		return lost(ctx, err)
	}
	if after != nil {
		defer after()
	}

	// WithoutCancel: a sale that has begun is finished, even if the holder learns just now that
	// it has lost the lock. Half a sale helps nobody. In a process that was paused before it,
	// this is the write that comes too late.
	ctx, left = context.WithoutCancel(ctx), left-p.req.Quantity
	if c, ok := c.(transactional); ok {
		return p.writeTogether(ctx, c, left) // 6. and 7. are one step
	}

	// 6. Write the stock.
	s.families.addInFlight(p.req.SKU, p.req.Quantity)
	defer s.families.addInFlight(p.req.SKU, -p.req.Quantity)
	wrote := steps.Begin(StepWrite)
	err = c.Set(ctx, left)
	wrote(err)
	if err != nil && !refused(err) {
		p.doubt() // the write may have been done, with only the reply lost
	}
	if err != nil {
		return err
	}
	p.res.Left = left

	// 7. Write the order.
	order := p.newOrder(now())
	wrote = steps.Begin(StepOrder)
	err = s.writeOrders(ctx, p.gen, p.changes, []*Order{&order})[0]
	wrote(err)
	if err != nil {
		return p.undo(ctx, order, err)
	}
	p.res.Order = order
	return nil
}

// result is what Deduct returns after err.
func (p *purchase) result(err error) (Result, error) {
	switch {
	case err != nil:
		return p.res, fmt.Errorf("deducting %d of %s: %w", p.req.Quantity, p.req.SKU, err)
	case p.res.Accepted:
		p.res.State = StateAccepted
	case p.streamed():
		p.res.State = StateWritten
	}
	return p.res, nil
}

// end ends the work of a strategy that sells by script.
func (p *purchase) end() {
	if p.after != nil {
		p.after()
	}
}

// look reads the item, and any earlier order with the same key. It returns ErrSoldOut if too
// little is left. It need not read anything if this process has just done so.
func (p *purchase) look(ctx, wait context.Context) error {
	if p.remembers() {
		return nil
	}
	s := p.service
	if p.Keeper != InDatabase && (p.stale || s.reconciliation.due(p.req.SKU)) {
		p.stale = false // before it is admitted: this may take long, and others need the place
		if _, err := s.reconcileWithin(wait, p.req.SKU); err != nil {
			return err
		}
	}
	leave, err := s.admit(wait)
	if err != nil {
		return err
	}
	defer leave()
	if p.remembers() { // by now
		return nil
	}
	now, err := p.readSale(ctx)
	if err != nil {
		return err
	}
	p.gen, p.at, p.res.Left = now.gen, now.location(p.req.SKU), now.left
	if err := p.canBuy(now.backend); err != nil {
		return err
	}
	if found, err := p.replay(ctx); found || err != nil {
		return err
	}
	if now.left < p.req.Quantity {
		return tooFewError{now.left}
	}
	return nil
}

// remembers reports whether the purchase need not look at the item, because a script checks
// the stock anyway and this process has a fresh cached hint that enough units are left. A buyer
// with an idempotency key must look: an earlier order must be looked up in the sale that is
// current for certain.
func (p *purchase) remembers() bool {
	if p.Script == nil || p.stale || p.req.IdempotencyKey != "" || !p.service.reconciliation.fresh(p.req.SKU) {
		return false
	}
	hint := p.service.stock.recall(p.req.SKU)
	if hint == nil {
		return false
	}
	left := hint.left.Load()
	if left < p.req.Quantity {
		return false
	}
	p.gen, p.res.Left = hint.gen, left
	p.at = reading{left, hint.gen, InRedis}.location(p.req.SKU)
	return p.canBuy(InRedis) == nil // the look says what is wrong
}

// admit waits until a buyer is admitted to look at items, see Service.admitted. The caller
// must call leave.
func (s *Service) admit(wait context.Context) (leave func(), err error) {
	if wait.Err() != nil {
		return nil, context.Cause(wait)
	}
	select {
	case s.admitted <- struct{}{}:
		return func() { <-s.admitted }, nil
	case <-wait.Done():
		return nil, context.Cause(wait)
	}
}

// readSale reads the stock where the strategy does. A strategy that does not need Redis must
// not fail because Redis is down.
func (p *purchase) readSale(ctx context.Context) (reading, error) {
	if p.Keeper == InDatabase {
		return p.service.readItem(ctx, p.req.SKU)
	}
	return p.service.readCurrent(ctx, p.req.SKU)
}

// canBuy returns why the buyer cannot buy in the generation that was found, by this strategy
// and from a stock that is kept there.
func (p *purchase) canBuy(kept Backend) error {
	if err := p.canSell(kept, p.gen.limit); err != nil {
		return err
	}
	if p.gen.limit > 0 && p.req.Buyer == "" {
		return fmt.Errorf("%w: buyer is missing: the item has a limit of %d units per buyer", ErrInvalid, p.gen.limit)
	}
	return nil
}

// CanSell returns why a strategy cannot sell an item as it is about to be put on sale:
// ErrInvalid, ErrLocation, ErrUnlimited or ErrUnknownStrategy.
func (s *Service) CanSell(strategy string, item Item) error {
	if err := item.check(); err != nil {
		return err
	}
	how, known := s.strategies[strategy]
	if !known {
		return fmt.Errorf("%w: %q", ErrUnknownStrategy, strategy)
	}
	if err := how.canSell(item.backend(), item.Limit); err != nil {
		return fmt.Errorf("putting %s on sale with %s: %w", item.SKU, strategy, err)
	}
	return nil
}

// canSell returns ErrLocation if the strategy cannot sell a stock that is kept there, and
// ErrUnlimited if it does not check a limit per buyer. A strategy that deducts from a stock that
// is sold by holds would not see the units in holds.
func (s Strategy) canSell(kept Backend, limit int64) error {
	switch {
	case kept == InHolds:
		return fmt.Errorf("%w: the item is sold by holds; put the item on sale with keeper %s or %s", ErrLocation, InRedis, InDatabase)
	case s.Keeper == InRedis && kept == InDatabase:
		return fmt.Errorf("%w: it needs the stock in Redis, and the item's is in the database; put the item on sale with keeper %s", ErrLocation, InRedis)
	case s.Keeper == InDatabase && kept != InDatabase:
		return fmt.Errorf("%w: it needs the stock in the database, and the item's is in Redis; put the item on sale with keeper %s", ErrLocation, InDatabase)
	case limit > 0 && !s.streamed():
		return fmt.Errorf("%w of %d; sell it with %s", ErrUnlimited, limit, StreamFamily)
	}
	return nil
}

// streamed reports whether the strategy writes orders behind the sale.
func (s Strategy) streamed() bool { return s.Script != nil && s.Script.streamed }

// work does the strategy's work, and returns what to call when the sale is over.
func (p *purchase) work(ctx context.Context) (after func(), err error) {
	worked := p.req.Steps.Begin(StepWork)
	after, err = p.service.work(ctx, p.req.SKU)
	worked(err)
	if err != nil {
		return after, fmt.Errorf("working on the order: %w", err)
	}
	return after, nil
}

// soldOut is what a buyer gets who has found too few units. If nothing is left, it ends the waits
// of all buyers of the same generation.
func (p *purchase) soldOut(left int64) error {
	if p.res.Left = left; left <= 0 {
		p.service.waiters.End(waitKey(p.req.SKU, p.gen), ErrSoldOut)
	}
	return tooFewError{left}
}

// replay answers with the order that an earlier request with the same key made, or with
// ErrKeyReused.
func (p *purchase) replay(ctx context.Context) (bool, error) {
	if p.req.IdempotencyKey == "" {
		return false, nil
	}
	order, found, err := p.service.store.byKey(ctx, p.req.SKU, p.gen.saleID, p.req.IdempotencyKey)
	switch {
	case err != nil:
		return false, err
	case !found:
		return p.acceptedReplay(ctx)
	}
	return p.replayed(order)
}

// replayed answers with a written order that has the buyer's key, or with ErrKeyReused.
func (p *purchase) replayed(order Order) (bool, error) {
	if err := order.answers(p.req); err != nil {
		return false, err
	}
	p.res.Order, p.res.Replayed = order, true
	return true, nil
}

// replayLate is replay for a buyer that got refused, which is ErrSoldOut or ErrLimit: another
// process may have sold the last units to a request with the same key, perhaps before this one
// knew the current sale. All waiters get ErrSoldOut at the same moment, so it waits to be
// admitted first: otherwise the last orders would queue behind a crowd of look-ups.
func (p *purchase) replayLate(ctx context.Context, refused error) error {
	leave, err := p.service.admit(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if p.gen == (generation{}) {
		now, err := p.readSale(ctx)
		if err != nil {
			return err
		}
		p.gen = now.gen
	}
	if found, err := p.replay(ctx); found || err != nil {
		return err
	}
	return refused
}

// writeTogether writes stock and order in one step, so that nothing ever has to be put
// back. If too few units are left the buyer had read an old stock, and so may the
// waiters have: with nothing left their waits end too.
func (p *purchase) writeTogether(ctx context.Context, c transactional, left int64) error {
	order := p.newOrder(now())
	var tooFew tooFewError
	wrote := p.req.Steps.Begin(StepWrite)
	err := c.sell(ctx, left, &order)
	wrote(err)
	switch {
	case errors.Is(err, errDuplicate):
		return p.answerFirst(ctx)
	case errors.As(err, &tooFew):
		return p.soldOut(tooFew.left)
	case err != nil:
		return err
	}
	p.res.Order, p.res.Left = order, left
	return nil
}

// lost wraps err in ErrLost if the lock was lost by the time it occurred.
func lost(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("%w: %w: %w", ErrLost, context.Cause(ctx), err)
}

// recordGuard records what the guard did before and after the sections that it ran.
func (p *purchase) recordGuard(begun time.Time, inside []figures.Span, err error) {
	steps := p.req.Steps
	if steps == nil {
		return
	}
	ended := time.Now()
	if len(inside) == 0 {
		steps.Add(StepWait, figures.Span{From: begun, To: ended}, err)
		return
	}
	entered := inside[0].From
	asked := entered.Add(-p.res.Lock.Taking)
	steps.Add(StepWait, figures.Span{From: begun, To: asked}, nil)
	if p.res.Lock.Taking > 0 {
		steps.Add(StepAcquire, figures.Span{From: asked, To: entered}, nil)
	}
	steps.Add(StepRelease, figures.Span{From: inside[len(inside)-1].To, To: ended}, p.res.Lock.Release)
}
