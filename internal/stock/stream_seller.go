package stock

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"oversell/internal/guard"
	"oversell/internal/stock/stream"
)

var (
	//go:embed accept.lua
	acceptSource string
	acceptScript = redis.NewScript(acceptSource)
)

// StreamFamily is the family of the strategies that append orders to a stream. Before the stock of
// an item of this family is counted, the orders in its stream are written.
const StreamFamily = "lua_stream"

// Accepts reports whether a command runs the script that accepts orders. The bench stops processes
// right after this command.
func Accepts(cmd redis.Cmder) bool {
	args := cmd.Args()
	return len(args) > 1 && (args[1] == acceptScript.Hash() || args[1] == acceptSource)
}

// ErrBacklog means that too many accepted orders are waiting to be written, and that no more are
// accepted until there are fewer.
var ErrBacklog = errors.New("too many orders wait to be written")

// ErrNotDurable means that it is not known whether an order that was accepted will be written: too
// few replicas of Redis have it.
var ErrNotDurable = errors.New("too few replicas have the accepted order, and it is not written yet")

const (
	// replicaPatience is how long a batch waits for the replicas.
	replicaPatience = 200 * time.Millisecond
	// defaultPatience is the default of Stream.Patience.
	defaultPatience = 5 * time.Second
)

// Stream configures how orders are accepted into streams.
type Stream struct {
	Backlog int // maximum number of entries in a stream; 0: DefaultBacklog

	// Replicas is how many replicas of Redis must have an order before it is confirmed to its buyer as
	// accepted. If they do not have it in time, the buyer waits until the order is in the database,
	// and gets ErrNotDurable if that takes longer than Patience. With 0, an order is lost if Redis
	// fails before it has replicated it.
	Replicas int

	// Patience is how long a buyer waits while it is unknown whether the order will be written; 0: 5
	// s.
	Patience time.Duration
}

// DefaultBacklog is the default number of accepted orders of an item that may wait to be written.
// It leaves room for a large burst of buyers: that many orders take about 12 MB of Redis's memory.
const DefaultBacklog = 100_000

// Streamed returns a ScriptSeller that writes no orders: its script takes the units of a
// batch and appends the orders to the item's stream, from which Service.Consume writes
// them. When the stream is full, buyers get ErrBacklog.
//
// It sells for one strategy, because the script gets the strategy's name once for a batch. If the
// process crashes after the script, the orders are in the stream, and will be written.
func Streamed(rdb redis.Cmdable, s Stream) *ScriptSeller {
	s.Backlog, s.Patience = cmp.Or(s.Backlog, DefaultBacklog), cmp.Or(s.Patience, defaultPatience)
	t := &ScriptSeller{rdb: rdb, stream: &s}
	t.step = t.acceptAll
	t.batches = newBatcher(func() int { return maxBatch }, t.sell) // no database statement sets the pace
	return t
}

func (t *ScriptSeller) acceptAll(ctx context.Context, all []*batched) {
	first := all[0]
	k, g := stream.Keys{SKU: first.req.SKU}, first.gen
	created := now()
	at := append(first.keys(), k.Stream(), k.Places(), k.ByKey(g.saleID), k.Buyers(g.saleID, g.id))
	args := []any{
		g.String(), t.stream.Backlog, stream.KeysKept.Milliseconds(), k.SKU, g.saleID, g.id, g.limit,
		first.req.Strategy, created.UnixMilli(),
	}
	for _, one := range all {
		one.order = one.newOrder(created)
		args = append(args, one.req.Quantity, one.req.IdempotencyKey, one.order.ID, one.req.Buyer)
	}
	answers, replicated, err := t.runAccept(ctx, at, args)
	if giveAnswers(all, answers, err) != nil {
		return
	}
	for _, one := range all {
		one.unsure = !replicated
	}
	first.service.accepted.addItem(first.req.SKU)
}

// runAccept runs the script, and reports whether enough replicas have what it wrote.
func (t *ScriptSeller) runAccept(
	ctx context.Context, at []string, args []any,
) (answers []int64, replicated bool, err error) {
	if t.stream.Replicas == 0 {
		answers, err = acceptScript.Run(ctx, t.rdb, at, args...).Int64Slice()
		return answers, true, err
	}
	node := t.rdb
	if cluster, ok := t.rdb.(*redis.ClusterClient); ok { // WAIT has no key: the cluster client could send it anywhere
		if node, err = cluster.MasterForKey(ctx, at[0]); err != nil {
			return nil, false, err
		}
	}
	// WAIT covers only writes of its own connection.
	var ran, waited *redis.Cmd
	pipeline := func() {
		_, _ = node.Pipelined(ctx, func(p redis.Pipeliner) error { // each command has its own error
			ran = acceptScript.EvalSha(ctx, p, at, args...)
			waited = p.Do(ctx, "WAIT", t.stream.Replicas, replicaPatience.Milliseconds())
			return nil
		})
	}
	if pipeline(); redis.HasErrorPrefix(ran.Err(), "NOSCRIPT") { // and nothing was executed
		if err := acceptScript.Load(ctx, node).Err(); err != nil {
			return nil, false, err
		}
		pipeline()
	}
	if answers, err = ran.Int64Slice(); err != nil {
		return nil, false, err
	}
	had, err := waited.Int()
	return answers, err == nil && had >= t.stream.Replicas, nil // if WAIT failed, it is unknown
}

// accept finishes a purchase after the script that appends its order to the stream.
func (p *purchase) accept(ctx context.Context, b *batched) error {
	switch {
	case errors.Is(b.err, errOtherSale):
		return b.err
	case b.err != nil:
		return p.acceptedAnyway(ctx, b)
	}
	if err := p.answered(b.answer); err != nil {
		return err
	}
	if p.service.reconciliation.changes() != p.changes {
		b.err = fmt.Errorf("accepting an order: Redis was replaced by another one: %w", errOtherSale)
		return p.acceptedAnyway(ctx, b) // the units may come from an older stock
	}
	p.res.Order = b.order
	if b.unsure {
		p.patience = p.Script.stream.Patience
		return nil
	}
	p.res.State = StateAccepted
	p.service.accepted.followOrder(p.req.SKU, b.order.ID, p.gen)
	return nil
}

// untilWritten waits until an accepted order is in the database, and returns ErrNotAccepted if it
// was refused, or ErrNotDurable if neither happened in time. If Redis has lost the order, a
// consumer that had read it may still write it.
func (s *Service) untilWritten(ctx context.Context, sku, id string, limit time.Duration) error {
	wait, w := s.waiters.Begin(ctx, limit, errWaited)
	defer w.Done()
	for {
		state, err := s.AwaitOrder(wait, sku, id, limit)
		switch {
		case err == nil && state.State == StateWritten:
			return nil
		case err == nil && state.State == StateNotAccepted:
			return state.Err()
		}
		if guard.Sleep(wait, maxAwaitDelay) != nil {
			if errors.Is(err, ErrUnknownOrder) {
				err = nil // Redis has lost it, but it may still be written
			}
			return errors.Join(fmt.Errorf("order %s: %w", id, ErrNotDurable), err)
		}
	}
}

// acceptedAnyway finds out whether an order counts as accepted if the script's reply was lost, or
// if the script ran in a Redis that was replaced. It ends the generation. The recount that
// follows writes the order if it is still in the stream and units are left; after that, nobody can
// write it.
// While a backend is unavailable acceptedAnyway tries again: a consumer that had read the order may
// still write it, and the buyer should learn of that. If it does not find out in time, the error
// does not match errOtherSale: another attempt could buy a second time.
func (p *purchase) acceptedAnyway(ctx context.Context, b *batched) error {
	wait, w := p.service.waiters.Begin(ctx, p.Script.stream.Patience, errWaited)
	defer w.Done()
	for {
		written, err := p.service.findWritten(ctx, p.req.SKU, p.gen, []string{b.order.ID})
		if err == nil && written[b.order.ID] {
			p.res.Order = b.order
			return nil
		}
		if err == nil {
			return b.err
		}
		if guard.Sleep(wait, maxAwaitDelay) != nil {
			return fmt.Errorf("%w: %v: %w", errUnsure, b.err, err)
		}
	}
}

// replayAccepted answers with an accepted order that has the buyer's key and is not written yet, or
// with ErrNotAccepted if the order will never be written.
func (p *purchase) replayAccepted(ctx context.Context) error {
	how := p.Strategy
	if p.gen.family == StreamFamily && !how.streamed() {
		how = p.service.cfg.Strategies[StreamFamily] // the shop has switched strategies since
	}
	if !how.streamed() {
		return nil
	}
	id, err := p.service.streams.OrderOf(ctx, p.req.SKU, p.gen.saleID, p.req.IdempotencyKey)
	if id == "" || err != nil {
		return err
	}
	order, found, err := p.service.streams.Find(ctx, p.req.SKU, id)
	if err != nil {
		return err
	}
	if !found {
		return p.replayLost(ctx, id)
	}
	if err := orderOf(order.Entry).answers(p.req); err != nil {
		return err
	}
	state, err := p.service.stateOf(ctx, order)
	if err != nil {
		return err
	}
	p.res.Order, p.res.Replayed = state.Order, true
	if err := state.Err(); err != nil {
		return err
	}
	if how.Script.stream.Replicas > 0 { // it is unknown whether they have the order
		p.patience = how.Script.stream.Patience
		return nil
	}
	p.res.State, p.res.Reason = StateAccepted, state.Reason
	p.service.accepted.followOrder(p.req.SKU, state.ID, generation{saleID: p.gen.saleID, id: order.Generation})
	return nil
}

// replayLost answers for an order that has the buyer's key and is no longer in the stream: it has
// just been written, or Redis has lost it. A consumer may have read the order before Redis lost it,
// so the order's generation is ended first. The key of a lost order is released: after the error the
// buyer can use it again.
func (p *purchase) replayLost(ctx context.Context, id string) error {
	s := p.service
	order, written, err := find[Order](ctx, s.store, id)
	if err != nil {
		return err
	}
	_, known, err := find[lostOrder](ctx, s.store, id)
	if err != nil {
		return err
	}
	if !written && !known {
		item, err := s.store.item(ctx, p.req.SKU) // the order may be of a later generation than the buyer's
		if err != nil {
			return err
		}
		if item.SaleID != p.gen.saleID {
			return errOtherSale
		}
		if _, err := s.findWritten(ctx, p.req.SKU, item.generation(), []string{id}); err != nil {
			return err
		}
		if order, written, err = find[Order](ctx, s.store, id); err != nil {
			return err
		}
	}
	if written {
		return p.replayWritten(order)
	}
	if !known {
		if err := s.lose(ctx, p.req.SKU, p.gen.saleID, []string{id}); err != nil {
			return err
		}
	}
	at := stream.Keys{SKU: p.req.SKU}.ByKey(p.gen.saleID)
	if err := s.streams.Release(ctx, at, map[string]string{p.req.IdempotencyKey: id}); err != nil || known {
		return err
	}
	return fmt.Errorf("%w: %s", ErrNotAccepted, reasonLost)
}

// acceptedItems holds the items for which this process has accepted orders or ended a generation.
type acceptedItems struct {
	wake     chan struct{}     // wakes the consumer of this process, if there is one
	follower *guard.Background // finds out whether the orders are written

	mu    sync.Mutex
	items map[string]*acceptedItem // by SKU
}

type acceptedItem struct {
	fresh bool // orders were accepted since the last takeFresh
	// told holds the orders that were confirmed to buyers as accepted, until they are written or
	// recorded as lost. Without this record, nobody would notice that a Redis that lost everything
	// had accepted them.
	told  map[string]generation // by id
	ended string                // the last generation that this process has ended; see followEnd
}

func (i *acceptedItem) followed() bool { return len(i.told) > 0 || i.ended != "" }

// change calls f with the entry of an item, under the mutex.
func (a *acceptedItems) change(sku string, f func(*acceptedItem)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	one := a.items[sku]
	if one == nil {
		if len(a.items) >= maxSeen {
			maps.DeleteFunc(a.items, func(_ string, i *acceptedItem) bool { return !i.fresh && !i.followed() })
		}
		one = &acceptedItem{told: make(map[string]generation)}
		a.items[sku] = one
	}
	f(one)
}

// skus returns the items for which the given function returns true.
func (a *acceptedItems) skus(of func(*acceptedItem) bool) (skus []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for sku, one := range a.items {
		if of(one) {
			skus = append(skus, sku)
		}
	}
	return skus
}

// addItem records that orders of the item were accepted, and wakes the consumer.
func (a *acceptedItems) addItem(sku string) {
	a.change(sku, func(i *acceptedItem) { i.fresh = true })
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// takeFresh returns the items that were added since the last call.
func (a *acceptedItems) takeFresh() []string {
	return a.skus(func(i *acceptedItem) (was bool) {
		was, i.fresh = i.fresh, false
		return was
	})
}

// followOrder records that an order was confirmed to its buyer as accepted.
func (a *acceptedItems) followOrder(sku, id string, g generation) {
	a.change(sku, func(i *acceptedItem) { i.told[id] = g })
	a.follower.Wake()
}

// unfollowOrders drops orders that are written or recorded as lost.
func (a *acceptedItems) unfollowOrders(sku string, ids ...string) {
	a.change(sku, func(i *acceptedItem) {
		for _, id := range ids {
			delete(i.told, id)
		}
	})
}

// The delays between two reads of an order that is waiting to be written.
const (
	minAwaitDelay = 20 * time.Millisecond
	maxAwaitDelay = 250 * time.Millisecond
)

// AwaitOrder waits until an accepted order is written or refused, and returns its state.
// If limit has passed, ctx has ended or the service was closed, the state may still be
// StateAccepted.
func (s *Service) AwaitOrder(ctx context.Context, sku, id string, limit time.Duration) (OrderState, error) {
	wait, w := s.waiters.Begin(ctx, limit, errWaited)
	defer w.Done()
	for delay := minAwaitDelay; ; delay = min(2*delay, maxAwaitDelay) {
		state, err := s.OrderState(context.WithoutCancel(ctx), sku, id)
		if err != nil || state.State != StateAccepted || guard.Sleep(wait, delay) != nil {
			return state, err
		}
	}
}

var errWaited = errors.New("the wait is over")
