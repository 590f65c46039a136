package stock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"oversell/internal/figures"
	"oversell/internal/guard"
)

const (
	// claimDelay is how long a buyer sleeps before it looks up the order of the request that
	// has claimed its key. It doubles each time, up to maxClaimDelay.
	claimDelay    = 10 * time.Millisecond
	maxClaimDelay = 160 * time.Millisecond
	// claimTimeout is how long it waits for that order. After that it assumes that the
	// process with the claim has crashed.
	claimTimeout = 2 * time.Second
)

// sellByScript sells by a script, without a lock. The work is done first, when nothing has
// been taken yet. Then the script checks and takes the units in one step, so it does not
// matter how old the buyer's last look at the stock is. If another request with the same
// idempotency key, in any process, has claimed the key, it waits for that request's
// order instead, which is the answer to both.
//
// Correctness does not depend on the claim, because the index in the database lets only
// one of the two buy. But without a claim both would take units, and until one of them
// had put its units back the item could wrongly seem sold out.
func (p *purchase) sellByScript(ctx, wait context.Context) (err error) {
	ctx = context.WithoutCancel(ctx) // once begun it is finished, even if the buyer has left

	// 5. Work.
	if !p.worked {
		if p.after, err = p.work(ctx); err != nil {
			return err
		}
		p.worked = true
	}

	// 4., 6. and 7. are in the batch.
	delay := claimDelay
	for start := time.Now(); ; p.ignoreClaim = time.Since(start) > claimTimeout {
		err := p.buyInBatch(ctx, wait)
		if !errors.Is(err, errClaimed) {
			return err
		}
		if err := guard.Sleep(wait, delay); err != nil {
			return err
		}
		delay = min(2*delay, maxClaimDelay)
		leave, err := p.service.admit(wait)
		if err != nil {
			return err
		}
		found, err := p.replay(ctx)
		leave()
		if found || err != nil {
			return err
		}
	}
}

// buyInBatch takes the units and writes the order, in a batch with other buyers. It returns
// ErrSoldOut, the cause of wait if that ended before the batch began, errOtherSale,
// errClaimed, or the error of a backend. A batch that has begun is waited for.
func (p *purchase) buyInBatch(ctx, wait context.Context) error {
	asked := time.Now()
	b := &batched{purchase: p}
	began, err := p.script.batches.do(wait, keys{p.req.SKU}.stock(p.gen), b)
	if err != nil {
		p.req.Steps.Add(StepWait, figures.Span{From: asked, To: time.Now()}, err)
		p.res.Lock.Waited += time.Since(asked)
		return err
	}
	b.recordSteps(asked, began)
	defer p.service.families.addInFlight(p.req.SKU, -p.req.Quantity)
	p.res.Lock.Waited += began.Sub(asked)
	p.res.Lock.Attempts++
	if p.script.streamed {
		return p.accept(ctx, b)
	}
	if b.err != nil {
		if !errors.Is(b.err, errOtherSale) {
			p.doubt() // the units may be taken, with only the reply lost
		}
		return b.err
	}
	if err := p.answered(b.answer); err != nil {
		return err
	}
	if b.refused {
		b.order = p.newOrder(now())
		b.orderErr = p.service.writeOrders(ctx, p.gen, p.changes, []*Order{&b.order})[0]
	}
	if b.orderErr == nil {
		p.res.Order = b.order
		return nil
	}
	err = p.undo(ctx, b.order, b.orderErr)
	if err == nil || p.req.IdempotencyKey == "" || errors.Is(b.orderErr, errDuplicate) ||
		errors.Is(err, errUnsure) || errors.Is(err, errNotReturned) {
		return err // there is an order with the key, or units are taken for one
	}
	return errors.Join(err, p.service.stock.unclaim(ctx, p.req.SKU, p.gen.saleID, p.req.IdempotencyKey))
}

// recordSteps records what the batch of a buyer did, which has just ended.
func (b *batched) recordSteps(asked, began time.Time) {
	steps := b.req.Steps
	if steps == nil {
		return
	}
	ended := time.Now()
	steps.Add(StepWait, figures.Span{From: asked, To: began}, nil)
	if b.taken.IsZero() {
		steps.Add(StepTake, figures.Span{From: began, To: ended}, b.err)
		return
	}
	steps.Add(StepTake, figures.Span{From: began, To: b.taken}, nil)
	steps.Add(StepOrder, figures.Span{From: b.taken, To: ended}, b.orderErr)
}

// answered interprets the script's answer, and returns nil if the units were taken.
func (p *purchase) answered(answer int64) error {
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
	p.res.Left = left
	p.service.stock.remember(p.req.SKU, reading{left, p.gen, InRedis})
	if taken {
		return nil
	}
	if left == 0 {
		p.endWaits(ErrSoldOut)
	}
	return fmt.Errorf("%w: %d left", ErrSoldOut, left)
}
