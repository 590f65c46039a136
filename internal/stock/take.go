package stock

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// take sells without a guard. Nobody is kept out while the work is done, nor has
// anything been taken yet: the script that takes the units decides by itself
// whether they are there, however old the last look at the stock is. The work is
// done once, also for a buyer who goes on in the next sale.
func (b *buyer) take(ctx, wait context.Context) (err error) {
	ctx = context.WithoutCancel(ctx)
	if !b.worked {
		if b.after, err = b.service.work(ctx, b.req.SKU); err != nil {
			return fmt.Errorf("working on the order: %w", err)
		}
		b.worked = true
	}
	return b.takeOnce(ctx, wait)
}

const (
	// claimDelay is how long to wait for the order of whoever has claimed a key.
	claimDelay = 10 * time.Millisecond
	// claimPatience is how long, in all, before whoever has claimed it is taken
	// to have died.
	claimPatience = 2 * time.Second
)

// takeOnce takes b's units in the sale that b knows of, unless somebody with the
// same idempotency key, at whatever instance, has just taken his. Then the order
// is waited for: it is the answer to both.
//
// The claim on a key spares the stock a detour, and no more. Without it both
// would take units, the index in the database would let one of them buy, and
// until the other had put his back an item could seem to be sold out that is not.
func (b *buyer) takeOnce(ctx, wait context.Context) error {
	start := time.Now()
	for {
		err := b.taker.take(ctx, wait, b)
		if !errors.Is(err, errClaimed) {
			return err
		}
		if err := pause(wait, claimDelay); err != nil {
			return err
		}
		if found, err := b.replayInTurn(ctx, wait); found || err != nil {
			return err
		}
		b.impatient = time.Since(start) > claimPatience
	}
}

// replayInTurn is replay for a buyer who waits at the door for his turn.
func (b *buyer) replayInTurn(ctx, wait context.Context) (bool, error) {
	leave, err := b.door(wait)
	if err != nil {
		return false, err
	}
	defer leave()
	return b.replay(ctx)
}

// arrive is enter for a buyer who may do without a look at the stock: one without
// a guard, if somebody has looked before, and there seemed to be enough.
func (b *buyer) arrive(ctx, wait context.Context) error {
	if b.taker == nil {
		return b.enter(ctx, wait)
	}
	if wait.Err() != nil {
		return context.Cause(wait)
	}
	if b.knows() {
		return nil
	}
	if err := b.agree(ctx, wait); err != nil {
		return err
	}
	leave, err := b.door(wait)
	if err != nil {
		return err
	}
	defer leave()
	if b.knows() { // by now
		return nil
	}
	return b.look(ctx)
}

// knows reports whether b can do without a look. Who has a key cannot: an order
// with it must be looked for in the sale that is the current one for sure.
func (b *buyer) knows() bool {
	g := b.service.stock.recall(b.req.SKU)
	if g == nil || b.stale || b.req.IdempotencyKey != "" || !b.service.agreement.fresh(b.req.SKU) {
		return false
	}
	left := g.left.Load()
	if left < b.req.Quantity {
		return false
	}
	b.gen, b.res.Left = g.gen, left
	return true
}

// answered tells b what the script says of his units.
func (b *buyer) answered(answer int64) error {
	switch answer {
	case answerOtherSale:
		return errOtherSale
	case answerClaimed:
		return errClaimed
	}
	left, taken := answer, answer >= 0
	if !taken {
		left = answerTooFew - answer
	}
	b.res.Left = left
	b.service.stock.remember(b.req.SKU, reading{left, b.gen, InRedis})
	if taken {
		return nil
	}
	if left == 0 {
		b.tell(ErrSoldOut)
	}
	return fmt.Errorf("%w: %d left", ErrSoldOut, left)
}
