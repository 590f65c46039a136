package stock_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-sql-driver/mysql"
	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"gorm.io/gorm"

	"oversell/internal/backend/backendtest"
	"oversell/internal/locks/locktest"
	"oversell/internal/stock"
	"oversell/internal/stock/stream"
)

const streamed = "lua_stream"

// claimAfter is short, so that tests need not wait long for what a dead consumer left.
const claimAfter = 50 * time.Millisecond

// consume runs a consumer until the test ends or stop is called.
func consume(t *testing.T, service *stock.Service, c stock.Consumer) (stop func()) {
	t.Helper()
	if c.ClaimAfter == 0 {
		c.ClaimAfter = claimAfter
	}
	if c.Poll == 0 {
		c.Poll = 5 * time.Millisecond
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		service.Consume(ctx, c)
		close(done)
	}()
	stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(stop)
	return stop
}

// accept buys n units one by one and returns the ids of the accepted orders.
func accept(t *testing.T, s *site, service *stock.Service, n int) (ids []string) {
	t.Helper()
	for range n {
		res, err := service.Deduct(t.Context(), s.request(streamed, ""))
		if err != nil {
			t.Fatal(err)
		}
		if !res.Accepted {
			t.Fatalf("order %s is not only accepted", res.Order.ID)
		}
		ids = append(ids, res.Order.ID)
	}
	return ids
}

// settled waits until nothing is in flight.
func (s *site) settled(t *testing.T, service *stock.Service) stock.Audit {
	t.Helper()
	return s.until(t, service, "nothing is in flight", func(a stock.Audit) bool { return a.InFlight == 0 })
}

// until waits until an audit is as wanted.
func (s *site) until(t *testing.T, service *stock.Service, what string, wanted func(stock.Audit) bool) stock.Audit {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; pause() {
		a := s.audit(t, service)
		if wanted(a) {
			return a
		}
		if time.Now().After(end) {
			t.Fatalf("waiting until %s: the audit finds %+v", what, a)
		}
	}
}

// wantWritten fails unless exactly these orders are written.
func (s *site) wantWritten(t *testing.T, service *stock.Service, ids []string) {
	t.Helper()
	page, err := service.Orders(t.Context(), s.sku, "", stock.MaxOrders)
	if err != nil {
		t.Fatal(err)
	}
	var written []string
	for _, o := range page.Orders {
		written = append(written, o.ID)
	}
	want := slices.Sorted(slices.Values(ids))
	if !slices.Equal(written, want) {
		t.Errorf("%d orders are written and %d were accepted:\n%v\n%v", len(written), len(want), written, want)
	}
}

// wantState fails unless the order has this state.
func (s *site) wantState(t *testing.T, service *stock.Service, id, want string) {
	t.Helper()
	for _, sku := range []string{s.sku, ""} {
		if state, err := service.OrderState(t.Context(), sku, id); err != nil || state.State != want {
			t.Errorf("order %s is %s (%s), %v; want %s", id, state.State, state.Reason, err, want)
		}
	}
}

// A crowd at two instances is accepted as far as there are units, and every accepted order
// is written exactly once.
func TestAcceptedOrdersAreWrittenOnce(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		a, b := s.instance(t, nil), s.instance(t, nil)
		s.put(t, a, 300)
		if sold, soldOut, _ := rush(t, s, 400, streamed, a, b); sold != 300 || soldOut != 100 {
			t.Errorf("%d accepted and %d turned away, want 300 and 100", sold, soldOut)
		}
		before := s.audit(t, a)
		if before.InFlight != 300 || before.LostUpdates != 0 || before.Stranded != 0 {
			t.Errorf("before a consumer runs: %+v, want 300 in flight and nothing lost or stranded", before)
		}
		consume(t, a, stock.Consumer{})
		consume(t, b, stock.Consumer{})
		after := s.settled(t, b)
		wantStock(t, after, 300, 0, 300, 300)
		if after.DurableP99 <= 0 {
			t.Errorf("99 of 100 orders were written within %v ms", after.DurableP99)
		}
	})
}

// A consumer of some items leaves the orders of the others in their streams.
func TestAConsumerOfSomeItems(t *testing.T) {
	s := embeddedSite(t)
	shop, worker := s.instance(t, nil), s.instance(t, nil)
	others := s.sku
	s.put(t, shop, 1)
	accept(t, s, shop, 1)
	s.sku = newSKU()
	s.put(t, shop, 1)
	accept(t, s, shop, 1)
	own := s.sku
	consume(t, worker, stock.Consumer{Only: func(sku string) bool { return sku == own }})
	s.settled(t, shop)
	s.sku = others
	if a := s.audit(t, shop); a.InFlight != 1 || a.Sold != 0 {
		t.Errorf("of another item %d are in flight and %d are written, want 1 and 0", a.InFlight, a.Sold)
	}
}

func TestAnOrderTellsItsState(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		service := s.instance(t, nil)
		s.put(t, service, 10)
		id := accept(t, s, service, 1)[0]
		s.wantState(t, service, id, stock.StateAccepted)
		if state, err := service.AwaitOrder(t.Context(), s.sku, id, time.Millisecond); err != nil || state.State != stock.StateAccepted {
			t.Errorf("without a consumer the wait ends with %s, %v", state.State, err)
		}
		consume(t, service, stock.Consumer{})
		if state, err := service.AwaitOrder(t.Context(), s.sku, id, time.Minute); err != nil || state.State != stock.StateWritten || state.ID != id {
			t.Errorf("got %+v, %v; want it written", state, err)
		}
		s.wantState(t, service, id, stock.StateWritten)
		if _, err := service.OrderState(t.Context(), "", "018f0000-0000-7000-8000-000000000000"); !errors.Is(err, stock.ErrUnknownOrder) {
			t.Errorf("an order that nobody made: %v, want %v", err, stock.ErrUnknownOrder)
		}
		if _, err := service.OrderState(t.Context(), "", "no order"); !errors.Is(err, stock.ErrInvalid) {
			t.Errorf("no id: %v, want %v", err, stock.ErrInvalid)
		}
	})
}

// Anybody may ask for an order without saying of which item. That must not cost a command for
// each item.
func TestALookUpAsksNoOtherItem(t *testing.T) {
	s := embeddedSite(t)
	service := s.instance(t, nil)
	var ids []string // of an order of each item
	for range 10 {
		s.sku = newSKU()
		s.put(t, service, 1)
		ids = append(ids, accept(t, s, service, 1)...)
	}
	hook := new(locktest.Hook)
	s.rdb.AddHook(hook)
	commands := hook.On(func(redis.Cmder) bool { return true }, -1, locktest.Pass)
	for _, id := range ids {
		if state, err := service.OrderState(t.Context(), "", id); err != nil || state.State != stock.StateAccepted {
			t.Errorf("order %s is %s, %v; want it accepted", id, state.State, err)
		}
	}
	// Once a second the shop looks, too, what became of the orders that it has accepted.
	if n := commands.Hits(); n >= 4*len(ids) {
		t.Errorf("%d commands for %d orders, want 2 for each", n, len(ids))
	}
	before := commands.Hits()
	for range ids {
		if _, err := service.OrderState(t.Context(), "", uuid.NewString()); !errors.Is(err, stock.ErrUnknownOrder) {
			t.Errorf("an order that nobody made: %v, want %v", err, stock.ErrUnknownOrder)
		}
	}
	if n := commands.Hits() - before; n >= len(ids) {
		t.Errorf("%d commands for orders that nobody made, want none", n)
	}
}

// A key finds its order while that is in the stream, and after it was written.
func TestKeysFindAcceptedOrders(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		a, b := s.instance(t, nil), s.instance(t, nil)
		s.put(t, a, 10)
		wantOneOrder(t, sameKey(t, s, 6, streamed, "click", a, b))
		first, err := a.Deduct(t.Context(), s.request(streamed, "click"))
		if err != nil || !first.Replayed || !first.Accepted {
			t.Errorf("in the stream: %+v, %v; want the accepted order", first, err)
		}
		stop := consume(t, a, stock.Consumer{})
		wantStock(t, s.settled(t, a), 10, 9, 1, 1)
		stop()
		again, err := b.Deduct(t.Context(), s.request(streamed, "click"))
		if err != nil || !again.Replayed || again.Accepted || again.Order.ID != first.Order.ID {
			t.Errorf("written: %+v, %v; want order %s", again, err, first.Order.ID)
		}
		wantStock(t, s.settled(t, a), 10, 9, 1, 1)
	})
}

// A key belongs to one request also while the order is in the stream, whatever the strategy is
// by then, and after it was written.
func TestKeysOfAcceptedOrdersBelongToOneRequest(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		a, b := s.instance(t, nil), s.instance(t, nil)
		s.put(t, a, 1)
		r := s.request(streamed, "click")
		r.Buyer = "ann"
		first, err := a.Deduct(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		wantKeyReused(t, b, r)
		switched := r
		switched.Strategy = "v6_watchdog"
		wantKeyReused(t, b, switched)
		again, err := b.Deduct(t.Context(), switched)
		if err != nil || !again.Accepted || again.State != stock.StateAccepted || again.Order.ID != first.Order.ID {
			t.Errorf("with another strategy: %+v, %v; want the accepted order %s", again, err, first.Order.ID)
		}
		stop := consume(t, a, stock.Consumer{})
		wantStock(t, s.settled(t, a), 1, 0, 1, 1)
		stop()
		wantKeyReused(t, b, r)
		wantKeyReused(t, b, switched)
		s.put(t, a, 10)
		bound(t, s, streamed, a, b)
	})
}

// endsAt is a consumer that dies at a seam the first time, and lives on afterwards if
// another item comes.
func endsAt(seam string) (stock.Consumer, <-chan struct{}) {
	died := make(chan struct{})
	var once sync.Once
	return stock.Consumer{Seam: func(now string) error {
		if now != seam {
			return nil
		}
		once.Do(func() { close(died) })
		return stock.EndAtSeam()
	}}, died
}

// Another consumer claims what a dead one has read, and recognizes what it has written.
func TestDeadConsumersLoseNothing(t *testing.T) {
	for _, seam := range []string{stock.SeamRead, stock.SeamWritten} {
		t.Run(seam, func(t *testing.T) {
			eachSite(t, func(t *testing.T, s *site) {
				service, other := s.instance(t, nil), s.instance(t, nil)
				s.put(t, service, 100)
				dying, died := endsAt(seam)
				stop := consume(t, service, dying)
				ids := accept(t, s, service, 20)
				<-died
				stop()
				ids = append(ids, accept(t, s, service, 20)...)
				consume(t, other, stock.Consumer{})
				wantStock(t, s.settled(t, other), 100, 60, 40, 40)
				s.wantWritten(t, other, ids)
				if n, err := s.rdb.XLen(t.Context(), "oversell:{"+s.sku+"}:stream").Result(); err != nil || n > 40 {
					t.Errorf("%d entries, %v", n, err)
				}
			})
		})
	}
}

// consumers returns the consumers of the item's stream by name.
func (s *site) consumers(t *testing.T) map[string]redis.XInfoConsumer {
	t.Helper()
	all, err := s.rdb.XInfoConsumers(t.Context(), "oversell:{"+s.sku+"}:stream", "writers").Result()
	if err != nil {
		t.Fatal(err)
	}
	byName := make(map[string]redis.XInfoConsumer)
	for _, c := range all {
		byName[c.Name] = c
	}
	return byName
}

// untilIdle waits until a consumer was idle for so long that it is taken for dead.
func (s *site) untilIdle(t *testing.T, name string, claimAfter time.Duration) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; pause() {
		c, ok := s.consumers(t)[name]
		if ok && (c.Idle < 0 || c.Idle >= 20*claimAfter) { // the embedded server says -1
			return
		}
		if !ok || time.Now().After(end) {
			t.Fatalf("consumer %s is %+v", name, c)
		}
	}
}

// gated is a consumer that looks for orders of others only while the gate is open.
func gated(name string, claimAfter time.Duration) (c stock.Consumer, open *atomic.Bool) {
	open = new(atomic.Bool)
	return stock.Consumer{Name: name, ClaimAfter: claimAfter, Only: func(string) bool { return open.Load() }}, open
}

// A consumer that was idle for long and has nothing to do leaves the group of the stream. If it
// lives, it joins again.
func TestIdleConsumersLeaveTheGroup(t *testing.T) {
	const claimAfter = 10 * time.Millisecond
	eachSite(t, func(t *testing.T, s *site) {
		shop := s.instance(t, nil)
		s.put(t, shop, 100_000)
		idle, open := gated("idle", claimAfter)
		consume(t, s.instance(t, nil), idle)
		open.Store(true)
		ids := accept(t, s, shop, 3)
		s.settled(t, shop)
		open.Store(false)
		s.untilIdle(t, "idle", claimAfter)

		stop := consume(t, s.instance(t, nil), stock.Consumer{Name: "other", ClaimAfter: claimAfter})
		for end := time.Now().Add(time.Minute); ; pause() {
			ids = append(ids, accept(t, s, shop, 1)...)
			s.settled(t, shop)
			if _, ok := s.consumers(t)["idle"]; !ok {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("the consumers are %+v", s.consumers(t))
			}
		}
		stop()

		open.Store(true)
		ids = append(ids, accept(t, s, shop, 3)...)
		s.settled(t, shop)
		s.wantWritten(t, shop, ids)
		if _, ok := s.consumers(t)["idle"]; !ok {
			t.Error("the consumer that came back is not in the group")
		}
	})
}

// A dead consumer stays in the group until another one has claimed its orders: they would leave
// the group with it.
func TestDeadConsumersWithOrdersStayInTheGroup(t *testing.T) {
	const claimAfter = 10 * time.Millisecond
	eachSite(t, func(t *testing.T, s *site) {
		shop := s.instance(t, nil)
		s.put(t, shop, 100)
		other, open := gated("other", claimAfter)
		consume(t, s.instance(t, nil), other) // it is old enough to look for the dead at once

		dying, died := endsAt(stock.SeamRead)
		dying.Name, dying.ClaimAfter = "dead", claimAfter
		stop := consume(t, s.instance(t, nil), dying)
		ids := accept(t, s, shop, 3)
		<-died
		stop()
		s.untilIdle(t, "dead", claimAfter)
		if c := s.consumers(t)["dead"]; c.Pending == 0 {
			t.Errorf("the dead consumer has no orders: %+v", c)
		}

		open.Store(true)
		wantStock(t, s.settled(t, shop), 100, 97, 3, 3)
		s.wantWritten(t, shop, ids)
	})
}

// While the database is away the shop accepts orders, and they are written when it is back.
func TestOrdersWaitForTheDatabase(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		service := s.instance(t, nil)
		s.put(t, service, 50)
		ids := accept(t, s, service, 10)
		var failures atomic.Int64
		remove := s.beforeOrders(func(tx *gorm.DB) {
			failures.Add(1)
			_ = tx.AddError(mysql.ErrInvalidConn)
		})
		consume(t, service, stock.Consumer{Tries: 1})
		for failures.Load() < 2 {
			pause()
		}
		remove()
		wantStock(t, s.settled(t, service), 50, 40, 10, 10)
		s.wantWritten(t, service, ids)
	})
}

var errPoison = &mysql.MySQLError{Number: 30001, SQLState: [5]byte([]byte("45000")), Message: "the database dislikes this order: " + strings.Repeat("界", 100)}

// poison makes the database refuse orders of this many units.
func poison(t *testing.T, s *site, quantity int64) (remove func()) {
	return s.beforeOrders(func(tx *gorm.DB) {
		if slices.Contains(ordersIn(tx), quantity) {
			_ = tx.AddError(errPoison)
		}
	})
}

// buyDead buys three units in an order that the database refuses, and waits until it is a dead
// letter. A consumer goes on.
func (s *site) buyDead(t *testing.T, service *stock.Service, key string) (bad stock.Request, order stock.Order, remove func()) {
	t.Helper()
	remove = poison(t, s, 3)
	bad = s.request(streamed, key)
	bad.Quantity = 3
	res, err := service.Deduct(t.Context(), bad)
	if err != nil {
		t.Fatal(err)
	}
	consume(t, service, stock.Consumer{Tries: 1})
	s.deadLetters(t, service, 1)
	return bad, res.Order, remove
}

// An order that the database does not take becomes a dead letter after some tries. It does
// not stop the others, and keeps its units, until somebody has it tried again.
func TestDeadLettersAreListedAndRetried(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		service := s.instance(t, nil)
		s.put(t, service, 20)
		remove := poison(t, s, 3)
		bad := s.request(streamed, "bad")
		bad.Quantity = 3
		res, err := service.Deduct(t.Context(), bad)
		if err != nil {
			t.Fatal(err)
		}
		ids := accept(t, s, service, 4)
		consume(t, service, stock.Consumer{Tries: 2})
		s.until(t, service, "the other orders are written", func(a stock.Audit) bool { return a.Orders == 4 })
		var letters []stream.DeadLetter
		for end := time.Now().Add(time.Minute); len(letters) == 0; pause() {
			if letters, err = service.DeadLetters(t.Context(), s.sku); err != nil || time.Now().After(end) {
				t.Fatalf("there is no dead letter: %v", err)
			}
		}
		if l := letters[0]; len(letters) != 1 || l.OrderID != res.Order.ID || l.Kind != "failed" || l.Reason == "" || l.Refusals != 2 || l.Deliveries < 2 || l.KeyHash != stock.KeyHash("bad") {
			t.Errorf("the dead letters are %+v", letters)
		}
		l := letters[0]
		if begin := "the database dislikes this order: 界"; !strings.Contains(l.Error, begin) || !utf8.ValidString(l.Error) || strings.Contains(l.Reason, begin) {
			t.Errorf("the reason is %q, and the error %q", l.Reason, l.Error)
		}
		s.wantState(t, service, res.Order.ID, stock.StateAccepted)
		if state, err := service.OrderState(t.Context(), s.sku, l.OrderID); err != nil || state.Reason != "the database did not take the order, and it waits for a retry of the dead letters" {
			t.Errorf("anybody is told the reason %q, %v", state.Reason, err)
		}
		a := s.audit(t, service)
		if a.InFlight != 3 || a.LostUpdates != 0 {
			t.Errorf("with a dead letter of 3 units: %+v", a)
		}
		if !l.HasUnits {
			t.Error("the dead letter is said to have no units")
		}
		if again, err := service.Deduct(t.Context(), bad); err != nil || again.Order.ID != res.Order.ID {
			t.Errorf("its key finds %+v, %v", again, err)
		}
		remove()
		if done, err := service.RetryDead(t.Context(), s.sku); err != nil || done != (stock.Retried{SKU: s.sku, Requeued: 1}) {
			t.Errorf("retrying: %+v, %v", done, err)
		}
		wantStock(t, s.settled(t, service), 20, 13, 7, 5)
		s.wantWritten(t, service, append(ids, res.Order.ID))
	})
}

// dislike has the database itself refuse orders of the item with this many units or more.
func (s *site) dislike(t *testing.T, quantity int64) {
	t.Helper()
	create, drop := "ALTER TABLE oversell_orders ADD CONSTRAINT dislikes CHECK (sku <> '%s' OR quantity < %d)", "ALTER TABLE oversell_orders DROP CONSTRAINT dislikes"
	if s.db.Name() != "mysql" {
		create = "CREATE TRIGGER dislikes BEFORE INSERT ON oversell_orders WHEN NEW.sku = '%s' AND NEW.quantity >= %d BEGIN SELECT RAISE(ABORT, 'disliked'); END"
		drop = "DROP TRIGGER dislikes"
	}
	if err := s.db.Exec(fmt.Sprintf(create, s.sku, quantity)).Error; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.db.Exec(drop).Error; err != nil {
			t.Error(err)
		}
	})
}

// deadLetters waits until the item has this many dead letters.
func (s *site) deadLetters(t *testing.T, service *stock.Service, n int) []stream.DeadLetter {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; pause() {
		letters, err := service.DeadLetters(t.Context(), s.sku)
		if err == nil && len(letters) == n {
			return letters
		}
		if err != nil || time.Now().After(end) {
			t.Fatalf("there are %d dead letters, %v; want %d", len(letters), err, n)
		}
	}
}

// Orders that the database refuses for their values become dead letters, too, when no good
// order is left beside them.
func TestSeveralBadOrdersAreDeadLetters(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		service := s.instance(t, nil)
		s.put(t, service, 20)
		s.dislike(t, 3)
		for i := range int64(2) {
			bad := s.request(streamed, "")
			bad.Quantity = 3 + i
			if _, err := service.Deduct(t.Context(), bad); err != nil {
				t.Fatal(err)
			}
		}
		ids := accept(t, s, service, 3)
		consume(t, service, stock.Consumer{Tries: 2})
		for _, l := range s.deadLetters(t, service, 2) {
			if l.Kind != "failed" || l.Refusals != 2 {
				t.Errorf("the dead letter is %+v", l)
			}
		}
		s.wantWritten(t, service, ids)
		s.streamEmpties(t)
	})
}

// A key whose order has lost its units is told so, and not that the order is accepted.
func TestAKeyTellsThatItsOrderIsNotAccepted(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		service := s.instance(t, soon)
		s.put(t, service, 20)
		bad, order, _ := s.buyDead(t, service, "click")
		if again, err := service.Deduct(t.Context(), bad); err != nil || !again.Accepted || again.Order.ID != order.ID {
			t.Errorf("while the order has its units: %+v, %v", again, err)
		}
		s.repair(t, service)
		s.wantState(t, service, order.ID, stock.StateNotAccepted)
		if again, err := service.Deduct(t.Context(), bad); !errors.Is(err, stock.ErrNotAccepted) {
			t.Errorf("after its units are gone: %+v, %v; want %v", again, err, stock.ErrNotAccepted)
		}
	})
}

// Orders that are written are not reported as unwritten, if only their delay is not recorded.
func TestOrdersAreWrittenThoughTheirDelayIsNotRecorded(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		var log bytes.Buffer
		service := s.instance(t, func(cfg *stock.Config) { cfg.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		s.put(t, service, 20)
		ids := accept(t, s, service, 3)
		hook := new(locktest.Hook)
		s.rdb.AddHook(hook)
		lost := hook.On(locktest.Command("hincrby"), -1, locktest.Fail(locktest.ErrCut))
		stop := consume(t, service, stock.Consumer{Finish: t.Context()})
		s.streamEmpties(t)
		stop()
		s.wantWritten(t, service, ids)
		if said := log.String(); lost.Hits() == 0 || strings.Contains(said, "could not be written") {
			t.Errorf("after %d faults the log says %q", lost.Hits(), said)
		}
	})
}

// databaseFaults are errors that say nothing about the values of an order: read-only, full, too
// many connections, a missing table, column or default, no rights, cut off, a node of a cluster
// that is not ready.
func databaseFaults() (all []error) {
	for _, number := range []uint16{1021, 1030, 1040, 1044, 1045, 1047, 1053, 1054, 1114, 1142, 1146, 1180, 1203, 1226, 1290, 1317, 1364, 1526, 1792, 1836, 1927, 1969, 3024} {
		all = append(all, &mysql.MySQLError{Number: number, SQLState: [5]byte([]byte("42000"))})
	}
	return append(all, errors.New("an error that nobody knows"))
}

// refusing fails every statement that writes orders of these items, with an error for each, and
// counts them.
type refusing struct {
	by  map[string]error // by SKU
	mu  sync.Mutex
	had map[string]int
}

func (f *refusing) fail(tx *gorm.DB) {
	for _, o := range tx.Statement.Dest.([]*stock.Order) {
		f.mu.Lock()
		f.had[o.SKU]++
		f.mu.Unlock()
		_ = tx.AddError(f.by[o.SKU])
	}
}

func (f *refusing) each(times int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for sku := range f.by {
		if f.had[sku] < times {
			return false
		}
	}
	return true
}

// If the database takes no order for a reason that is not the order's, nothing becomes a dead
// letter, also of an order that is alone.
func TestAFaultOfTheDatabaseMakesNoDeadLetters(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		service := s.instance(t, nil)
		f := &refusing{by: make(map[string]error), had: make(map[string]int)}
		accepted := make(map[string][]string)
		for i, fault := range databaseFaults() {
			s.sku = newSKU()
			s.put(t, service, 20)
			f.by[s.sku], accepted[s.sku] = fault, accept(t, s, service, 1+i%2*4)
		}
		remove := s.beforeOrders(f.fail)
		consume(t, service, stock.Consumer{Tries: 1})
		for end := time.Now().Add(time.Minute); !f.each(2); pause() {
			if time.Now().After(end) {
				t.Fatalf("orders were given up after so many tries: %v", f.had)
			}
		}
		remove()
		for sku, ids := range accepted {
			s.sku = sku
			s.settled(t, service)
			s.wantWritten(t, service, ids)
			s.deadLetters(t, service, 0)
		}
	})
}

// An order waits for a table that is away, although it is alone.
func TestALoneOrderWaitsForItsTable(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		seller := s.instance(t, nil)
		log := &countingHandler{lines: make(map[string]int), skipped: make(map[string]int64)}
		writer := s.instance(t, func(cfg *stock.Config) { cfg.Logger = slog.New(log) })
		s.put(t, seller, 20)
		ids := accept(t, s, seller, 1)
		rename := func(from, to string) {
			if err := s.db.Exec("ALTER TABLE " + from + " RENAME TO " + to).Error; err != nil {
				t.Fatal(err)
			}
		}
		rename("oversell_orders", "elsewhere")
		consume(t, writer, stock.Consumer{Tries: 1})
		for end := time.Now().Add(time.Minute); log.count("accepted orders could not be written, and are tried again") < 2; pause() {
			if time.Now().After(end) {
				t.Error("the order was not tried again")
				break
			}
		}
		rename("elsewhere", "oversell_orders")
		s.settled(t, seller)
		s.wantWritten(t, seller, ids)
	})
}

// A sale does not end while the database refuses accepted orders for a reason that is not
// theirs: nobody could write them afterwards.
func TestASaleDoesNotEndWhileItsOrdersWait(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		service := s.instance(t, nil)
		s.put(t, service, 20)
		ids := accept(t, s, service, 2)
		f := &refusing{by: map[string]error{s.sku: &mysql.MySQLError{Number: 1142}}, had: make(map[string]int)}
		remove := s.beforeOrders(f.fail)
		if _, err := service.Put(t.Context(), stock.Item{SKU: s.sku, Initial: 5}); err == nil {
			t.Error("a new sale began")
		}
		remove()
		s.put(t, service, 5)
		for _, id := range ids {
			s.wantState(t, service, id, stock.StateWritten)
		}
	})
}

// deliver gives the item's orders to a consumer, and takes them from it n times.
func (s *site) deliver(t *testing.T, n int) {
	t.Helper()
	stream := "oversell:{" + s.sku + "}:stream"
	_ = s.rdb.XGroupCreate(t.Context(), stream, "writers", "0").Err() // it may exist
	read, err := s.rdb.XReadGroup(t.Context(), &redis.XReadGroupArgs{Group: "writers", Consumer: "dead", Streams: []string{stream, ">"}, Block: -1}).Result()
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		for _, m := range read[0].Messages {
			claim := &redis.XClaimArgs{Stream: stream, Group: "writers", Consumer: "dead", Messages: []string{m.ID}}
			if err := s.rdb.XClaim(t.Context(), claim).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// An order that consumers were given often, as in an outage, is not given up when the database
// refuses it once.
func TestRefusalsAreCountedAndNotDeliveries(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		service := s.instance(t, nil)
		s.put(t, service, 20)
		ids := accept(t, s, service, 1)
		s.deliver(t, 9)
		var refused atomic.Int64
		s.beforeOrders(func(tx *gorm.DB) {
			if refused.Add(1) == 1 {
				_ = tx.AddError(errPoison)
			}
		})
		consume(t, service, stock.Consumer{Tries: 2})
		s.settled(t, service)
		s.wantWritten(t, service, ids)
		s.deadLetters(t, service, 0)
	})
}

// Consumers add up how often the database has refused an order.
func TestConsumersCountRefusalsTogether(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		shop := s.instance(t, nil)
		s.put(t, shop, 20)
		poison(t, s, 1)
		accept(t, s, shop, 1)
		for range 6 {
			consume(t, s.instance(t, nil), stock.Consumer{Tries: 5})
		}
		l := s.deadLetters(t, shop, 1)[0]
		if l.Refusals < 5 || l.Refusals > 10 || l.Deliveries < l.Refusals {
			t.Errorf("after five tries the dead letter is %+v", l)
		}
		if n, err := s.rdb.Exists(t.Context(), "oversell:{"+s.sku+"}:stream:refusals").Result(); err != nil || n != 0 {
			t.Errorf("the count is left: %d, %v", n, err)
		}
	})
}

// When the stream is full, buyers are refused and nothing is taken.
func TestAFullStreamRefusesBuyers(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		service := s.instance(t, func(cfg *stock.Config) {
			cfg.Scripts[streamed] = stock.Streamed(cfg.Redis, stock.Stream{Backlog: 5})
		})
		s.put(t, service, 20)
		ids := accept(t, s, service, 5)
		if _, err := service.Deduct(t.Context(), s.request(streamed, "")); !errors.Is(err, stock.ErrBacklog) {
			t.Errorf("got %v, want %v", err, stock.ErrBacklog)
		}
		consume(t, service, stock.Consumer{})
		wantStock(t, s.settled(t, service), 20, 15, 5, 5)
		s.streamEmpties(t) // a consumer writes orders before it removes them
		ids = append(ids, accept(t, s, service, 1)...)
		wantStock(t, s.settled(t, service), 20, 14, 6, 6)
		s.wantWritten(t, service, ids)
	})
}

// A stock key that Redis has evicted is counted again, with the orders in the stream.
func TestAnEvictedStockIsNotSoldOut(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		service := s.instance(t, nil)
		s.put(t, service, 10)
		ids := accept(t, s, service, 4)
		if err := s.rdb.Del(t.Context(), s.stockKey(t)).Err(); err != nil {
			t.Fatal(err)
		}
		if sold, soldOut, _ := rush(t, s, 9, streamed, service); sold != 6 || soldOut != 3 {
			t.Errorf("%d accepted and %d turned away, want 6 and 3", sold, soldOut)
		}
		consume(t, service, stock.Consumer{})
		a := s.settled(t, service)
		wantStock(t, a, 10, 0, 10, 10)
		if a.AcceptedLost != 0 {
			t.Errorf("%d accepted orders are lost", a.AcceptedLost)
		}
		for _, id := range ids {
			s.wantState(t, service, id, stock.StateWritten)
		}
	})
}

// A new sale, a count and another family each write the accepted orders first, although
// no consumer runs. Consumers then find them written.
func TestAcceptedOrdersAreWrittenBeforeACount(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, s *site, service *stock.Service){
		"sale":   func(t *testing.T, s *site, service *stock.Service) { s.put(t, service, 7) },
		"family": func(t *testing.T, s *site, service *stock.Service) { rush(t, s, 1, "lua_batch", service) },
		"count": func(t *testing.T, s *site, service *stock.Service) {
			if err := s.rdb.Del(t.Context(), "oversell:{"+s.sku+"}:sale").Err(); err != nil {
				t.Fatal(err)
			}
			s.audit(t, service)
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachSite(t, func(t *testing.T, s *site) {
				service := s.instance(t, nil)
				s.put(t, service, 10)
				ids := accept(t, s, service, 4)
				change(t, s, service)
				for _, id := range ids {
					s.wantState(t, service, id, stock.StateWritten)
				}
				consume(t, service, stock.Consumer{})
				more := accept(t, s, service, 2)
				a := s.settled(t, service)
				if a.LostUpdates != 0 || a.AcceptedLost != 0 {
					t.Errorf("the audit finds %+v", a)
				}
				for _, id := range append(ids, more...) {
					s.wantState(t, service, id, stock.StateWritten)
				}
				s.streamEmpties(t)
			})
		})
	}
}

// streamEmpties waits until the stream has no entries.
func (s *site) streamEmpties(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; pause() {
		n, err := s.rdb.XLen(t.Context(), "oversell:{"+s.sku+"}:stream").Result()
		if err == nil && n == 0 {
			return
		}
		if err != nil || time.Now().After(end) {
			t.Fatalf("the stream has %d entries, %v", n, err)
		}
	}
}

// A consumer that was paused after it had read may write when the stock was counted in the
// meantime. Its orders were written by the count or are refused, never both.
func TestALateConsumerWritesNothingTwice(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		service, other := s.instance(t, nil), s.instance(t, nil)
		s.put(t, service, 10)
		ids := accept(t, s, service, 4)
		read, resume := make(chan struct{}), make(chan struct{})
		var once sync.Once
		consume(t, service, stock.Consumer{ClaimAfter: time.Minute, Seam: func(seam string) error {
			if seam == stock.SeamRead {
				once.Do(func() {
					close(read)
					<-resume
				})
			}
			return nil
		}})
		<-read
		if err := s.rdb.Del(t.Context(), s.stockKey(t)).Err(); err != nil {
			t.Fatal(err)
		}
		if sold, soldOut, _ := rush(t, s, 9, streamed, other); sold != 6 || soldOut != 3 {
			t.Errorf("%d accepted and %d turned away, want 6 and 3", sold, soldOut)
		}
		close(resume)
		wantStock(t, s.settled(t, service), 10, 0, 10, 10)
		for _, id := range ids {
			s.wantState(t, service, id, stock.StateWritten)
		}
	})
}

// Nobody knows whether the orders were accepted, so the count decides: they are written,
// or their units are for sale.
func TestReplyOfTheAcceptingScriptIsLost(t *testing.T) {
	for name, tt := range map[string]struct {
		action locktest.Action
		sold   int64
	}{
		"before": {locktest.Fail(locktest.ErrCut), 0},
		"after":  {locktest.LoseReply(locktest.ErrCut), 1},
	} {
		t.Run(name, func(t *testing.T) {
			eachSite(t, func(t *testing.T, s *site) {
				service := s.instance(t, nil)
				s.put(t, service, 10)
				accept(t, s, service, 1)
				hook := &scriptHook{action: tt.action}
				s.rdb.AddHook(hook)
				hook.armed.Store(true)
				res, err := service.Deduct(t.Context(), s.request(streamed, ""))
				if tt.sold == 1 && (err != nil || res.Accepted) || tt.sold == 0 && !errors.Is(err, locktest.ErrCut) {
					t.Errorf("accepted %v, %v", res.Accepted, err)
				}
				consume(t, service, stock.Consumer{})
				wantStock(t, s.settled(t, service), 10, 9-tt.sold, 1+tt.sold, 1+tt.sold)
			})
		})
	}
}

// Redis restarts with an older file: it has lost accepted orders, and has a stock that it
// had sold already. Nothing is oversold, and the lost orders are not accepted.
func TestOrdersThatRedisLostAreNotAccepted(t *testing.T) {
	eachRestartable(t, func(t *testing.T, s restartable) {
		service := s.process(t, nil)
		s.put(t, service, 10)
		stop := consume(t, service, stock.Consumer{})
		kept := accept(t, s.site, service, 3)
		s.settled(t, service)
		s.save(t)
		kept = append(kept, accept(t, s.site, service, 2)...)
		s.settled(t, service)
		stop()
		lost := accept(t, s.site, service, 3)
		s.restart(t)
		if sold, soldOut, _ := rush(t, s.site, 10, streamed, service); sold != 5 || soldOut != 5 {
			t.Errorf("%d accepted and %d turned away, want 5 and 5", sold, soldOut)
		}
		consume(t, service, stock.Consumer{})
		wantStock(t, s.settled(t, service), 10, 0, 10, 10)
		for _, id := range kept {
			s.wantState(t, service, id, stock.StateWritten)
		}
		// Orders that the crowd was refused with the older stock may be counted with them.
		s.until(t, service, "the lost orders are counted", func(a stock.Audit) bool { return a.AcceptedLost >= int64(len(lost)) })
		for _, id := range lost {
			s.wantState(t, service, id, stock.StateNotAccepted)
		}
	})
}

// A Redis that loses the stream alone still has the keys of its orders. A buyer that repeats the
// request with such a key is told what has become of the order, and may buy then. The process
// that accepted the orders need not live any more.
func TestKeysOfALostStreamAreFreeAgain(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		dead, service := s.instance(t, nil), s.instance(t, nil)
		s.put(t, dead, 10)
		var lost []string
		for _, key := range []string{"one", "two"} {
			res, err := dead.Deduct(t.Context(), s.request(streamed, key))
			if err != nil {
				t.Fatal(err)
			}
			lost = append(lost, res.Order.ID)
		}
		dead.Close()
		if err := s.rdb.Del(t.Context(), "oversell:{"+s.sku+"}:stream").Err(); err != nil {
			t.Fatal(err)
		}
		if res, err := service.Deduct(t.Context(), s.request(streamed, "one")); !errors.Is(err, stock.ErrNotAccepted) {
			t.Errorf("after the loss: %+v, %v; want %v", res, err, stock.ErrNotAccepted)
		}
		for _, key := range []string{"one", "two"} {
			res, err := service.Deduct(t.Context(), s.request(streamed, key))
			if err != nil || !res.Accepted || res.Replayed {
				t.Errorf("once the stock is counted: %+v, %v; want a new order", res, err)
			}
		}
		for _, id := range lost {
			s.wantState(t, service, id, stock.StateNotAccepted)
		}
		consume(t, service, stock.Consumer{})
		a := s.settled(t, service)
		wantStock(t, a, 10, 8, 2, 2)
		if a.AcceptedLost != 2 {
			t.Errorf("%d accepted orders are lost, want 2", a.AcceptedLost)
		}
	})
}

// A Redis that loses everything leaves no trace of the orders that it had accepted, but the
// processes that told their buyers so know them. The count outlives the next loss, and another
// family.
func TestProcessesCountWhatAnEmptyRedisLost(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		a, b := s.instance(t, nil), s.instance(t, nil)
		s.put(t, a, 20)
		var lost []string
		for _, service := range []*stock.Service{a, b} {
			lost = append(lost, accept(t, s, service, 3)...)
			if err := s.rdb.Del(t.Context(), s.keysLeft(t)...).Err(); err != nil {
				t.Fatal(err)
			}
			s.until(t, service, "the lost orders are counted", func(a stock.Audit) bool { return a.AcceptedLost == int64(len(lost)) })
		}
		for _, id := range lost {
			s.wantState(t, a, id, stock.StateNotAccepted)
		}
		rush(t, s, 1, "lua_batch", b)
		if audit := s.audit(t, b); audit.AcceptedLost != 6 || audit.Remaining != 19 {
			t.Errorf("after another family has sold: %+v, want 6 lost and 19 left", audit)
		}
	})
}

// When a generation ends, nothing of it stays in Redis: neither written orders for which no
// consumer looks, nor the places of orders that somebody has trimmed.
func TestAnEndedGenerationLeavesNoOrdersInRedis(t *testing.T) {
	stream := func(s *site) string { return "oversell:{" + s.sku + "}:stream" }
	for name, end := range map[string]func(t *testing.T, s *site, service *stock.Service){
		"another family": func(t *testing.T, s *site, service *stock.Service) { rush(t, s, 1, "lua_batch", service) },
		"trimmed": func(t *testing.T, s *site, service *stock.Service) {
			if err := s.rdb.XTrimMaxLen(t.Context(), stream(s), 0).Err(); err != nil {
				t.Fatal(err)
			}
			s.repair(t, service)
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachSite(t, func(t *testing.T, s *site) {
				service := s.instance(t, soon)
				s.put(t, service, 10)
				accept(t, s, service, 3)
				end(t, s, service)
				s.streamEmpties(t)
				for end := time.Now().Add(time.Minute); s.rdb.HLen(t.Context(), stream(s)+":orders").Val() > 0; pause() {
					if time.Now().After(end) {
						t.Fatal("places of orders stay in Redis")
					}
				}
			})
		})
	}
}

// Orders that were accepted from an older stock, before anybody noticed, are refused by the
// item's row, and can be retried when units are back.
func TestTheRowRefusesWhatAnOlderStockSold(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		service := s.instance(t, nil)
		s.put(t, service, 4)
		stop := consume(t, service, stock.Consumer{})
		first := accept(t, s, service, 4)
		wantStock(t, s.settled(t, service), 4, 0, 4, 4)
		stop()
		if err := s.rdb.Set(t.Context(), s.stockKey(t), 4, redis.KeepTTL).Err(); err != nil {
			t.Fatal(err)
		}
		ids := accept(t, s, service, 3)
		consume(t, service, stock.Consumer{})
		a := s.until(t, service, "the orders are refused", func(a stock.Audit) bool { return a.AcceptedLost == 3 && a.Remaining == 0 })
		wantStock(t, a, 4, 0, 4, 4)
		for _, id := range ids {
			s.wantState(t, service, id, stock.StateNotAccepted)
		}
		if done, err := service.RetryDead(t.Context(), s.sku); err != nil || done.Left != 3 {
			t.Errorf("retrying without units: %+v, %v", done, err)
		}
		// Two orders are removed, so that two units are back.
		removed := s.db.Where("id IN ?", first[:2]).Delete(&stock.Order{})
		if err := errors.Join(removed.Error, s.rdb.Del(t.Context(), s.stockKey(t)).Err()); err != nil {
			t.Fatal(err)
		}
		if done, err := service.RetryDead(t.Context(), s.sku); err != nil || done != (stock.Retried{SKU: s.sku, Requeued: 2, Left: 1}) {
			t.Errorf("retrying with two units: %+v, %v", done, err)
		}
		wantStock(t, s.settled(t, service), 4, 0, 4, 4)
	})
}

// What a buyer was refused in one sale is not bought in the next one, whatever kind of dead
// letter it is.
func TestARetryLeavesTheOrdersOfAnEarlierSale(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		service := s.instance(t, nil)
		s.put(t, service, 10)
		_, order, remove := s.buyDead(t, service, "")
		state, err := service.OrderState(t.Context(), s.sku, order.ID)
		if err != nil || state.State != stock.StateAccepted || !strings.Contains(state.Reason, "waits for a retry") || strings.Contains(state.Reason, errPoison.Error()) {
			t.Errorf("a failed order is %+v, %v", state, err)
		}
		remove()
		s.put(t, service, 10)
		if done, err := service.RetryDead(t.Context(), s.sku); err != nil || done != (stock.Retried{SKU: s.sku, Left: 1, Over: 1}) {
			t.Errorf("retrying: %+v, %v", done, err)
		}
		a := s.settled(t, service)
		wantStock(t, a, 10, 10, 0, 0)
		if a.DurableP99 != 0 {
			t.Errorf("orders of the new sale took %v ms, and there are none", a.DurableP99)
		}
		state, err = service.OrderState(t.Context(), s.sku, order.ID)
		if err != nil || !errors.Is(state.Err(), stock.ErrNotAccepted) {
			t.Errorf("the order of the earlier sale is %+v, %v", state, err)
		}
	})
}

// An order that becomes a dead letter, or goes back to the stream, while somebody looks for it is
// found all the same.
func TestAnOrderIsFoundWhileItIsMoved(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		service := s.instance(t, nil)
		s.put(t, service, 2)
		remove := poison(t, s, 1)
		id := accept(t, s, service, 1)[0]
		hook := new(locktest.Hook)
		s.rdb.AddHook(hook)
		// between calls f after the place of the order was read, and before the order is.
		between := func(f func()) *locktest.Rule {
			return hook.On(locktest.Command("hget"), 1, func(_ context.Context, send func() error) error {
				err := send()
				f()
				return err
			})
		}
		buried := between(func() {
			stop := consume(t, service, stock.Consumer{Tries: 1})
			defer stop()
			for letters := 0; letters == 0; pause() {
				found, err := service.DeadLetters(t.Context(), s.sku)
				if err != nil {
					t.Error(err)
					return
				}
				letters = len(found)
			}
		})
		s.wantState(t, service, id, stock.StateAccepted)
		requeued := between(func() {
			if done, err := service.RetryDead(t.Context(), s.sku); err != nil || done.Requeued != 1 {
				t.Errorf("retrying: %+v, %v", done, err)
			}
		})
		s.wantState(t, service, id, stock.StateAccepted)
		if buried.Hits() != 1 || requeued.Hits() != 1 {
			t.Errorf("the order was moved %d and %d times, want once each", buried.Hits(), requeued.Hits())
		}
		remove()
		consume(t, service, stock.Consumer{})
		s.until(t, service, "the order is written", func(a stock.Audit) bool { return a.Orders == 1 })
		s.wantState(t, service, id, stock.StateWritten)
	})
}

// An entry that is not an order stops nobody.
func TestAMalformedEntryIsADeadLetter(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		service := s.instance(t, nil)
		s.put(t, service, 5)
		accept(t, s, service, 1)
		if err := s.rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: "oversell:{" + s.sku + "}:stream", Values: []string{"id", "x"}}).Err(); err != nil {
			t.Fatal(err)
		}
		accept(t, s, service, 1)
		consume(t, service, stock.Consumer{})
		s.streamEmpties(t)
		wantStock(t, s.settled(t, service), 5, 3, 2, 2)
		letters, err := service.DeadLetters(t.Context(), s.sku)
		if err != nil || len(letters) != 1 || letters[0].Kind != "refused" {
			t.Errorf("the dead letters are %+v, %v", letters, err)
		}
	})
}

func TestStreamsOnACluster(t *testing.T) {
	rdb := backendtest.DialRedis(t, backendtest.Cluster(t))
	s := newSite(t, rdb, backendtest.DialDatabase(t, backendtest.Database(t, "embedded")))
	service := s.instance(t, nil)
	for range 3 {
		s.sku = newSKU()
		s.put(t, service, 30)
		if sold, soldOut, _ := rush(t, s, 50, streamed, service); sold != 30 || soldOut != 20 {
			t.Errorf("%d accepted and %d turned away, want 30 and 20", sold, soldOut)
		}
		stop := consume(t, service, stock.Consumer{})
		wantStock(t, s.settled(t, service), 30, 0, 30, 30)
		stop()
	}
}

// A deleted item leaves nothing, and its orders are not written.
func TestADeletedItemHasNoStream(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		service := s.instance(t, nil)
		s.put(t, service, 5)
		id := accept(t, s, service, 2)[0]
		if err := service.Delete(t.Context(), s.sku); err != nil {
			t.Fatal(err)
		}
		// A consumer that was told of the orders before finds nothing, and leaves nothing.
		consume(t, service, stock.Consumer{Finish: t.Context()})()
		if left := s.keysLeft(t); len(left) > 0 {
			t.Errorf("these keys are left: %v", left)
		}
		if _, err := service.OrderState(t.Context(), s.sku, id); !errors.Is(err, stock.ErrUnknownOrder) {
			t.Errorf("got %v, want %v", err, stock.ErrUnknownOrder)
		}
	})
}

// keysLeft returns the item's keys.
func (s *site) keysLeft(t *testing.T) []string {
	t.Helper()
	left, err := s.rdb.Keys(t.Context(), "oversell:{"+s.sku+"}:*").Result()
	if err != nil {
		t.Fatal(err)
	}
	return left
}

// countingHandler counts the lines of a log by their message, and those that were not written.
type countingHandler struct {
	slog.Handler
	mu      sync.Mutex
	lines   map[string]int
	skipped map[string]int64
}

func (h *countingHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h *countingHandler) Handle(_ context.Context, r slog.Record) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines[r.Message]++
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "not_logged_before" {
			h.skipped[r.Message] += a.Value.Int64()
		}
		return true
	})
	return nil
}

// count returns how many lines with a message there are, written or not.
func (h *countingHandler) count(message string) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return int64(h.lines[message]) + h.skipped[message]
}

// While the database is away, a consumer that looks for orders every few milliseconds asks less
// and less often and writes one line a second. When the database is back, orders are written
// within about a second.
func TestAConsumerBacksOffWhileTheDatabaseIsAway(t *testing.T) {
	s := embeddedSite(t)
	log := &countingHandler{lines: make(map[string]int), skipped: make(map[string]int64)}
	var away atomic.Bool
	var asked atomic.Int64
	s.onReads(func(tx *gorm.DB) {
		if _, lists := tx.Statement.Dest.(*[]string); lists && away.Load() {
			asked.Add(1)
			_ = tx.AddError(errors.New("the database is away"))
		}
	})
	seller := s.instance(t, nil)
	s.put(t, seller, 10)
	accept(t, s, seller, 1)
	away.Store(true)
	other := s.instance(t, func(cfg *stock.Config) { cfg.Logger = slog.New(log) })
	consume(t, other, stock.Consumer{Poll: time.Millisecond})
	time.Sleep(2500 * time.Millisecond)
	if n := asked.Load(); n < 3 || n > 15 {
		t.Errorf("the database was asked %d times in 2.5 s", n)
	}
	log.mu.Lock()
	const line = "looking for accepted orders failed"
	if n, skipped := log.lines[line], log.skipped[line]; n < 2 || n > 3 || skipped == 0 {
		t.Errorf("%d lines, which say that %d others were left out", n, skipped)
	}
	log.mu.Unlock()
	back := time.Now()
	away.Store(false)
	s.settled(t, seller)
	if took := time.Since(back); took > 3*time.Second {
		t.Errorf("the order was written %v after the database was back", took)
	}
}
