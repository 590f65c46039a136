package stock_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"
	"gorm.io/gorm"

	"oversell/internal/locks/locktest"
	"oversell/internal/stock"
	"oversell/internal/stock/stream"
)

const streamed = "lua_stream"

// claimAfter is short, so that a dead consumer's orders are soon claimed by another.
const claimAfter = 50 * time.Millisecond

// consume runs a consumer until the test ends or stop is called.
func consume(t *testing.T, service *stock.Service, c stream.Consumer) (stop func()) {
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
		res := s.buy(t, service, streamed)
		if res.State != stock.StateAccepted {
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

// until waits until an audit meets the condition.
func (s *site) until(t *testing.T, service *stock.Service, what string, wanted func(stock.Audit) bool) stock.Audit {
	t.Helper()
	var a stock.Audit
	eventually(t, what, func() (bool, any) {
		a = s.audit(t, service)
		return wanted(a), a
	})
	return a
}

// wantWritten fails unless exactly these orders are written.
func (s *site) wantWritten(t *testing.T, service *stock.Service, ids []string) {
	t.Helper()
	page, err := service.Orders(t.Context(), s.sku, "", stock.MaxOrders)
	must(t, err)
	var written []string
	for _, o := range page.Orders {
		written = append(written, o.ID)
	}
	want := slices.Sorted(slices.Values(ids))
	if !slices.Equal(written, want) {
		t.Errorf("%d orders are written and %d were accepted:\n%v\n%v", len(written), len(want), written, want)
	}
}

// wantState fails unless the orders have this state.
func (s *site) wantState(t *testing.T, service *stock.Service, want string, ids ...string) {
	t.Helper()
	for _, id := range ids {
		for _, sku := range []string{s.sku, ""} {
			if state, err := service.OrderState(t.Context(), sku, id); err != nil || state.State != want {
				t.Errorf("order %s is %s (%s), %v; want %s", id, state.State, state.Reason, err, want)
			}
		}
	}
}

// A crowd buys at two instances. Orders are accepted until the units run out, and every accepted
// order is written exactly once.
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
		consume(t, a, stream.Consumer{})
		consume(t, b, stream.Consumer{})
		after := s.settled(t, b)
		wantStock(t, after, 300, 0, 300, 300)
		if after.DurableP99 <= 0 {
			t.Errorf("99 of 100 orders were written within %v ms", after.DurableP99)
		}
	})
}

func TestAnOrderTellsItsState(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		service := s.sale(t, 10)
		id := accept(t, s, service, 1)[0]
		s.wantState(t, service, stock.StateAccepted, id)
		if state, err := service.AwaitOrder(t.Context(), s.sku, id, time.Millisecond); err != nil ||
			state.State != stock.StateAccepted {
			t.Errorf("without a consumer the wait ends with %s, %v", state.State, err)
		}
		consume(t, service, stream.Consumer{})
		if state, err := service.AwaitOrder(t.Context(), s.sku, id, time.Minute); err != nil ||
			state.State != stock.StateWritten || state.ID != id {
			t.Errorf("got %+v, %v; want it written", state, err)
		}
		s.wantState(t, service, stock.StateWritten, id)
		if _, err := service.OrderState(t.Context(), "", "018f0000-0000-7000-8000-000000000000"); !errors.Is(err,
			stock.ErrUnknownOrder) {
			t.Errorf("an order that nobody made: %v, want %v", err, stock.ErrUnknownOrder)
		}
		if _, err := service.OrderState(t.Context(), "", "no order"); !errors.Is(err, stock.ErrInvalid) {
			t.Errorf("no id: %v, want %v", err, stock.ErrInvalid)
		}
	})
}

// A repeated request with a key gets its order, and other requests with the key are refused. This
// holds while the order is in the stream and after it was written, with any strategy.
func TestKeysOfAcceptedOrdersBelongToOneRequest(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		a, b := s.instance(t, nil), s.instance(t, nil)
		s.put(t, a, 10)
		wantOneOrder(t, sameKey(t, s, 6, streamed, "click", a, b))
		s.put(t, a, 1)
		r := s.request(streamed, "click")
		r.Buyer = "ann"
		first, err := a.Deduct(t.Context(), r)
		must(t, err)
		wantKeyReused(t, b, r)
		switched := r
		switched.Strategy = "v6_watchdog"
		wantKeyReused(t, b, switched)
		again, err := b.Deduct(t.Context(), switched)
		if err != nil || again.State != stock.StateAccepted || again.Order.ID != first.Order.ID {
			t.Errorf("with another strategy: %+v, %v; want the accepted order %s", again, err, first.Order.ID)
		}
		stop := consume(t, a, stream.Consumer{})
		wantStock(t, s.settled(t, a), 1, 0, 1, 1)
		stop()
		wantKeyReused(t, b, r)
		wantKeyReused(t, b, switched)
		again, err = b.Deduct(t.Context(), r)
		if err != nil || !again.Replayed || again.State == stock.StateAccepted || again.Order.ID != first.Order.ID {
			t.Errorf("written: %+v, %v; want order %s", again, err, first.Order.ID)
		}
		s.put(t, a, 10)
		bound(t, s, streamed, a, b)
	})
}

// endsAt returns a consumer that stops writing an item's orders when it reaches the seam. The channel
// is closed when that first happens.
func endsAt(seam string) (stream.Consumer, <-chan struct{}) {
	died := make(chan struct{})
	var once sync.Once
	return stream.Consumer{Seam: func(now string) error {
		if now != seam {
			return nil
		}
		once.Do(func() { close(died) })
		return stream.ErrEnded
	}}, died
}

// Another consumer claims the orders that a dead consumer has read, and recognizes those that are
// already written.
func TestDeadConsumersLoseNothing(t *testing.T) {
	for _, seam := range []string{stream.SeamRead, stream.SeamWritten} {
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
				consume(t, other, stream.Consumer{})
				wantStock(t, s.settled(t, other), 100, 60, 40, 40)
				s.wantWritten(t, other, ids)
				if n, err := s.rdb.XLen(t.Context(), "oversell:{"+s.sku+"}:stream").Result(); err != nil || n > 40 {
					t.Errorf("%d entries, %v", n, err)
				}
			})
		})
	}
}

var errPoison = &mysql.MySQLError{Number: 30001, SQLState: [5]byte([]byte("45000")),
	Message: "the database dislikes this order: " + strings.Repeat("界", 100)}

// poison makes the database refuse orders of this many units.
func poison(t *testing.T, s *site, quantity int64) (remove func()) {
	return s.beforeOrders(func(tx *gorm.DB) {
		if slices.Contains(ordersIn(tx), quantity) {
			_ = tx.AddError(errPoison)
		}
	})
}

// buyPoison buys three units in an order that the database refuses until remove is called.
func (s *site) buyPoison(
	t *testing.T, service *stock.Service, key string,
) (bad stock.Request, order stock.Order, remove func()) {
	t.Helper()
	remove = poison(t, s, 3)
	bad = s.request(streamed, key)
	bad.Quantity = 3
	res, err := service.Deduct(t.Context(), bad)
	must(t, err)
	return bad, res.Order, remove
}

// An order that the database refuses becomes a dead letter after some tries. It does not block other
// orders, and keeps its units until it is retried.
func TestDeadLettersAreListedAndRetried(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		service := s.sale(t, 20)
		bad, order, remove := s.buyPoison(t, service, "bad")
		ids := accept(t, s, service, 4)
		consume(t, service, stream.Consumer{Tries: 2})
		s.until(t, service, "the other orders are written", func(a stock.Audit) bool { return a.Orders == 4 })
		letters := s.deadLetters(t, service, 1)
		if l := letters[0]; l.Entry.ID != order.ID || l.Kind != "failed" || l.Reason == "" ||
			l.Refusals != 2 || l.Deliveries < 2 || l.KeyHash != stock.KeyHash("bad") {
			t.Errorf("the dead letters are %+v", letters)
		}
		l := letters[0]
		if begin := "the database dislikes this order: 界"; !strings.Contains(l.Error, begin) ||
			!utf8.ValidString(l.Error) || strings.Contains(l.Reason, begin) {
			t.Errorf("the reason is %q, and the error %q", l.Reason, l.Error)
		}
		s.wantState(t, service, stock.StateAccepted, order.ID)
		if state, err := service.OrderState(t.Context(), s.sku, l.Entry.ID); err != nil ||
			state.Reason != "the database did not take the order, and it waits for a retry of the dead letters" {
			t.Errorf("anybody is told the reason %q, %v", state.Reason, err)
		}
		a := s.audit(t, service)
		if a.InFlight != 3 || a.LostUpdates != 0 {
			t.Errorf("with a dead letter of 3 units: %+v", a)
		}
		if !l.HasUnits {
			t.Error("the dead letter is said to have no units")
		}
		if again, err := service.Deduct(t.Context(), bad); err != nil || again.Order.ID != order.ID {
			t.Errorf("its key finds %+v, %v", again, err)
		}
		remove()
		s.wantRetried(t, service, stock.Retried{Requeued: 1})
		wantStock(t, s.settled(t, service), 20, 13, 7, 5)
		s.wantWritten(t, service, append(ids, order.ID))
	})
}

// A retry reports only what became of the dead letters that it found. It does not report letters that
// another retry has taken, and ends when the stock is counted meanwhile.
func TestDeadLettersThatChangeDuringARetry(t *testing.T) {
	eachCase(t, map[string]struct {
		meanwhile func(t *testing.T, s *site, other *stock.Service)
		want      error
	}{
		"another retry": {func(t *testing.T, s *site, other *stock.Service) {
			s.wantRetried(t, other, stock.Retried{Requeued: 1})
		}, nil},
		"a count": {func(t *testing.T, s *site, other *stock.Service) {
			s.mustRestock(t, other, "", 1)
		}, stock.ErrBusy},
	}, func(t *testing.T, s *site, c struct {
		meanwhile func(t *testing.T, s *site, other *stock.Service)
		want      error
	}) {
		service := s.sale(t, 10)
		_, _, remove := s.buyPoison(t, service, "")
		stop := consume(t, service, stream.Consumer{Tries: 1})
		s.deadLetters(t, service, 1)
		stop()
		remove()
		meanwhile := sync.OnceFunc(func() { c.meanwhile(t, s, service) })
		s.failOnce(func(_ context.Context, send func() error) error {
			meanwhile()
			return send()
		}, "evalsha", "eval")
		done, err := s.instance(t, nil).RetryDead(t.Context(), s.sku)
		if !errors.Is(err, c.want) || done != (stock.Retried{SKU: s.sku}) {
			t.Errorf("got %+v, %v; want nothing, and %v", done, err, c.want)
		}
		if c.want != nil {
			s.wantRetried(t, service, stock.Retried{Requeued: 1})
		}
	})
}

// wantRetried retries the item's dead letters, and compares the outcome.
func (s *site) wantRetried(t *testing.T, service *stock.Service, want stock.Retried) {
	t.Helper()
	want.SKU = s.sku
	if done, err := service.RetryDead(t.Context(), s.sku); err != nil || done != want {
		t.Errorf("retrying the dead letters: %+v, %v; want %+v", done, err, want)
	}
}

// deadLetters waits until the item has this many dead letters.
func (s *site) deadLetters(t *testing.T, service *stock.Service, n int) []stream.DeadLetter {
	t.Helper()
	var letters []stream.DeadLetter
	eventually(t, "there are the dead letters", func() (bool, any) {
		var err error
		letters, err = service.DeadLetters(t.Context(), s.sku)
		return err == nil && len(letters) == n, err
	})
	return letters
}

// databaseFaults returns errors whose cause is not the values of an order. The database is read-only,
// is full, has too many connections, lacks a table, column, default or permission, breaks the
// connection, is away, or is a cluster node that is not ready.
func databaseFaults() (all []error) {
	for _, number := range []uint16{1021, 1030, 1040, 1044, 1045, 1047, 1053, 1054, 1114, 1142, 1146, 1180, 1203,
		1226, 1290, 1317, 1364, 1526, 1792, 1836, 1927, 1969, 3024} {
		all = append(all, &mysql.MySQLError{Number: number, SQLState: [5]byte([]byte("42000"))})
	}
	return append(all, mysql.ErrInvalidConn, errors.New("an error that nobody knows"))
}

// refusing makes every statement fail that writes orders of these items, with one error per item, and
// counts the orders.
type refusing struct {
	by  map[string]error // the error of each SKU
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

// If the database refuses orders for a reason other than their values, none becomes a dead letter,
// whether a statement has one order or several.
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
		consume(t, service, stream.Consumer{Tries: 1})
		eventually(t, "each order is tried again", func() (bool, any) { return f.each(2), nil })
		remove()
		for sku, ids := range accepted {
			s.sku = sku
			s.settled(t, service)
			s.wantWritten(t, service, ids)
			s.deadLetters(t, service, 0)
		}
	})
}

// When the stream is full, buyers are refused, and no units are taken.
func TestAFullStreamRefusesBuyers(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		service := s.instance(t, withStream(stock.Stream{Backlog: 5}))
		s.put(t, service, 20)
		ids := accept(t, s, service, 5)
		wantRefused(t, service, s.request(streamed, ""), stock.ErrBacklog)
		consume(t, service, stream.Consumer{})
		wantStock(t, s.settled(t, service), 20, 15, 5, 5)
		s.streamEmpties(t) // a consumer removes orders only after it has written them
		ids = append(ids, accept(t, s, service, 1)...)
		wantStock(t, s.settled(t, service), 20, 14, 6, 6)
		s.wantWritten(t, service, ids)
	})
}

// Before a new sale, a count or another family's turn begins, the accepted orders are written, even
// if no consumer runs and there are so many that it takes long. A consumer that starts later finds
// them written.
func TestAcceptedOrdersAreWrittenBeforeACount(t *testing.T) {
	eachCase(t, map[string]func(t *testing.T, s *site, service *stock.Service){
		"sale": func(t *testing.T, s *site, service *stock.Service) {
			defer s.beforeOrders(func(tx *gorm.DB) {
				if ends, ok := tx.Statement.Context.Deadline(); ok && time.Until(ends) < 10*time.Second {
					t.Errorf("the orders must be written within %v", time.Until(ends))
				}
			})()
			s.put(t, service, 7)
		},
		"family": func(t *testing.T, s *site, service *stock.Service) { rush(t, s, 1, "lua_batch", service) },
		"count": func(t *testing.T, s *site, service *stock.Service) {
			must(t, losses["the sale"](t, s))
			s.audit(t, service)
		},
	}, func(t *testing.T, s *site, change func(*testing.T, *site, *stock.Service)) {
		service := s.sale(t, 10)
		ids := accept(t, s, service, 4)
		change(t, s, service)
		s.wantState(t, service, stock.StateWritten, ids...)
		consume(t, service, stream.Consumer{})
		more := accept(t, s, service, 2)
		a := s.settled(t, service)
		if a.LostUpdates != 0 || a.AcceptedLost != 0 {
			t.Errorf("the audit finds %+v", a)
		}
		s.wantState(t, service, stock.StateWritten, append(ids, more...)...)
		s.streamEmpties(t)
	})
}

// streamEmpties waits until the stream has no entries.
func (s *site) streamEmpties(t *testing.T) {
	t.Helper()
	eventually(t, "the stream is empty", func() (bool, any) {
		n, err := s.rdb.XLen(t.Context(), "oversell:{"+s.sku+"}:stream").Result()
		return err == nil && n == 0, n
	})
}

// A consumer that was paused after reading orders may try to write them after the stock was counted.
// Each of these orders is either written by the count or refused, never both.
func TestALateConsumerWritesNothingTwice(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		service, other := s.instance(t, nil), s.instance(t, nil)
		s.put(t, service, 10)
		ids := accept(t, s, service, 4)
		read, resume := make(chan struct{}), make(chan struct{})
		var once sync.Once
		consume(t, service, stream.Consumer{ClaimAfter: time.Minute, Seam: func(seam string) error {
			if seam == stream.SeamRead {
				once.Do(func() {
					close(read)
					<-resume
				})
			}
			return nil
		}})
		<-read
		must(t, s.rdb.Del(t.Context(), s.stockKey(t)).Err())
		if sold, soldOut, _ := rush(t, s, 9, streamed, other); sold != 6 || soldOut != 3 {
			t.Errorf("%d accepted and %d turned away, want 6 and 3", sold, soldOut)
		}
		close(resume)
		wantStock(t, s.settled(t, service), 10, 0, 10, 10)
		s.wantState(t, service, stock.StateWritten, ids...)
	})
}

// If the reply of the accepting script is lost, it is unknown whether the orders were accepted. The
// count of the stock decides: it writes the orders, or puts their units back on sale.
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
				service := s.sale(t, 10)
				accept(t, s, service, 1)
				s.failOnce(tt.action, "evalsha", "eval")
				res, err := service.Deduct(t.Context(), s.request(streamed, ""))
				if tt.sold == 1 && (err != nil || res.State == stock.StateAccepted) ||
					tt.sold == 0 && !errors.Is(err, locktest.ErrCut) {
					t.Errorf("state %q, %v", res.State, err)
				}
				consume(t, service, stream.Consumer{})
				wantStock(t, s.settled(t, service), 10, 9-tt.sold, 1+tt.sold, 1+tt.sold)
			})
		})
	}
}

// Redis restarts with older data: accepted orders are lost, and the stock includes units that are
// already sold. Nothing is oversold, and the lost orders get the state "not accepted".
func TestOrdersThatRedisLostAreNotAccepted(t *testing.T) {
	s := newRestartable(t)
	service := s.process(t, nil)
	s.put(t, service, 10)
	stop := consume(t, service, stream.Consumer{})
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
	consume(t, service, stream.Consumer{})
	wantStock(t, s.settled(t, service), 10, 0, 10, 10)
	s.wantState(t, service, stock.StateWritten, kept...)
	// The count may include refused orders that the crowd placed on the older stock.
	s.until(t, service, "the lost orders are counted",
		func(a stock.Audit) bool { return a.AcceptedLost >= int64(len(lost)) })
	s.wantState(t, service, stock.StateNotAccepted, lost...)
}

// If Redis loses only the stream, it still has the idempotency keys of the lost orders. A buyer who
// repeats a request with such a key learns that the order is lost, and can then buy again. This works
// even if the process that accepted the orders is dead.
func TestKeysOfALostStreamAreFreeAgain(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		dead, service := s.instance(t, nil), s.instance(t, nil)
		s.put(t, dead, 10)
		var lost []string
		for _, key := range []string{"one", "two"} {
			res, err := dead.Deduct(t.Context(), s.request(streamed, key))
			must(t, err)
			lost = append(lost, res.Order.ID)
		}
		dead.Close()
		must(t, s.rdb.Del(t.Context(), "oversell:{"+s.sku+"}:stream").Err())
		if res, err := service.Deduct(t.Context(), s.request(streamed, "one")); !errors.Is(err, stock.ErrNotAccepted) {
			t.Errorf("after the loss: %+v, %v; want %v", res, err, stock.ErrNotAccepted)
		}
		for _, key := range []string{"one", "two"} {
			res, err := service.Deduct(t.Context(), s.request(streamed, key))
			if err != nil || res.State != stock.StateAccepted || res.Replayed {
				t.Errorf("once the stock is counted: %+v, %v; want a new order", res, err)
			}
		}
		s.wantState(t, service, stock.StateNotAccepted, lost...)
		consume(t, service, stream.Consumer{})
		a := s.settled(t, service)
		wantStock(t, a, 10, 8, 2, 2)
		if a.AcceptedLost != 2 {
			t.Errorf("%d accepted orders are lost, want 2", a.AcceptedLost)
		}
	})
}

// A buyer waits until the item is sold out. When the buyer then looks for an order with the same key,
// there is one that Redis has lost, and the next sale has begun: the buyer buys in that sale.
func TestBuyerOfALostOrderGoesOnInTheNextSale(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		service := s.instance(t, withTurn(time.Hour))
		item := s.put(t, service, 2)
		accept(t, s, service, 1)
		var looked, soldOut atomic.Bool
		defer s.onReads(func(tx *gorm.DB) {
			if _, ok := tx.Statement.Dest.(*stock.Order); !ok || counts(tx) {
				return
			}
			if looked.Store(true); soldOut.CompareAndSwap(true, false) {
				keys := "oversell:{" + s.sku + "}:stream:keys:" + item.SaleID
				must(t, s.rdb.HSet(t.Context(), keys, "click", "lost").Err())
				s.put(t, service, 10)
			}
		})()
		buyer := order(t.Context(), service, s.request("v6_watchdog", "click"))
		eventually(t, "the buyer has looked", func() (bool, any) { return looked.Load(), nil })
		pause()
		soldOut.Store(true)
		accept(t, s, service, 1)
		if o := <-buyer; o.err != nil || o.res.Order.SaleID == item.SaleID {
			t.Errorf("got %+v, %v; want a unit of the next sale", o.res.Order, o.err)
		}
	})
}

// If Redis loses all its data, the processes that confirmed orders to buyers still count those that
// are lost. The count of lost orders survives the next loss, and a change of family.
func TestProcessesCountWhatAnEmptyRedisLost(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		a, b := s.instance(t, nil), s.instance(t, nil)
		s.put(t, a, 20)
		var lost []string
		for _, service := range []*stock.Service{a, b} {
			lost = append(lost, accept(t, s, service, 3)...)
			must(t, s.rdb.Del(t.Context(), s.keysLeft(t)...).Err())
			s.until(t, service, "the lost orders are counted",
				func(a stock.Audit) bool { return a.AcceptedLost == int64(len(lost)) })
		}
		s.wantState(t, a, stock.StateNotAccepted, lost...)
		rush(t, s, 1, "lua_batch", b)
		if audit := s.audit(t, b); audit.AcceptedLost != 6 || audit.Remaining != 19 {
			t.Errorf("after another family has sold: %+v, want 6 lost and 19 left", audit)
		}
	})
}

// When a generation ends, none of its data stays in Redis: neither written orders that no consumer
// looks for, nor the recorded positions of orders that were trimmed from the stream.
func TestAnEndedGenerationLeavesNoOrdersInRedis(t *testing.T) {
	stream := func(s *site) string { return "oversell:{" + s.sku + "}:stream" }
	eachCase(t, map[string]func(t *testing.T, s *site, service *stock.Service){
		"another family": func(t *testing.T, s *site, service *stock.Service) { rush(t, s, 1, "lua_batch", service) },
		"trimmed": func(t *testing.T, s *site, service *stock.Service) {
			must(t, s.rdb.XTrimMaxLen(t.Context(), stream(s), 0).Err())
			s.repair(t, service)
		},
	}, func(t *testing.T, s *site, end func(*testing.T, *site, *stock.Service)) {
		service := s.instance(t, soon)
		s.put(t, service, 10)
		accept(t, s, service, 3)
		end(t, s, service)
		s.streamEmpties(t)
		eventually(t, "no places of orders are left", func() (bool, any) {
			n := s.rdb.HLen(t.Context(), stream(s)+":orders").Val()
			return n == 0, n
		})
	})
}

// Orders that were accepted from an older stock before a process noticed are refused, because the
// item's row has no units for them. They can be retried when units are back.
func TestTheRowRefusesWhatAnOlderStockSold(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		service := s.sale(t, 4)
		stop := consume(t, service, stream.Consumer{})
		first := accept(t, s, service, 4)
		wantStock(t, s.settled(t, service), 4, 0, 4, 4)
		stop()
		must(t, s.rdb.Set(t.Context(), s.stockKey(t), 4, redis.KeepTTL).Err())
		ids := accept(t, s, service, 3)
		consume(t, service, stream.Consumer{})
		a := s.until(t, service, "the orders are refused",
			func(a stock.Audit) bool { return a.AcceptedLost == 3 && a.Remaining == 0 })
		wantStock(t, a, 4, 0, 4, 4)
		s.wantState(t, service, stock.StateNotAccepted, ids...)
		s.wantRetried(t, service, stock.Retried{Left: 3})
		// Two orders are removed, so that two units are back.
		removed := s.db.Where("id IN ?", first[:2]).Delete(&stock.Order{})
		must(t, errors.Join(removed.Error, s.rdb.Del(t.Context(), s.stockKey(t)).Err()))
		s.wantRetried(t, service, stock.Retried{Requeued: 2, Left: 1})
		wantStock(t, s.settled(t, service), 4, 0, 4, 4)
	})
}

// An entry that is not an order becomes a dead letter, and does not block other entries.
func TestAMalformedEntryIsADeadLetter(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		service := s.sale(t, 5)
		accept(t, s, service, 1)
		must(t, s.rdb.XAdd(t.Context(),
			&redis.XAddArgs{Stream: "oversell:{" + s.sku + "}:stream", Values: []string{"id", "x"}}).Err())
		accept(t, s, service, 1)
		consume(t, service, stream.Consumer{})
		s.streamEmpties(t)
		wantStock(t, s.settled(t, service), 5, 3, 2, 2)
		if letters := s.deadLetters(t, service, 1); letters[0].Kind != "refused" {
			t.Errorf("the dead letters are %+v", letters)
		}
	})
}

// A deleted item leaves no keys in Redis, and its accepted orders are not written.
func TestADeletedItemHasNoStream(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		service := s.sale(t, 5)
		id := accept(t, s, service, 2)[0]
		must(t, service.Delete(t.Context(), s.sku))
		// A consumer that was notified before the deletion finds no orders, and creates no keys.
		consume(t, service, stream.Consumer{Finish: t.Context()})()
		if left := s.keysLeft(t); len(left) > 0 {
			t.Errorf("these keys are left: %v", left)
		}
		if _, err := service.OrderState(t.Context(), s.sku, id); !errors.Is(err, stock.ErrUnknownOrder) {
			t.Errorf("got %v, want %v", err, stock.ErrUnknownOrder)
		}
	})
}

// keysLeft returns the keys in Redis that belong to the item.
func (s *site) keysLeft(t *testing.T) []string {
	t.Helper()
	left, err := s.rdb.Keys(t.Context(), "oversell:{"+s.sku+"}:*").Result()
	must(t, err)
	return left
}
