package stock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"oversell/internal/figures"
	"oversell/internal/guard"
)

// scriptPurchase sells by a script, without a lock. The work is done first, when nothing has
// been taken yet. Then the script checks and takes the units in one step, so it does not
// matter how old the buyer's last look at the stock is.
type scriptPurchase struct {
	*buyer
	script *ScriptSeller
	worked bool   // the work was done: it is done once, even if another sale begins
	after  func() // what the work returned
	// ignoreClaim is set when the buyer has waited for claimTimeout for the order of
	// the request that claimed its idempotency key.
	ignoreClaim bool
}

// canSkipLook reports whether this process has a fresh cached hint that enough units are
// left. A buyer with an idempotency key cannot skip the look: an earlier order must be
// looked up in the sale that is current for certain.
func (s *scriptPurchase) canSkipLook() bool {
	hint := s.service.stock.recall(s.req.SKU)
	if hint == nil || s.stale || s.req.IdempotencyKey != "" || !s.service.reconciliation.fresh(s.req.SKU) {
		return false
	}
	left := hint.left.Load()
	if left < s.req.Quantity {
		return false
	}
	s.gen, s.res.Left = hint.gen, left
	s.at = reading{left, hint.gen, InRedis}.location(s.req.SKU)
	return s.checkLimit() == nil // the look says what is wrong
}

func (s *scriptPurchase) checkLocation(at Location) error { return inRedis(at) }

func (s *scriptPurchase) checksLimit() bool { return s.script.streamed }

func (s *scriptPurchase) end() {
	if s.after != nil {
		s.after()
	}
}

const (
	// claimDelay is how long a buyer sleeps before it looks up the order of the request that
	// has claimed its key. It doubles each time, up to maxClaimDelay.
	claimDelay    = 10 * time.Millisecond
	maxClaimDelay = 160 * time.Millisecond
	// claimTimeout is how long it waits for that order. After that it assumes that the
	// process with the claim has crashed.
	claimTimeout = 2 * time.Second
)

// sell does the work and then takes the units. If another request with the same
// idempotency key, in any process, has claimed the key, it waits for that request's
// order instead, which is the answer to both.
//
// Correctness does not depend on the claim, because the index in the database lets only
// one of the two buy. But without a claim both would take units, and until one of them
// had put its units back the item could wrongly seem sold out.
func (s *scriptPurchase) sell(ctx, wait context.Context) (err error) {
	ctx = context.WithoutCancel(ctx) // once begun it is finished, even if the buyer has left
	if !s.worked {
		worked := s.req.Steps.Begin(StepWork)
		s.after, err = s.service.work(ctx, s.req.SKU)
		worked(err)
		if err != nil {
			return fmt.Errorf("working on the order: %w", err)
		}
		s.worked = true
	}
	delay := claimDelay
	for start := time.Now(); ; s.ignoreClaim = time.Since(start) > claimTimeout {
		err := s.take(ctx, wait)
		if !errors.Is(err, errClaimed) {
			return err
		}
		if err := guard.Sleep(wait, delay); err != nil {
			return err
		}
		delay = min(2*delay, maxClaimDelay)
		if found, err := s.replayAdmitted(ctx, wait); found || err != nil {
			return err
		}
	}
}

// replayAdmitted waits to be admitted and replays.
func (s *scriptPurchase) replayAdmitted(ctx, wait context.Context) (bool, error) {
	leave, err := s.admission(wait)
	if err != nil {
		return false, err
	}
	defer leave()
	return s.replay(ctx)
}

// take takes the units and writes the order, in a batch with other buyers. It returns
// ErrSoldOut, the cause of wait if that ended before the batch began, errOtherSale,
// errClaimed, or the error of a backend. A batch that has begun is waited for.
func (s *scriptPurchase) take(ctx, wait context.Context) error {
	start := time.Now()
	p := &pending{scriptPurchase: s}
	began, err := s.script.batches.do(wait, keys{s.req.SKU}.stock(s.gen), p)
	if err != nil {
		s.req.Steps.Add(StepWait, figures.Span{From: start, To: time.Now()}, err)
		s.res.Lock.Waited += time.Since(start)
		return err
	}
	s.batchSteps(start, began, p)
	defer s.service.flights.land(s.req.SKU, s.req.Quantity)
	s.res.Lock.Waited += began.Sub(start)
	s.res.Lock.Attempts++
	if s.script.streamed {
		return s.accept(ctx, p)
	}
	if p.err != nil {
		if !errors.Is(p.err, errOtherSale) {
			s.doubt() // the units may be taken, with only the reply lost
		}
		return p.err
	}
	if err := s.answered(p.answer); err != nil {
		return err
	}
	if p.refused {
		p.order = s.newOrder(now())
		p.orderErr = s.service.write(ctx, s.gen, s.changes, []*Order{&p.order})[0]
	}
	err = s.finishOrder(ctx, p.order, p.orderErr)
	if err == nil || s.req.IdempotencyKey == "" || errors.Is(p.orderErr, errDuplicate) ||
		errors.Is(err, errUnsure) || errors.Is(err, errNotReturned) {
		return err // there is an order with the key, or units are taken for one
	}
	return errors.Join(err, s.service.stock.unclaim(ctx, s.req.SKU, s.gen.saleID, s.req.IdempotencyKey))
}

// batchSteps records what the batch of a buyer did, which has just ended.
func (s *scriptPurchase) batchSteps(asked, began time.Time, p *pending) {
	steps := s.req.Steps
	if steps == nil {
		return
	}
	ended := time.Now()
	steps.Add(StepWait, figures.Span{From: asked, To: began}, nil)
	if p.taken.IsZero() {
		steps.Add(StepTake, figures.Span{From: began, To: ended}, p.err)
		return
	}
	steps.Add(StepTake, figures.Span{From: began, To: p.taken}, nil)
	steps.Add(StepOrder, figures.Span{From: p.taken, To: ended}, p.orderErr)
}

// answered interprets the script's answer, and returns nil if the units were taken.
func (s *scriptPurchase) answered(answer int64) error {
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
	s.res.Left = left
	s.service.stock.remember(s.req.SKU, reading{left, s.gen, InRedis})
	if taken {
		return nil
	}
	if left == 0 {
		s.endWaits(ErrSoldOut)
	}
	return fmt.Errorf("%w: %d left", ErrSoldOut, left)
}
