package stock

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed take.lua
	takeSource string
	takeScript = redis.NewScript(takeSource)

	//go:embed takeall.lua
	takeAllSource string
	takeAllScript = redis.NewScript(takeAllSource)
)

// MaxBatch is how many buyers go together at most, where nothing else is asked
// for. A row of an INSERT with 64 of them took 14.7 µs on MariaDB 10.11, with 256
// of them 12.9, with 512 of them 11.0, and with 1,024 of them 10.4: more would gain
// little, and keep those who come next waiting.
const MaxBatch = 512

// Taker sells without a guard: a script checks the stock and takes the units in
// one step, so that there is nothing to keep others out of, and then the order
// is written. It belongs to one Service, and is safe for concurrent use.
//
// Buyers in the same sale who come while others are being served go together
// when those are: their units are taken, in the order in which they came, and
// then their orders are written in one statement. Each has an outcome of his own.
//
// A process that dies after the units were taken leaves them taken with no
// order. So does a call whose reply is lost: it is not known whether it was
// carried out, and in doubt units stay unsold.
type Taker struct {
	rdb     redis.UniversalClient
	step    func(ctx context.Context, all []*taking) // takes the units of all
	combine *combiner[*taking]
	pace    *pace
}

// Atomic returns the Taker that calls a script for each buyer. The calls for
// those who go together, size at most, are sent together as well. A size of 0
// means MaxBatch.
func Atomic(rdb redis.UniversalClient, size int) *Taker {
	t := newTaker(rdb, cmp.Or(size, MaxBatch))
	t.step = t.takeEach
	return t
}

// Batched returns the Taker that calls one script for all who go together, size
// at most; 0 means MaxBatch. Each gets his units if enough are left when it is
// his turn. Where there were too few for one, a later one who wants less may
// still be served.
func Batched(rdb redis.UniversalClient, size int) *Taker {
	t := newTaker(rdb, cmp.Or(size, MaxBatch))
	t.step = t.takeAll
	return t
}

func newTaker(rdb redis.UniversalClient, size int) *Taker {
	t := &Taker{rdb: rdb, pace: newPace(size)}
	t.combine = newCombiner(t.pace.size, t.sell)
	return t
}

// taking is a buyer among those who are served together, and what came of him.
type taking struct {
	*buyer
	answer int64 // of the script, see take.lua
	err    error // instead of an answer

	order    Order // if the units were taken
	orderErr error // as that of store.insert
	refused  bool  // the order is not written, and may be when it is tried alone
}

// The answers of the scripts that are no number of units.
const (
	answerOtherSale = -1
	answerClaimed   = -2
	answerTooFew    = -3 // less the units that are left
)

var (
	// errOtherSale means that the sale in which a buyer wanted to buy is over,
	// or that Redis does not know of it.
	errOtherSale = errors.New("another sale is on")
	// errClaimed means that somebody else with the same idempotency key has
	// taken units, and may be about to write the order.
	errClaimed = errors.New("the idempotency key is claimed")
)

// claimPeriod is for how long a claim on an idempotency key is respected at least,
// and twice that at most: longer than most wait who may have looked for an order
// with their key before there was one. For those who wait longer the index
// decides. Claims of one period share a hash, so that what is kept is bounded by
// what is sold in two periods, however long the sale.
const claimPeriod = 10 * time.Second

// take sells to b in the sale that b knows of. It returns ErrSoldOut, the cause
// of wait if that ended before anything was begun, errOtherSale, errClaimed, or
// the error of a backend. What was begun is waited for, also by a caller who has
// gone.
func (t *Taker) take(ctx, wait context.Context, b *buyer) error {
	start := time.Now()
	one := &taking{buyer: b}
	began, err := t.combine.do(wait, keys{b.req.SKU}.stock(b.gen), one)
	if err != nil {
		b.res.Lock.Waited += time.Since(start)
		return err
	}
	b.res.Lock.Waited += began.Sub(start)
	b.res.Lock.Attempts++
	if one.err != nil {
		if !errors.Is(one.err, errOtherSale) {
			b.doubt() // the units may be taken, with only the reply lost
		}
		return one.err
	}
	if err := b.answered(one.answer); err != nil {
		return err
	}
	if one.refused {
		return b.writeOrder(ctx)
	}
	return b.settle(ctx, one.order, one.orderErr)
}

// sell takes the units of all and writes the orders of those for whom there
// were enough. Nothing cuts it short: what a caller who has gone has bought is
// in the books all the same.
func (t *Taker) sell(all []*taking) {
	ctx := context.Background()
	t.step(ctx, all)
	var sold []*taking
	var orders []*Order
	changes := all[0].changes
	for _, one := range all {
		if one.err == nil && one.answer >= 0 {
			one.order = one.newOrder()
			changes = min(changes, one.changes) // it only grows
			sold, orders = append(sold, one), append(orders, &one.order)
		}
	}
	if len(sold) == 0 {
		return
	}
	start := time.Now()
	errs := all[0].service.write(ctx, all[0].gen, changes, orders)
	t.pace.wrote(len(orders), time.Since(start))
	for i, one := range sold {
		one.orderErr = errs[i]
		// All may be refused for the fault of one, such as a key that was used
		// before. Alone each gets what it deserves.
		one.refused = len(orders) > 1 && errs[i] != nil && !decided(errs[i])
	}
}

// decided reports whether an order that was not written with others would fail
// alone as well, or may have been written.
func decided(err error) bool {
	for _, known := range []error{errUnsure, errOtherSale, errRecounted, errConflict} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// takeEach calls the script for each buyer, with one round trip for all calls.
func (t *Taker) takeEach(ctx context.Context, all []*taking) {
	calls := make([]*redis.Cmd, len(all))
	// Its error is that of the first call that failed. Each call has its own.
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

// takeAll calls the script that takes the units of all.
func (t *Taker) takeAll(ctx context.Context, all []*taking) {
	args := all[0].args()
	for _, one := range all[1:] {
		args = append(args, one.wish()...)
	}
	answers, err := takeAllScript.Run(ctx, t.rdb, all[0].keys(), args...).Int64Slice()
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
}

// keys are the KEYS of the scripts.
func (b *buyer) keys() []string {
	k := keys{b.req.SKU}
	return append([]string{k.sale(), k.stock(b.gen)}, k.claimed(b.gen.saleID, time.Now())...)
}

// claimed are the keys of the claims of this period and the last.
func (k keys) claimed(saleID string, now time.Time) []string {
	period := now.UnixMilli() / claimPeriod.Milliseconds()
	return []string{k.claims(saleID, period), k.claims(saleID, period-1)}
}

// args are the ARGV of the scripts, with b as the only buyer.
func (b *buyer) args() []any {
	return append([]any{b.gen.String(), (2 * claimPeriod).Milliseconds()}, b.wish()...)
}

// wish is b's part of the ARGV.
func (b *buyer) wish() []any {
	if b.impatient {
		return []any{b.req.Quantity, ""}
	}
	return []any{b.req.Quantity, b.req.IdempotencyKey}
}
