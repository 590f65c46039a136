package stock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"oversell/internal/figures"
	"oversell/internal/guard"
)

// guardedPurchase sells in a section that the strategy's Isolation runs: read, check, work,
// write. The order is written before the section ends, so that the next holder finds
// stock and orders in agreement.
type guardedPurchase struct {
	*buyer
	isolation Isolation
}

// canSkipLook is false: nobody should wait for a lock to buy what is sold out.
func (*guardedPurchase) canSkipLook() bool { return false }

func (g *guardedPurchase) checkLocation(at Location) error {
	if g.service.inDatabase[g.req.Strategy] {
		return inDatabase(at)
	}
	if i, ok := g.isolation.(locator); ok {
		return i.checkLocation(at)
	}
	return nil
}

func (*guardedPurchase) checksLimit() bool { return false }

func (*guardedPurchase) end() {}

func (g *guardedPurchase) sell(_, wait context.Context) (err error) {
	e := guard.Entry{Key: keys{g.req.SKU}.lock(g.req.Strategy), Owner: g.req.Owner}
	begun, tries := time.Now(), len(g.res.Spans)
	g.res.Lock, err = g.isolation.Do(wait, g.at, e, g.section)
	g.guardSteps(begun, g.res.Spans[tries:], err)
	if g.at.Key == "" && errors.Is(err, errUnsure) {
		g.service.log.Error("an order may have been written", "sku", g.req.SKU, "quantity", g.req.Quantity, "error", err)
	}
	return err
}

// guardSteps records what the guard did before and after the sections that it ran.
func (g *guardedPurchase) guardSteps(begun time.Time, inside []figures.Span, err error) {
	steps := g.req.Steps
	if steps == nil {
		return
	}
	ended := time.Now()
	if len(inside) == 0 {
		steps.Add(StepWait, figures.Span{From: begun, To: ended}, err)
		return
	}
	entered := inside[0].From
	asked := entered.Add(-g.res.Lock.Taking)
	steps.Add(StepWait, figures.Span{From: begun, To: asked}, nil)
	if g.res.Lock.Taking > 0 {
		steps.Add(StepAcquire, figures.Span{From: asked, To: entered}, nil)
	}
	steps.Add(StepRelease, figures.Span{From: inside[len(inside)-1].To, To: ended}, g.res.Lock.Release)
}

func (g *guardedPurchase) section(ctx context.Context, c Counter) error {
	leave := g.service.inside.Enter(g.req.SKU)
	defer func() { g.res.Spans = append(g.res.Spans, leave()) }()
	if found, err := g.replay(ctx); found || err != nil {
		return lost(ctx, err)
	}
	left, err := g.check(ctx, c)
	if err != nil {
		return lost(ctx, err)
	}
	worked := g.req.Steps.Begin(StepWork)
	after, err := g.service.work(ctx, g.req.SKU)
	worked(err)
	if err != nil {
		return lost(ctx, fmt.Errorf("working on the order: %w", err))
	}
	if after != nil {
		defer after()
	}
	// WithoutCancel: a sale that has begun is finished, even if the holder learns just
	// now that it has lost the lock. Half a sale helps nobody. In a process that was
	// paused before it, this is the write that comes too late.
	return g.write(context.WithoutCancel(ctx), c, left-g.req.Quantity)
}

// check reads the stock and returns ErrSoldOut if it is not enough.
func (g *guardedPurchase) check(ctx context.Context, c Counter) (left int64, err error) {
	read := g.req.Steps.Begin(StepRead)
	left, err = c.Get(ctx)
	read(err)
	if err != nil {
		return 0, err
	}
	g.res.Left = left
	if left <= 0 {
		g.endWaits(ErrSoldOut)
	}
	if left < g.req.Quantity {
		return left, fmt.Errorf("%w: %d left", ErrSoldOut, left)
	}
	return left, nil
}

// write writes the stock and then the order, or both in one step.
func (g *guardedPurchase) write(ctx context.Context, c Counter, left int64) error {
	if c, ok := c.(transactional); ok {
		return g.writeTogether(ctx, c, left)
	}
	g.service.flights.takeOff(g.req.SKU, g.req.Quantity)
	defer g.service.flights.land(g.req.SKU, g.req.Quantity)
	wrote := g.req.Steps.Begin(StepWrite)
	err := c.Set(ctx, left)
	wrote(err)
	if err != nil {
		if !refused(err) {
			g.doubt() // the write may have been done, with only the reply lost
		}
		return err
	}
	g.res.Left = left
	return g.writeOrder(ctx)
}

// writeTogether writes stock and order in one step, so that nothing ever has to be put
// back. If too few units are left the buyer had read an old stock, and so may the
// waiters have: with nothing left their waits end too.
func (g *guardedPurchase) writeTogether(ctx context.Context, c transactional, left int64) error {
	order := g.newOrder(now())
	var tooFew tooFewError
	wrote := g.req.Steps.Begin(StepWrite)
	err := c.sell(ctx, left, &order)
	wrote(err)
	switch {
	case errors.Is(err, errDuplicate):
		return g.answerFirst(ctx)
	case errors.As(err, &tooFew):
		if g.res.Left = tooFew.left; tooFew.left <= 0 {
			g.endWaits(ErrSoldOut)
		}
		return err
	case err != nil:
		return err
	}
	g.res.Order, g.res.Left = order, left
	return nil
}

// lost wraps err in ErrLost if the lock was lost by the time it occurred.
func lost(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("%w: %w: %w", ErrLost, context.Cause(ctx), err)
}
