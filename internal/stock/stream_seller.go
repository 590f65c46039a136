package stock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	_ "embed"
)

var (
	//go:embed accept.lua
	acceptSource string
	acceptScript = redis.NewScript(acceptSource)
)

// ErrBacklog means that too many accepted orders wait to be written, and that no other one
// is accepted until there are fewer.
var ErrBacklog = errors.New("too many orders wait to be written")

// DefaultBacklog is the default for how many accepted orders of an item may wait to be
// written.
const DefaultBacklog = 10_000

// Streamed returns a ScriptSeller that writes no orders: its script takes the units of a
// batch and appends the orders to the item's stream, from which Service.Consume writes
// them. A batch has at most size buyers; 0 means MaxBatch. When the stream has backlog
// entries, buyers get ErrBacklog; 0 means DefaultBacklog.
//
// If the process crashes after the script, the orders are in the stream and are written.
func Streamed(rdb redis.UniversalClient, size, backlog int) *ScriptSeller {
	if size == 0 {
		size = MaxBatch
	}
	if backlog == 0 {
		backlog = DefaultBacklog
	}
	t := newScriptSeller(rdb, size)
	t.pace.next.Store(int64(size)) // no statement is waited for
	t.streamed, t.backlog = true, backlog
	t.step = t.acceptAll
	return t
}

// acceptAll calls the script that takes the units of the whole batch and appends the
// orders to the stream.
func (t *ScriptSeller) acceptAll(ctx context.Context, all []*pending) {
	first := all[0]
	k := keys{first.req.SKU}
	at := append(first.keys(), k.stream(), k.accepted(), k.streamKeys(first.gen.saleID))
	args := []any{first.gen.String(), t.backlog, keysKept.Milliseconds(), first.req.SKU, first.gen.saleID, first.gen.id}
	for _, one := range all {
		one.order = one.newOrder()
		args = append(args, one.req.Quantity, one.req.IdempotencyKey, one.order.ID, one.req.Strategy, one.order.CreatedAt.UnixMilli())
	}
	answers, err := acceptScript.Run(ctx, t.rdb, at, args...).Int64Slice()
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
	if err == nil {
		first.service.accepted.add(first.req.SKU)
	}
}

// accept finishes a purchase whose order is in the stream, or is not.
func (s *scriptPurchase) accept(ctx context.Context, p *pending) error {
	switch {
	case errors.Is(p.err, errOtherSale):
		return p.err
	case p.err != nil:
		return s.acceptedAnyway(ctx, p)
	}
	if p.answer == answerFull {
		return fmt.Errorf("accepting an order of %s: %w", s.req.SKU, ErrBacklog)
	}
	if err := s.answered(p.answer); err != nil {
		return err
	}
	if s.service.reconciliation.changes() != s.changes {
		p.err = fmt.Errorf("accepting an order: Redis was replaced by another one: %w", errOtherSale)
		return s.acceptedAnyway(ctx, p) // the units may come from an older stock
	}
	s.res.Order, s.res.Accepted = p.order, true
	return nil
}

// acceptedAnyway finds out whether an order counts as accepted if the script's reply was
// lost, or if the script ran in a Redis that was replaced. It ends the generation: the
// count writes the order if it is in the stream and there are units for it, and nobody
// can write it later.
func (s *scriptPurchase) acceptedAnyway(ctx context.Context, p *pending) error {
	written, err := s.service.findWritten(ctx, s.req.SKU, s.gen, []string{p.order.ID})
	if err == nil && written[p.order.ID] {
		s.res.Order = p.order
		return nil
	}
	return errors.Join(p.err, err)
}

// acceptedReplay answers with an accepted order that has the buyer's key and is not
// written yet.
func (b *buyer) acceptedReplay(ctx context.Context) (bool, error) {
	if script := b.service.scripts[b.req.Strategy]; script == nil || !script.streamed {
		return false, nil
	}
	order, found, err := b.service.streams.byKey(ctx, b.req.SKU, b.gen.saleID, b.req.IdempotencyKey)
	if found {
		b.res.Order, b.res.Replayed, b.res.Accepted = order, true, true
	}
	return found, err
}

// acceptedItems are the items of which this process has accepted orders. It wakes the
// consumer of this process, if there is one.
type acceptedItems struct {
	mu    sync.Mutex
	items map[string]bool
	wake  chan struct{}
	done  map[string][]chan struct{} // by order: those who wait for it
}

func newAcceptedItems() *acceptedItems {
	return &acceptedItems{items: make(map[string]bool), wake: make(chan struct{}, 1), done: make(map[string][]chan struct{})}
}

// add says that orders of an item were accepted.
func (a *acceptedItems) add(sku string) {
	a.mu.Lock()
	if len(a.items) < maxSeen {
		a.items[sku] = true
	}
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// take returns the items that were added since the last call.
func (a *acceptedItems) take() map[string]bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	items := a.items
	a.items = make(map[string]bool)
	return items
}

// await returns a channel that is closed when the consumer of this process has settled an
// order. The caller must call forget.
func (a *acceptedItems) await(id string) (settled <-chan struct{}, forget func()) {
	c := make(chan struct{})
	a.mu.Lock()
	defer a.mu.Unlock()
	a.done[id] = append(a.done[id], c)
	return c, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.done, id) // others that wait for the same order look by themselves
	}
}

// settled tells those who wait that orders were written or refused.
func (a *acceptedItems) settled(entries []entry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range entries {
		for _, c := range a.done[e.order.ID] {
			close(c)
		}
		delete(a.done, e.order.ID)
	}
}

// The delays between two looks at an order that another process may write.
const (
	minAwaitDelay = 20 * time.Millisecond
	maxAwaitDelay = 250 * time.Millisecond
)

// AwaitOrder waits until an accepted order is written or refused, and returns its state.
// When limit is over, ctx ends or the service closes, the state may still be
// StateAccepted.
func (s *Service) AwaitOrder(ctx context.Context, sku, id string, limit time.Duration) (OrderState, error) {
	wait, w := s.waiters.Begin(ctx, limit, errWaited)
	defer w.Done()
	settled, forget := s.accepted.await(id)
	defer forget()
	for delay := minAwaitDelay; ; delay = min(2*delay, maxAwaitDelay) {
		state, err := s.OrderState(context.WithoutCancel(ctx), sku, id)
		if err != nil || state.State != StateAccepted || wait.Err() != nil {
			return state, err
		}
		timer := time.NewTimer(delay)
		select {
		case <-settled:
			settled = nil
		case <-timer.C:
		case <-wait.Done():
		}
		timer.Stop()
	}
}

var errWaited = errors.New("the wait is over")
