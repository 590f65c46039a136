package stock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"oversell/internal/broadcast"
	"oversell/internal/figures"
	"oversell/internal/guard"
	"oversell/internal/message"
)

// Request is one buyer's request.
type Request struct {
	SKU            string
	Quantity       int64
	Strategy       string
	IdempotencyKey string         // may be empty
	Buyer          string         // for an item with a limit per buyer; may be empty otherwise
	Owner          string         // the buyer's id, unique among all instances
	Steps          *figures.Steps // records the steps of the purchase; nil: they are not recorded
}

// Check returns ErrInvalid if the request is not valid.
func (r Request) Check() error {
	if err := CheckSKU(r.SKU); err != nil {
		return err
	}
	if r.Quantity < 1 || r.Quantity > MaxQuantity {
		return message.Errorf("%w: quantity is %d; it must be 1 to %d", ErrInvalid, r.Quantity, MaxQuantity)
	}
	if err := CheckKey(r.IdempotencyKey); err != nil {
		return err
	}
	if r.Buyer != "" {
		return CheckBuyer(r.Buyer)
	}
	return nil
}

// Result is the result of a request. After an error all fields except Order are set, too.
type Result struct {
	Order    Order
	Replayed bool // the order was made by an earlier request with the same key
	// State and Reason are set, as in an OrderState, if the strategy writes orders through a stream.
	State  string
	Reason string
	Left   int64          // units left, as this buyer last saw the stock
	Spans  []figures.Span // times spent inside the critical section
	Lock   guard.Stats
}

// The steps of a purchase; see Request.Steps.
const (
	StepLook    = "look"    // reading the item, and looking for an earlier order with the same key
	StepJoin    = "join"    // waiting until another family's turn is over
	StepWait    = "wait"    // waiting for the guard, or for the batch to begin
	StepAcquire = "acquire" // the attempt that took the lock, including the wait in the lock's queue if it has one
	StepRead    = "read"    // reading the stock
	StepWork    = "work"    // what Config.Work does
	StepWrite   = "write"   // writing the stock, together with the order if both are in the database
	StepTake    = "take"    // running the script that checks the stock and takes the units
	StepOrder   = "order"   // writing the order, together with others in a batch
	StepRelease = "release" // releasing the lock, or committing
)

// IsFailure reports whether err, which may be nil, means that a step failed. If the item is sold
// out, or another buyer was faster, that is not a failure.
func IsFailure(err error) bool {
	return err != nil && !isAny(err, ErrSoldOut, ErrLimit, ErrKeyReused, errConflict, errDuplicate, errOtherSale)
}

// Deduct sells req.Quantity units. If it sold nothing, it returns one of this package's errors, or
// the error of the database or Redis. If a backend failed, units may be taken without an order:
// they are not sold again until the stock is counted.
func (s *Service) Deduct(ctx context.Context, req Request) (Result, error) {
	how, known := s.cfg.Strategies[req.Strategy]
	if !known {
		return Result{}, message.Errorf("%w: %q", ErrUnknownStrategy, req.Strategy)
	}
	if err := req.Check(); err != nil {
		return Result{}, err
	}
	p := &purchase{service: s, req: req, Strategy: how}
	defer func() {
		if p.after != nil {
			p.after()
		}
	}()
	err := p.buyWithRetry(ctx, time.Now().Add(s.cfg.Wait))
	if err == nil && p.patience > 0 {
		err = s.untilWritten(ctx, req.SKU, p.res.Order.ID, p.patience)
	}
	if err != nil {
		return p.res, message.Errorf("deducting %d of %s: %w", req.Quantity, req.SKU, err)
	}
	if p.streamed() {
		p.res.State = cmp.Or(p.res.State, StateWritten)
	}
	return p.res, nil
}

// purchase is one request while it is being served, by a Strategy.
type purchase struct {
	service *Service
	req     Request
	Strategy

	waiter  *broadcast.Waiter
	gen     generation // the generation that it buys from; see adopt
	at      Location   // where the stock of that generation is
	changes uint64     // reconciliation.changes, from before gen was read
	joined  bool       // it has waited for the turn of its family
	stale   bool       // Redis may not have the current sale, so reconcile first
	res     Result

	// patience is how long to wait until the order in res is written, because too few replicas of
	// Redis may have it; 0: it need not be waited for. The purchase then keeps nobody else out.
	patience time.Duration

	// For a strategy that sells by script:
	workDone bool   // Config.Work has returned
	after    func() // the function that Config.Work returned
}

// buyWithRetry buys, and tries again if the generation ends before the buyer has bought. A
// generation ends when another sale or another family begins, units are added, or the stock is
// rebuilt.
func (p *purchase) buyWithRetry(ctx context.Context, deadline time.Time) error {
	// 1. Same key: requests of this process with the same idempotency key buy one after the
	// other. So a later one finds the order of the first, even if that took the last unit.
	if p.req.IdempotencyKey != "" {
		wait, cancel := context.WithDeadlineCause(ctx, deadline, ErrBusy)
		hold, err := p.service.sameKey.Lock(wait, p.req.SKU+" "+p.req.IdempotencyKey)
		cancel()
		if err != nil {
			return err
		}
		defer hold.Unlock()
	}
	for time.Now().Before(deadline) {
		p.changes = p.service.reconciliation.changes()
		wait, w := p.service.waiters.Begin(ctx, time.Until(deadline), ErrBusy)
		p.waiter = w
		err := p.buy(ctx, wait)
		w.Done()
		// After ErrBusy the family is at work. Another family's turn is not this buyer's to give up.
		if p.joined && p.gen.family == p.Family && err != nil && !isAny(err, errOtherSale, ErrBusy) {
			p.yieldTurn(ctx)
		}
		if p.req.IdempotencyKey != "" && isAny(err, ErrSoldOut, ErrLimit) {
			err = p.replayLate(ctx, err)
		}
		if !errors.Is(err, errOtherSale) {
			return err
		}
		p.stale = true
	}
	return fmt.Errorf("%w: the sale kept changing", ErrBusy)
}

// buy buys in the current generation. When wait ends, only waiting stops.
func (p *purchase) buy(ctx, wait context.Context) error {
	s, steps := p.service, p.req.Steps

	// 2. Look at the item: no buyer should wait for a lock if the item is sold out.
	looked := steps.Begin(StepLook)
	err := p.look(ctx, wait)
	if looked(err); err != nil || p.res.Replayed {
		return err
	}

	// 3. Turn: the generation must belong to the strategy's family.
	if p.gen.family != p.Family && !s.cfg.Mixed {
		joined := steps.Begin(StepJoin)
		err := p.takeTurn(ctx, wait)
		if joined(err); err != nil || p.res.Replayed {
			return err
		}
	}
	if p.at.inRedis() && !s.reconciliation.comparedAt(p.req.SKU, p.changes) {
		return fmt.Errorf("checking which Redis has the stock: it has just changed: %w", errOtherSale)
	}
	if p.Script != nil {
		return p.sellByScript(ctx, wait) // 6. first, and then the others in one script
	}

	// 4. Enter: wait for the guard, which runs the section.
	begun, tries := time.Now(), len(p.res.Spans)
	entry := guard.Entry{Key: lockKey(p.req.SKU, p.req.Strategy), Owner: p.req.Owner}
	p.res.Lock, err = p.Guard.Do(wait, p.at, entry, p.section)
	p.recordGuard(begun, p.res.Spans[tries:], err)
	if !p.at.inRedis() && errors.Is(err, errUnsure) {
		s.log.Error("an order may have been written", "sku", p.req.SKU, "quantity", p.req.Quantity, "error", err)
	}
	return err
}

// section is the part of a purchase that runs under the guard.
func (p *purchase) section(ctx context.Context, stock Counter) error {
	s, steps := p.service, p.req.Steps
	entered := time.Now()
	s.cfg.Inside(p.req.SKU, +1)
	defer func() { // 9. Leave.
		s.cfg.Inside(p.req.SKU, -1)
		p.res.Spans = append(p.res.Spans, figures.Span{From: entered, To: time.Now()})
	}()

	// 5. Read the stock, and once more any earlier order with the same key.
	if p.req.IdempotencyKey != "" {
		if err := p.replay(ctx); err != nil || p.res.Replayed {
			return lost(ctx, err)
		}
	}
	read := steps.Begin(StepRead)
	left, err := stock.Get(ctx)
	if read(err); err == nil && left < p.req.Quantity {
		err = p.soldOut(left)
	}
	if err != nil {
		return lost(ctx, err)
	}
	p.res.Left = left

	// 6. Work.
	worked := steps.Begin(StepWork)
	after, err := s.cfg.Work(ctx, p.req.SKU)
	if worked(err); err != nil {
		return lost(ctx, fmt.Errorf("working on the order: %w", err))
	}
	if after != nil {
		defer after()
	}

	// 7. Write the stock. WithoutCancel: from now on nothing interrupts the purchase, not
	// even a lost lock. In a process that was paused, this is the write that comes too late.
	ctx, left = context.WithoutCancel(ctx), left-p.req.Quantity
	if c, ok := stock.(transactional); ok {
		return p.writeBoth(ctx, c, left) // 7. and 8. in one transaction
	}
	s.flights.add(p.req.SKU, p.req.Quantity)
	defer s.flights.add(p.req.SKU, -p.req.Quantity)
	wrote := steps.Begin(StepWrite)
	err = stock.Set(ctx, left)
	if wrote(err); err != nil {
		if !refused(err) {
			p.doubt() // the write may have been done, with only the reply lost
		}
		return err
	}
	p.res.Left = left

	// 8. Write the order, before the guard is released: the next holder finds a stock and
	// orders that agree.
	order := p.newOrder(now())
	ordered := steps.Begin(StepOrder)
	err = s.writeOrders(ctx, p.gen, p.changes, []*Order{&order})[0]
	if ordered(err); err != nil {
		return p.undo(ctx, order, err)
	}
	p.res.Order = order
	return nil
}

// look reads the item, and looks for an earlier order with the same key. It returns ErrSoldOut if
// too few units are left, and errOtherSale if the stock must first be compared with the database.
// Once look has returned nil, the buyer's wait ends early when the item is sold out.
func (p *purchase) look(ctx, wait context.Context) error {
	s := p.service
	if p.Script != nil && p.skipsLook() {
		return nil
	}
	if p.Keeper != InDatabase && (p.stale || s.reconciliation.mustCompare(p.req.SKU)) {
		p.stale = false // before it is admitted: this may take long, and must not keep a slot from others
		if _, err := s.reconcile(wait, p.req.SKU); err != nil {
			return err
		}
	}
	if s.admitted.Acquire(wait, 1) != nil {
		return context.Cause(wait)
	}
	defer s.admitted.Release(1)
	if p.Script != nil && p.skipsLook() { // another buyer may have read the item in the meantime
		return nil
	}
	now, err := s.readCurrent(ctx, p.req.SKU, p.Keeper)
	if err == nil {
		err = p.adopt(now)
	}
	if err == nil && p.req.IdempotencyKey != "" {
		err = p.replay(ctx)
	}
	if err != nil || p.res.Replayed {
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

// adopt makes the purchase buy from the stock of a reading. It returns an error if the buyer cannot
// buy from that stock.
func (p *purchase) adopt(now reading) error {
	p.gen, p.res.Left = now.gen, now.left
	p.at = Location{SKU: p.req.SKU, SaleID: now.gen.saleID, Generation: now.gen.id}
	if now.backend.inRedis() {
		p.at.Key = now.gen.stock(p.req.SKU)
	}
	if err := p.canSell(now.backend, now.gen.limit); err != nil {
		return err
	}
	if now.gen.limit > 0 && p.req.Buyer == "" {
		return message.Errorf("%w: buyer is missing: the item has a limit of %d units per buyer", ErrInvalid,
			now.gen.limit)
	}
	return nil
}

// CanSell returns an error if a strategy could not sell the item, which is about to be put on sale:
// ErrInvalid, ErrLocation, ErrUnlimited or ErrUnknownStrategy.
func (s *Service) CanSell(strategy string, item Item) error {
	if err := item.check(); err != nil {
		return err
	}
	how, known := s.cfg.Strategies[strategy]
	if !known {
		return message.Errorf("%w: %q", ErrUnknownStrategy, strategy)
	}
	if err := how.canSell(item.backend(), item.Limit); err != nil {
		return message.Errorf("putting %s on sale with %s: %w", item.SKU, strategy, err)
	}
	return nil
}

// canSell returns ErrLocation if the strategy cannot sell a stock that is kept in this backend, and
// ErrUnlimited if it does not check a limit per buyer. A strategy that deducts from a stock that is
// sold by holds would not see the units in holds.
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
		return message.Errorf("%w of %d; sell it with %s", ErrUnlimited, limit, StreamFamily)
	}
	return nil
}

// streamed reports whether the strategy appends its orders to a stream, to be written later.
func (s Strategy) streamed() bool { return s.Script != nil && s.Script.stream != nil }

// soldOut returns the error for a buyer that found too few units. If nothing is left, it ends the
// waits of all buyers of the same generation.
func (p *purchase) soldOut(left int64) error {
	if p.res.Left = left; left <= 0 {
		p.service.waiters.End(waitKey(p.req.SKU, p.gen), ErrSoldOut)
	}
	return tooFewError{left}
}

// replay looks for an order that an earlier request with the same key made. If there is one, it is
// the result, and Result.Replayed is set. If the order is not what the buyer asks for, replay
// returns ErrKeyReused. The request must have a key.
func (p *purchase) replay(ctx context.Context) error {
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

// replayLate is like replay, for a buyer whose request was refused with ErrSoldOut or ErrLimit.
// Another process may have sold the last units to a request with the same key. All waiters get
// ErrSoldOut at the same moment, so each waits to be admitted first: otherwise the last orders would
// queue behind many look-ups.
func (p *purchase) replayLate(ctx context.Context, refused error) error {
	if p.service.admitted.Acquire(ctx, 1) != nil {
		return context.Cause(ctx)
	}
	defer p.service.admitted.Release(1)
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

// lost wraps err in ErrLost if the lock had been lost when err occurred.
func lost(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("%w: %w: %w", ErrLost, context.Cause(ctx), err)
}

// recordGuard records how long the guard took for waiting, for acquiring and for releasing.
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
