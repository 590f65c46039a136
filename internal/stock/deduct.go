package stock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"oversell/internal/broadcast"
	"oversell/internal/figures"
	"oversell/internal/guard"
)

// Request is one buyer's request.
type Request struct {
	SKU            string
	Quantity       int64
	Strategy       string
	IdempotencyKey string         // may be empty
	Buyer          string         // for an item with a limit per buyer; may be empty otherwise
	Owner          string         // the buyer's id, unique among all instances
	Steps          *figures.Steps // records what the purchase does; nil: nothing does
}

func (r Request) check() error {
	if err := CheckSKU(r.SKU); err != nil {
		return err
	}
	if r.Quantity < 1 || r.Quantity > MaxQuantity {
		return fmt.Errorf("%w: quantity is %d, and must be 1 to %d", ErrInvalid, r.Quantity, MaxQuantity)
	}
	if err := CheckKey(r.IdempotencyKey); err != nil {
		return err
	}
	if r.Buyer != "" {
		return CheckBuyer(r.Buyer)
	}
	return nil
}

// Result is the result of a request. After an error all fields but Order are set too.
type Result struct {
	Order    Order
	Replayed bool // the order is an earlier request's, with the same key
	Accepted bool // the order is in a stream, and not written yet
	// State and Reason are those of an OrderState if the strategy writes orders behind the
	// sale, and "" otherwise.
	State  string
	Reason string
	Left   int64          // units left as this buyer saw it
	Spans  []figures.Span // times spent inside the critical section
	Lock   guard.Stats
}

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
	return err != nil && !isAny(err, ErrSoldOut, ErrLimit, ErrKeyReused, errConflict, errDuplicate, errOtherSale)
}

// Deduct sells req.Quantity units. It returns the errors of this package that say why it sold
// nothing, or the error of a database or Redis that failed. If a backend failed, units may be
// taken without an order: they are not sold again until the stock is counted.
func (s *Service) Deduct(ctx context.Context, req Request) (Result, error) {
	how, known := s.strategies[req.Strategy]
	if !known {
		return Result{}, fmt.Errorf("%w: %q", ErrUnknownStrategy, req.Strategy)
	}
	if err := req.check(); err != nil {
		return Result{}, err
	}
	p := &purchase{service: s, req: req, Strategy: how, deadline: time.Now().Add(s.wait), after: func() {}}

	// 1. Same key: requests of this process with the same idempotency key buy one after the
	// other. So a later one finds the order of the first, even if that took the last unit.
	if req.IdempotencyKey != "" {
		unlock, err := p.lockKey(ctx)
		if err != nil {
			return p.result(err)
		}
		defer unlock()
	}
	defer func() { p.after() }()

	err := p.inCurrentSale(ctx, func(wait context.Context) error {
		// 2. Look at the item: no buyer should wait for a lock to buy what is sold out.
		looked := req.Steps.Begin(StepLook)
		err := p.lookAtItem(ctx, wait)
		if looked(err); err != nil || p.res.Replayed {
			return err
		}

		// 3. Enter: wait until strategies of other families have left.
		leave, err := p.enter(ctx, wait)
		if err != nil || p.res.Replayed {
			return err
		}
		defer leave() // 8. Leave.
		if p.Script != nil {
			return p.sellByScript(ctx, wait) // 5. first, and then the others in one script
		}
		return p.underGuard(wait, func(ctx context.Context, stock Counter) error {
			// 4. Read the stock.
			left, err := p.readStock(ctx, stock)
			if err != nil || p.res.Replayed {
				return err
			}

			// 5. Work.
			after, err := p.doWork(ctx)
			if err != nil {
				return err
			}
			defer after()

			// 6. Write the stock. WithoutCancel: from now on nothing interrupts the purchase, not
			// even a lost lock. In a process that was paused, this is the write that comes too late.
			ctx, left = context.WithoutCancel(ctx), left-req.Quantity
			if c, ok := stock.(transactional); ok {
				return p.writeBoth(ctx, c, left) // 6. and 7. in one transaction
			}
			s.families.addInFlight(req.SKU, req.Quantity)
			defer s.families.addInFlight(req.SKU, -req.Quantity)
			if err := p.writeStock(ctx, stock, left); err != nil {
				return err
			}

			// 7. Write the order, before the guard is released: the next holder finds a stock and
			// orders that agree.
			return p.writeOrder(ctx)
		})
	})
	return p.result(err)
}

// purchase is one request while it is being served, by a Strategy.
type purchase struct {
	service *Service
	req     Request
	Strategy
	deadline time.Time

	waiter  *broadcast.Waiter
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

// lockKey waits until no other request of this process with the same idempotency key is served.
func (p *purchase) lockKey(ctx context.Context) (unlock func(), err error) {
	wait, cancel := context.WithDeadlineCause(ctx, p.deadline, ErrBusy)
	defer cancel()
	hold, err := p.service.sameKey.Lock(wait, p.req.SKU+" "+p.req.IdempotencyKey)
	if err != nil {
		return nil, err
	}
	return hold.Unlock, nil
}

// inCurrentSale calls buy, and again if the generation ends before it has sold anything to the
// buyer: because another sale has begun, units were added, or the stock was rebuilt. Buy may wait
// until its context ends.
func (p *purchase) inCurrentSale(ctx context.Context, buy func(wait context.Context) error) error {
	for time.Now().Before(p.deadline) {
		p.changes = p.service.reconciliation.changes()
		wait, w := p.service.waiters.Begin(ctx, time.Until(p.deadline), ErrBusy)
		p.waiter = w
		err := buy(wait)
		w.Done()
		switch {
		case errors.Is(err, errOtherSale):
			p.stale = true
		case p.req.IdempotencyKey != "" && isAny(err, ErrSoldOut, ErrLimit):
			return p.replayLate(ctx, err)
		default:
			return err
		}
	}
	return fmt.Errorf("%w: the sale kept changing", ErrBusy)
}

// lookAtItem reads the item, and any earlier order with the same key. It returns ErrSoldOut if too
// little is left. From then on the wait ends when the item is sold out.
func (p *purchase) lookAtItem(ctx, wait context.Context) error {
	if p.Script != nil && p.remembers() {
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
	if p.Script != nil && p.remembers() { // by now
		return nil
	}
	now, err := s.readCurrent(ctx, p.req.SKU, p.Keeper)
	if err != nil {
		return err
	}
	if err := p.found(now); err != nil {
		return err
	}
	if err := p.replay(ctx); err != nil || p.res.Replayed {
		return err
	}
	if now.left < p.req.Quantity {
		return tooFewError{now.left}
	}
	p.waiter.Attend(waitKey(p.req.SKU, p.gen))
	return nil
}

// waitKey is the broadcaster's key for buyers of one generation of an item.
func waitKey(sku string, g generation) string { return sku + " " + g.String() }

// remembers reports whether the purchase need not look at the item, because a script checks
// the stock anyway and this process has a fresh cached hint that enough units are left. A buyer
// with an idempotency key must look: an earlier order must be looked up in the sale that is
// current for certain.
func (p *purchase) remembers() bool {
	if p.stale || p.req.IdempotencyKey != "" || !p.service.reconciliation.fresh(p.req.SKU) {
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
	if p.found(reading{left, hint.gen, InRedis}) != nil {
		return false // the look says what is wrong
	}
	p.waiter.Attend(waitKey(p.req.SKU, p.gen))
	return true
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

// found records what a look has found. It returns why the buyer cannot buy there.
func (p *purchase) found(now reading) error {
	p.gen, p.res.Left = now.gen, now.left
	p.at = Location{SKU: p.req.SKU, SaleID: now.gen.saleID, Generation: now.gen.id}
	if now.backend.inRedis() {
		p.at.Key = keys{p.req.SKU}.stock(now.gen)
	}
	if err := p.canSell(now.backend, now.gen.limit); err != nil {
		return err
	}
	if now.gen.limit > 0 && p.req.Buyer == "" {
		return fmt.Errorf("%w: buyer is missing: the item has a limit of %d units per buyer", ErrInvalid, now.gen.limit)
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
		return fmt.Errorf("%w: the item is sold by holds; put the item on sale with keeper %s or %s",
			ErrLocation, InRedis, InDatabase)
	case s.Keeper == InRedis && kept == InDatabase:
		return fmt.Errorf("%w: it needs the stock in Redis, and the item's is in the database; put the item on "+
			"sale with keeper %s", ErrLocation, InRedis)
	case s.Keeper == InDatabase && kept != InDatabase:
		return fmt.Errorf("%w: it needs the stock in the database, and the item's is in Redis; put the item on "+
			"sale with keeper %s", ErrLocation, InDatabase)
	case limit > 0 && !s.streamed():
		return fmt.Errorf("%w of %d; sell it with %s", ErrUnlimited, limit, StreamFamily)
	}
	return nil
}

// streamed reports whether the strategy writes orders behind the sale.
func (s Strategy) streamed() bool { return s.Script != nil && s.Script.streamed }

// enter waits until no other family is at work on the item, and counts the buyer in among
// those of its own. The caller must call leave.
func (p *purchase) enter(ctx, wait context.Context) (leave func(), err error) {
	ended := p.req.Steps.Begin(StepJoin)
	defer func() { ended(err) }()
	s, leave := p.service, func() {}
	if !s.families.mixed {
		family := s.Family(p.req.Strategy)
		if p.gen.family != family {
			if err := p.switchTo(ctx, wait, family); err != nil || p.res.Replayed {
				return leave, err
			}
		}
		if leave, err = s.families.enter(wait, p.req.SKU, family); err != nil {
			return nil, err
		}
	}
	if p.at.Key != "" && !s.reconciliation.comparedAt(p.req.SKU, p.changes) {
		leave()
		return nil, fmt.Errorf("checking which Redis has the stock: it has just changed: %w", errOtherSale)
	}
	return leave, nil
}

// underGuard runs the section under the strategy's guard, and records what the guard did.
func (p *purchase) underGuard(wait context.Context, section Section) error {
	s, begun, tries := p.service, time.Now(), len(p.res.Spans)
	entry := guard.Entry{Key: keys{p.req.SKU}.lock(p.req.Strategy), Owner: p.req.Owner}
	stats, err := p.Guard.Do(wait, p.at, entry, func(ctx context.Context, stock Counter) error {
		leave := s.inside.Enter(p.req.SKU)
		defer func() { p.res.Spans = append(p.res.Spans, leave()) }()
		return section(ctx, stock)
	})
	p.res.Lock = stats
	if p.req.Steps != nil {
		p.recordGuard(begun, p.res.Spans[tries:], err)
	}
	if p.at.Key == "" && errors.Is(err, errUnsure) {
		s.log.Error("an order may have been written", "sku", p.req.SKU, "quantity", p.req.Quantity, "error", err)
	}
	return err
}

// readStock reads the stock, and once more any earlier order with the same key.
func (p *purchase) readStock(ctx context.Context, stock Counter) (left int64, err error) {
	if err := p.replay(ctx); err != nil || p.res.Replayed {
		return 0, lost(ctx, err)
	}
	ended := p.req.Steps.Begin(StepRead)
	left, err = stock.Get(ctx)
	ended(err)
	if err == nil && left < p.req.Quantity {
		err = p.soldOut(left)
	}
	if err != nil {
		return 0, lost(ctx, err)
	}
	p.res.Left = left
	return left, nil
}

// doWork calls Config.Work, and returns what to call when the sale is over.
func (p *purchase) doWork(ctx context.Context) (after func(), err error) {
	ended := p.req.Steps.Begin(StepWork)
	after, err = p.service.work(ctx, p.req.SKU)
	ended(err)
	if err != nil {
		return nil, lost(ctx, fmt.Errorf("working on the order: %w", err))
	}
	if after == nil {
		after = func() {}
	}
	return after, nil
}

func (p *purchase) writeStock(ctx context.Context, stock Counter, left int64) error {
	ended := p.req.Steps.Begin(StepWrite)
	err := stock.Set(ctx, left)
	ended(err)
	if err != nil && !refused(err) {
		p.doubt() // the write may have been done, with only the reply lost
	}
	if err == nil {
		p.res.Left = left
	}
	return err
}

// writeOrder writes the order, or puts its units back.
func (p *purchase) writeOrder(ctx context.Context) error {
	order := p.newOrder(now())
	ended := p.req.Steps.Begin(StepOrder)
	err := p.service.writeOrders(ctx, p.gen, p.changes, []*Order{&order})[0]
	ended(err)
	if err != nil {
		return p.undo(ctx, order, err)
	}
	p.res.Order = order
	return nil
}

// soldOut is what a buyer gets who has found too few units. If nothing is left, it ends the waits
// of all buyers of the same generation.
func (p *purchase) soldOut(left int64) error {
	if p.res.Left = left; left <= 0 {
		p.service.waiters.End(waitKey(p.req.SKU, p.gen), ErrSoldOut)
	}
	return tooFewError{left}
}

// replay answers with the order that an earlier request with the same key made, and sets
// Result.Replayed then. It returns ErrKeyReused.
func (p *purchase) replay(ctx context.Context) error {
	if p.req.IdempotencyKey == "" {
		return nil
	}
	order, found, err := p.service.store.byKey(ctx, p.req.SKU, p.gen.saleID, p.req.IdempotencyKey)
	switch {
	case err != nil:
		return err
	case !found:
		return p.replayAccepted(ctx)
	}
	return p.replayWritten(order)
}

// replayWritten answers with a written order that has the buyer's key, or with ErrKeyReused.
func (p *purchase) replayWritten(order Order) error {
	if err := order.answers(p.req); err != nil {
		return err
	}
	p.res.Order, p.res.Replayed = order, true
	return nil
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
		now, err := p.service.readCurrent(ctx, p.req.SKU, p.Keeper)
		if err != nil {
			return err
		}
		p.gen = now.gen
	}
	if err := p.replay(ctx); err != nil || p.res.Replayed {
		return err
	}
	return refused
}

// writeBoth writes stock and order in one step, so that nothing ever has to be put back.
func (p *purchase) writeBoth(ctx context.Context, c transactional, left int64) error {
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
	steps, ended := p.req.Steps, time.Now()
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
