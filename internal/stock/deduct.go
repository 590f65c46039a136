package stock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"oversell/internal/locks"
)

// Deduct sells req.Quantity units. It returns ErrInvalid, ErrUnknownStrategy,
// ErrUnknownItem, ErrSoldOut, ErrBusy when the guard was not had in time,
// ErrLost, ErrClosing, or the error of a database or Redis that did not do its
// part. After such an error units may be taken for which there is no order:
// what is in doubt is left unsold.
func (s *Service) Deduct(ctx context.Context, req Request) (Result, error) {
	guard, guarded := s.guards[req.Strategy]
	taker, taken := s.takers[req.Strategy]
	if !guarded && !taken {
		return Result{}, fmt.Errorf("%w: %q", ErrUnknownStrategy, req.Strategy)
	}
	if err := req.check(); err != nil {
		return Result{}, err
	}
	b := &buyer{service: s, req: req, guard: guard, taker: taker}
	if err := b.inTurn(ctx); err != nil {
		return b.res, fmt.Errorf("deducting %d of %s: %w", req.Quantity, req.SKU, err)
	}
	return b.res, nil
}

// buyer is one request on its way.
type buyer struct {
	service *Service
	req     Request
	guard   Guard
	taker   *Taker // instead of a guard
	gen     generation
	changes uint64 // those that Redis had seen when the buyer came to find gen
	place   Place  // where the stock is kept
	stale   bool   // what Redis says of the sale was refused by the database
	worked  bool   // what needs no guard was done, before the units were taken
	after   func()
	// impatient buyers, who have waited for long enough for the order of
	// whoever has claimed their idempotency key, respect no claim.
	impatient bool
	res       Result
}

// inTurn lets requests with the same idempotency key buy one after the other,
// as far as they come to this instance: the later ones then find the order of
// the first, also while the last unit is on its way from the stock into it.
func (b *buyer) inTurn(ctx context.Context) error {
	if b.req.IdempotencyKey == "" {
		return b.buy(ctx, ctx)
	}
	patience, cancel := context.WithTimeoutCause(ctx, b.service.wait, ErrBusy)
	defer cancel()
	e := locks.Entry{Key: b.req.SKU + " " + b.req.IdempotencyKey, Wait: patience}
	_, err := b.service.sameKey.Do(ctx, e, func(context.Context) error { return b.buy(ctx, patience) })
	if errors.Is(err, ErrSoldOut) {
		// It may have gone to an order with this key, by another instance.
		if found, lookErr := b.replayLate(ctx); found || lookErr != nil {
			return lookErr
		}
	}
	return err
}

// replayLate is replay for a buyer who may have been told that the item is
// sold out before he had come through the door and learned which sale it is.
// Everybody else who waited is told at that moment, too, and so he goes through
// the door now: the last orders would otherwise wait behind a crowd that asks
// for its own.
func (b *buyer) replayLate(ctx context.Context) (bool, error) {
	leave, err := b.door(ctx)
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

// maxSales bounds how often a buyer who finds that another sale is on, or that the
// stock was rebuilt, tries to buy in that.
const maxSales = 8

// buy buys in the sale that is on. A sale that ends meanwhile has sold nothing to
// b, who goes on in the next.
func (b *buyer) buy(ctx, patience context.Context) error {
	defer func() {
		if b.after != nil {
			b.after()
		}
	}()
	deadline := time.Now().Add(b.service.wait)
	for range maxSales {
		err := b.buyOnce(ctx, patience, time.Until(deadline))
		if !errors.Is(err, errOtherSale) {
			return err
		}
		b.stale = true
	}
	return fmt.Errorf("%w: the sale has changed %d times meanwhile", ErrBusy, maxSales)
}

// buyOnce goes through the door, and either waits for the guard and runs the
// section, or has the taker take what needs no guard. It returns errOtherSale when
// the generation that it found has ended.
func (b *buyer) buyOnce(ctx, patience context.Context, limit time.Duration) error {
	s := b.service
	b.changes = s.agreement.changes()
	w := s.notices.Begin(patience, limit, ErrBusy)
	defer w.Done()
	wait := w.Context()
	if err := b.arrive(ctx, wait); err != nil || b.res.Replayed {
		return err
	}
	w.Attend(noticeKey(b.req.SKU, b.gen)) // others may be at work, and sell out
	leave, err := b.join(ctx, wait)
	if err != nil || b.res.Replayed {
		return err
	}
	defer leave()
	if b.fromRedis() && !s.agreement.of(b.req.SKU, b.changes) {
		return fmt.Errorf("looking which Redis has the stock: it changes: %w", errOtherSale)
	}
	w.Attend(noticeKey(b.req.SKU, b.gen))
	if b.taker != nil {
		return b.take(ctx, wait)
	}
	e := locks.Entry{Key: keys{b.req.SKU}.lock(b.req.Strategy), Owner: b.req.Owner, Wait: wait}
	b.res.Lock, err = b.guard.Do(ctx, b.place, e, b.section)
	if b.place.Key == "" && errors.Is(err, errUnsure) {
		s.log.Error("an order may have been written", "sku", b.req.SKU, "quantity", b.req.Quantity, "error", err)
	}
	return err
}

// tell ends the waits of those who want to buy in the same sale as b.
func (b *buyer) tell(cause error) { b.service.notices.Tell(noticeKey(b.req.SKU, b.gen), cause) }

// enter does what needs no guard: it finds the sale and an earlier order with
// the same key, and turns buyers away when the item is sold out.
func (b *buyer) enter(ctx, wait context.Context) error {
	if err := b.agree(ctx, wait); err != nil {
		return err
	}
	leave, err := b.door(wait)
	if err != nil {
		return err
	}
	defer leave()
	return b.look(ctx)
}

// agree makes Redis agree with the database where that is due, before b takes a
// place at the door, which others need.
func (b *buyer) agree(ctx, wait context.Context) error {
	s := b.service
	if s.inDatabase[b.req.Strategy] || !b.stale && !s.agreement.due(b.req.SKU) {
		return nil
	}
	b.stale = false
	_, err := s.agreeWithin(ctx, wait, b.req.SKU)
	return err
}

// door waits for a place at the door.
func (b *buyer) door(wait context.Context) (leave func(), err error) {
	if wait.Err() != nil {
		return nil, context.Cause(wait)
	}
	entry := b.service.entry
	select {
	case entry <- struct{}{}:
		return func() { <-entry }, nil
	case <-wait.Done():
		return nil, context.Cause(wait)
	}
}

func (b *buyer) look(ctx context.Context) error {
	now, err := b.read(ctx)
	if err != nil {
		return err
	}
	b.gen, b.place, b.res.Left = now.gen, now.place(b.req.SKU), now.left
	if err := b.checkPlace(); err != nil {
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

// checkPlace returns ErrPlace before anything else is said of a stock that is not
// where the buyer's strategy looks for it.
func (b *buyer) checkPlace() error {
	switch {
	case b.taker != nil:
		return inRedis(b.place)
	case b.service.inDatabase[b.req.Strategy]:
		return inDatabase(b.place)
	}
	return nil
}

// fromRedis reports whether the stock that the buyer found is kept in Redis.
func (b *buyer) fromRedis() bool { return b.taker != nil || b.place.Key != "" }

// read looks at the stock where the buyer's strategy will. A strategy that needs
// no Redis does not fail with it.
func (b *buyer) read(ctx context.Context) (reading, error) {
	if b.service.inDatabase[b.req.Strategy] {
		return b.service.readItem(ctx, b.req.SKU)
	}
	return b.service.read(ctx, b.req.SKU)
}

// replay answers with the order that an earlier request with the same key made.
func (b *buyer) replay(ctx context.Context) (bool, error) {
	if b.req.IdempotencyKey == "" {
		return false, nil
	}
	order, found, err := b.service.store.byKey(ctx, b.req.SKU, b.gen.saleID, b.req.IdempotencyKey)
	if found {
		b.res.Order, b.res.Replayed = order, true
	}
	return found, err
}

// section is what the guard is for: read, check, work, write. The order is
// written before the guard is released, so that the next holder finds a stock
// and orders that agree.
func (b *buyer) section(ctx context.Context, c Counter) error {
	leave := b.service.inside.Enter(b.req.SKU)
	defer func() { b.res.Spans = append(b.res.Spans, leave()) }()
	if found, err := b.replay(ctx); found || err != nil {
		return lost(ctx, err)
	}
	left, err := b.check(ctx, c)
	if err != nil {
		return lost(ctx, err)
	}
	after, err := b.service.work(ctx, b.req.SKU)
	if err != nil {
		return lost(ctx, fmt.Errorf("working on the order: %w", err))
	}
	// From here on what is begun is finished, also by a holder that is told
	// just now that it has lost the lock: half a sale helps nobody. This is
	// the write that comes too late in a process that was paused before it.
	ctx = context.WithoutCancel(ctx)
	if after != nil {
		defer after()
	}
	if together, ok := c.(seller); ok {
		return b.sellTogether(ctx, together, left-b.req.Quantity)
	}
	if err := c.Set(ctx, left-b.req.Quantity); err != nil {
		if !refused(err) {
			b.doubt() // the write may have been done, with only the reply lost
		}
		return err
	}
	b.res.Left = left - b.req.Quantity
	return b.writeOrder(ctx)
}

// sellTogether writes stock and order in one step, after which nothing has to be
// put back. Others may have read a larger stock and not know yet that the last
// unit has gone.
func (b *buyer) sellTogether(ctx context.Context, c seller, left int64) error {
	order := b.newOrder()
	var few tooFewError
	err := c.sell(ctx, left, &order)
	switch {
	case errors.Is(err, errDuplicate):
		return b.answerFirst(ctx)
	case errors.As(err, &few):
		if b.res.Left = few.left; few.left <= 0 {
			b.tell(ErrSoldOut)
		}
		return err
	case err != nil:
		return err
	}
	b.res.Order, b.res.Left = order, left
	return nil
}

// check reads the stock and returns ErrSoldOut if it is not enough.
func (b *buyer) check(ctx context.Context, c Counter) (left int64, err error) {
	left, err = c.Get(ctx)
	if err != nil {
		return 0, err
	}
	b.res.Left = left
	if left <= 0 {
		b.tell(ErrSoldOut)
	}
	if left < b.req.Quantity {
		return left, fmt.Errorf("%w: %d left", ErrSoldOut, left)
	}
	return left, nil
}

// lost tells an error that came of the loss of the lock from others.
func lost(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("%w: %w: %w", ErrLost, context.Cause(ctx), err)
}

// newOrder is the order for b's units. Its id begins with the time: ids in
// random places would have the database touch a page of its index for each.
func (b *buyer) newOrder() Order {
	order := Order{
		ID: uuid.Must(uuid.NewV7()).String(), SaleID: b.gen.saleID, SKU: b.req.SKU,
		Quantity: b.req.Quantity, Strategy: b.req.Strategy, CreatedAt: now(),
	}
	if b.req.IdempotencyKey != "" {
		order.IdempotencyKey = &b.req.IdempotencyKey
	}
	return order
}

// doubt notes that units may be taken with no order: the stock is counted anew.
func (b *buyer) doubt() { b.service.agreement.doubt(b.req.SKU, b.gen) }

// writeOrder writes the order for units that were taken.
func (b *buyer) writeOrder(ctx context.Context) error {
	order := b.newOrder()
	return b.settle(ctx, order, b.service.write(ctx, b.gen, b.changes, []*Order{&order})[0])
}

// errRecounted means that an order was not written, and that its units are part of
// the stock again: it was counted anew.
var errRecounted = errors.New("the order was not written")

// write writes orders of one generation of one item, all or none, and returns an
// error for each. Where the database does not tell what became of them it ends the
// generation, and looks. Only if that fails too is the error errUnsure: the units
// stay taken until the stock can be counted.
//
// Changes are those that Redis had seen when the generation was known to be right.
// If there were more since, the units may come of an older stock of the same
// generation, and the orders are not written.
func (s *Service) write(ctx context.Context, g generation, changes uint64, orders []*Order) []error {
	errs := make([]error, len(orders))
	var err error
	if s.agreement.changes() == changes {
		err = s.store.insert(ctx, g, orders...)
	} else {
		s.agreement.doubt(orders[0].SKU, g)
		err = fmt.Errorf("writing an order: Redis is another one: %w", errOtherSale)
	}
	if err == nil {
		return errs
	}
	var written map[string]bool
	if errors.Is(err, errUnsure) {
		ids := make([]string, len(orders))
		for i, o := range orders {
			ids[i] = o.ID
		}
		var lookErr error
		if written, lookErr = s.decide(ctx, orders[0].SKU, g, ids); lookErr == nil {
			err = fmt.Errorf("%w: %v", errRecounted, err)
		} else {
			err = errors.Join(err, lookErr)
		}
	}
	for i, o := range orders {
		if !written[o.ID] {
			errs[i] = err
		}
	}
	return errs
}

// settle draws the conclusion from err, with which an order was written. If it
// could not be written the units go back. If that is in doubt they stay taken: a
// unit unsold is better than a unit sold twice. A stock that has ended has nothing
// to go back to, and the one after it was counted without them.
func (b *buyer) settle(ctx context.Context, order Order, err error) error {
	s := b.service
	switch {
	case err == nil:
		b.res.Order = order
		return nil
	case errors.Is(err, errUnsure):
		b.doubt()
		s.log.Error("units may be taken with no order", "sku", b.req.SKU, "quantity", b.req.Quantity, "order", order.ID, "error", err)
		return err
	case errors.Is(err, errOtherSale), errors.Is(err, errRecounted):
	default:
		if backErr := s.stock.putBack(ctx, b.req.SKU, b.gen, b.req.Quantity); backErr != nil {
			b.doubt()
			s.log.Error("units are taken with no order", "sku", b.req.SKU, "quantity", b.req.Quantity, "error", backErr)
			return errors.Join(err, backErr)
		}
		b.res.Left += b.req.Quantity
	}
	if errors.Is(err, errDuplicate) {
		return b.answerFirst(ctx)
	}
	if b.taker != nil && b.req.IdempotencyKey != "" {
		return errors.Join(err, s.stock.unclaim(ctx, b.req.SKU, b.gen.saleID, b.req.IdempotencyKey))
	}
	return err
}

// answerFirst answers with the order that won against this one.
func (b *buyer) answerFirst(ctx context.Context) error {
	found, err := b.replay(ctx)
	if err == nil && !found {
		err = fmt.Errorf("%w, but is not to be found", errDuplicate)
	}
	return err
}
