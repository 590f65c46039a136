package stock

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"oversell/internal/figures"
	"oversell/internal/guard"
	"oversell/internal/message"
	"oversell/internal/stock/stream"
)

var (
	//go:embed take.lua
	takeSource string
	takeScript = redis.NewScript(takeSource)

	//go:embed takeall.lua
	takeAllSource string
	takeAllScript = redis.NewScript(takeAllSource)
)

// maxBatch is the maximum number of buyers in a batch. An INSERT on MariaDB 10.11 took 14.7 µs a
// row with 64 rows, 12.9 with 256, 11.0 with 512 and 10.4 with 1,024. So larger batches would gain
// little, and would make the next buyers wait longer.
const maxBatch = 512

// ScriptSeller sells without a lock: a script checks the stock and takes the units in
// one step, and then the order is written. It belongs to one Service, and is safe for
// concurrent use.
//
// Buyers that arrive while others are being served form the next batch of their sale (group
// commit): their units are taken in order of arrival, and then their orders are written in one
// statement. Each buyer gets its own result.
//
// If the process crashes after the units were taken, they stay taken without an order. The same
// happens when the script's reply is lost: then it is unknown whether the script ran, and to be
// safe the units stay taken.
type ScriptSeller struct {
	rdb     redis.Cmdable
	step    func(ctx context.Context, all []*batched) // takes the units of a batch
	batches *batcher[*batched]
	pace    *guard.BatchSize

	stream *Stream // the stream that orders are appended to; nil: they are written to the database
}

// Atomic returns a ScriptSeller that calls a script for each buyer, and pipelines the
// calls for a batch.
func Atomic(rdb redis.Cmdable) *ScriptSeller {
	t := newScriptSeller(rdb)
	t.step = t.takeEach
	return t
}

// Batched returns a ScriptSeller that calls one script for a whole batch. If too few units are
// left for one buyer, a later one that wants fewer may still be served.
func Batched(rdb redis.Cmdable) *ScriptSeller {
	t := newScriptSeller(rdb)
	t.step = t.takeAll
	return t
}

// newScriptSeller returns a ScriptSeller whose batches grow only as long as the database writes them
// in time.
func newScriptSeller(rdb redis.Cmdable) *ScriptSeller {
	t := &ScriptSeller{rdb: rdb, pace: guard.NewBatchSize(maxBatch)}
	t.batches = newBatcher(t.pace.Size, t.sell)
	return t
}

// batched is a purchase in a batch, and its result.
type batched struct {
	*purchase
	answer int64 // the script's answer; see take.lua
	err    error // the call's error, if there is no answer
	unsure bool  // too few replicas have the accepted order

	order    Order     // set if the units were taken
	taken    time.Time // when the script answered; zero: no order was to be written
	orderErr error     // see writeOrders
	refused  bool      // the order was not written in the batch, but may succeed alone
}

// The negative answers of the scripts. A script for a whole batch returns an empty list instead of
// answerOtherSale.
const (
	answerOtherSale = -1
	answerClaimed   = -2
	answerFull      = -3
	answerLimit     = -4
	answerLost      = -5
	answerTooFew    = -6 // minus the units left
)

var (
	// errOtherSale means that the buyer's generation is no longer current, or that Redis does not have
	// it.
	errOtherSale = errors.New("another sale is on")
	// errClaimed means that another request with the same idempotency key has taken
	// units, and may be about to write the order.
	errClaimed = errors.New("the idempotency key is claimed")
)

// sell takes the units of a batch and writes the orders of the buyers that got units. It uses no
// caller's context: a buyer that has left may have bought.
func (t *ScriptSeller) sell(all []*batched) {
	ctx := context.Background()
	var units int64
	for _, one := range all {
		units += one.req.Quantity
	}
	all[0].service.flights.add(all[0].req.SKU, units) // buyInBatch removes each buyer's units
	t.step(ctx, all)
	if t.stream != nil {
		return
	}
	var sold []*batched
	var orders []*Order
	changes := all[0].changes
	for _, one := range all {
		if one.err == nil && one.answer >= 0 {
			one.order = one.newOrder(now())
			changes = min(changes, one.changes) // the counter only grows
			sold, orders = append(sold, one), append(orders, &one.order)
		}
	}
	if len(sold) == 0 {
		return
	}
	start := time.Now()
	errs := all[0].service.writeOrders(ctx, all[0].gen, changes, orders)
	t.pace.Wrote(len(orders), time.Since(start))
	for i, one := range sold {
		one.taken, one.orderErr = start, errs[i]
		// The statement may have failed because of one order, for example one whose key was used. Then
		// each order is tried alone, unless it would fail again or may have been written.
		one.refused = len(orders) > 1 && errs[i] != nil &&
			!isAny(errs[i], errUnsure, errOtherSale, errRecounted, errConflict)
	}
}

// takeEach calls the script for each buyer, with one round trip for the batch.
func (t *ScriptSeller) takeEach(ctx context.Context, all []*batched) {
	calls := make([]*redis.Cmd, len(all))
	// The returned error is that of the first failed call. Each call also has its own error.
	_, _ = t.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, one := range all {
			calls[i] = takeScript.EvalSha(ctx, p, one.keys(), one.args()...)
		}
		return nil
	})
	for i, one := range all {
		if redis.HasErrorPrefix(calls[i].Err(), "NOSCRIPT") {
			calls[i] = takeScript.Eval(ctx, t.rdb, one.keys(), one.args()...)
		}
		answer, err := calls[i].Int64()
		if err != nil {
			one.err = fmt.Errorf("taking the units: %w", err)
		}
		one.answer = answer
	}
}

func (t *ScriptSeller) takeAll(ctx context.Context, all []*batched) {
	args := all[0].args()
	for _, one := range all[1:] {
		args = append(args, one.req.Quantity, one.req.IdempotencyKey)
	}
	answers, err := takeAllScript.Run(ctx, t.rdb, all[0].keys(), args...).Int64Slice()
	_ = giveAnswers(all, answers, err) // each buyer has its error
}

// giveAnswers gives each buyer of a batch its answer from a script that was called once for all. If
// the script failed, each buyer gets the error, which is also returned.
func giveAnswers(all []*batched, answers []int64, err error) error {
	switch {
	case err != nil:
		err = fmt.Errorf("taking the units: %w", err)
	case len(answers) == 0:
		err = errOtherSale
	case len(answers) != len(all):
		err = fmt.Errorf("taking the units: %d answers for %d buyers", len(answers), len(all))
	}
	for i, one := range all {
		if one.err = err; err == nil {
			one.answer = answers[i]
		}
	}
	return err
}

func (p *purchase) keys() []string {
	k := stream.Keys{SKU: p.req.SKU}
	return append([]string{k.Sale(), p.gen.stock(k.SKU)}, k.Claims(p.gen.saleID, time.Now())...)
}

// args returns the scripts' ARGV for a batch with only this buyer.
func (p *purchase) args() []any {
	return []any{p.gen.String(), stream.ClaimsKept.Milliseconds(), p.req.Quantity, p.req.IdempotencyKey}
}

const (
	// claimDelay is how long a buyer sleeps before it looks up the order of the request that
	// has claimed its key. It doubles each time, up to maxClaimDelay.
	claimDelay    = 10 * time.Millisecond
	maxClaimDelay = 160 * time.Millisecond
	// claimTimeout is how long a buyer waits for that order. After that it assumes that the process
	// with the claim has crashed, and removes the claim.
	claimTimeout = 2 * time.Second
)

// sellByScript sells by a script, without a lock. The work is done first, before any units are
// taken. Then the script checks and takes the units in one step, so it does not matter how long ago
// the buyer read the stock. If another request with the same idempotency key, in any process, has
// claimed the key, the buyer waits for that request's order, which is the answer to both.
//
// Correctness does not depend on the claim, because the index in the database lets only one of the
// two buy. But without a claim both would take units, and until one of them put its units back, the
// item could seem sold out when it is not.
func (p *purchase) sellByScript(ctx, wait context.Context) error {
	ctx = context.WithoutCancel(ctx) // what has begun is finished, even if the buyer has left

	// 6. Work.
	if !p.workDone { // not again if another sale begins
		worked := p.req.Steps.Begin(StepWork)
		after, err := p.service.cfg.Work(ctx, p.req.SKU)
		if worked(err); err != nil {
			return fmt.Errorf("working on the order: %w", err)
		}
		p.workDone, p.after = true, after
	}

	// Steps 5, 7 and 8 run in the batch.
	delay := claimDelay
	for start := time.Now(); ; {
		err := p.buyInBatch(ctx, wait)
		if !errors.Is(err, errClaimed) {
			return err
		}
		if err := guard.Sleep(wait, delay); err != nil {
			return err
		}
		delay = min(2*delay, maxClaimDelay)
		if time.Since(start) > claimTimeout {
			// Before the look-up: it finds an order that was written by now, and one that is written
			// later claims the key again.
			if err := p.service.redis.unclaim(ctx, p.req.SKU, p.gen.saleID, p.req.IdempotencyKey); err != nil {
				return err
			}
		}
		if p.service.admitted.Acquire(wait, 1) != nil {
			return context.Cause(wait)
		}
		err = p.replay(ctx)
		p.service.admitted.Release(1)
		if err != nil || p.res.Replayed {
			return err
		}
	}
}

// skipsLook reports whether the purchase can skip reading the item, because a script checks the
// stock anyway and this process has just read that enough units are left. The purchase then uses
// that reading. With an idempotency key the item must be read, because an earlier order has to be
// looked up in the current sale.
func (p *purchase) skipsLook() bool {
	if p.stale || p.req.IdempotencyKey != "" || !p.service.reconciliation.fresh(p.req.SKU) {
		return false
	}
	last, ok := p.service.redis.recall(p.req.SKU)
	if !ok || last.left < p.req.Quantity || p.adopt(last) != nil {
		return false // look will return the error
	}
	p.waiter.Attend(waitKey(p.req.SKU, p.gen))
	return true
}

// buyInBatch takes the units and writes the order, in a batch with other buyers. It returns
// ErrSoldOut, errOtherSale, errClaimed, the error of a backend, or the cause of wait if wait ended
// before the batch began. Once the batch has begun, buyInBatch waits for it to finish.
func (p *purchase) buyInBatch(ctx, wait context.Context) error {
	asked := time.Now()
	b := &batched{purchase: p}
	began, err := p.Script.batches.do(wait, p.gen.stock(p.req.SKU), b)
	if err != nil {
		p.req.Steps.Add(StepWait, figures.Span{From: asked, To: time.Now()}, err)
		p.res.Lock.Waited += time.Since(asked)
		return err
	}
	b.recordSteps(asked, began)
	defer p.service.flights.add(p.req.SKU, -p.req.Quantity)
	p.res.Lock.Waited += began.Sub(asked)
	p.res.Lock.Attempts++
	if p.Script.stream != nil {
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
		return err // an order with the key exists, or units are taken for one
	}
	return errors.Join(err, p.service.redis.unclaim(ctx, p.req.SKU, p.gen.saleID, p.req.IdempotencyKey))
}

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
	case answerFull:
		return message.Errorf("accepting an order of %s: %w", p.req.SKU, ErrBacklog)
	case answerLimit:
		return fmt.Errorf("%w: %d", ErrLimit, p.gen.limit)
	case answerLost:
		p.doubt() // so that each buyer's units are counted again
		return fmt.Errorf("checking the buyer's limit: Redis has lost what the buyers have: %w", errOtherSale)
	}
	left, taken := answer, answer >= 0
	if !taken {
		left = answerTooFew - answer
	}
	p.service.redis.remember(p.req.SKU, reading{left, p.gen, InRedis})
	if !taken {
		return p.soldOut(left)
	}
	p.res.Left = left
	return nil
}
