package stock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"gorm.io/gorm"

	"oversell/internal/backend/backendtest"
	"oversell/internal/catalog"
	"oversell/internal/locks/locktest"
	"oversell/internal/stock"
	"oversell/internal/stock/stream"
)

// failOnce applies the action to the first of these commands that is sent, and to its whole pipeline.
func (s *site) failOnce(action locktest.Action, commands ...string) {
	hook := new(locktest.Hook)
	s.rdb.AddHook(hook)
	hook.On(locktest.Command(commands...), 1, action)
}

// scripts returns the names of the strategies that sell with a script.
func scripts() []string {
	var names []string
	for _, s := range strategies() {
		if s.Kind == catalog.Atomic || s.Kind == catalog.Batched {
			names = append(names, s.Name)
		}
	}
	return names
}

// eachScript runs f for each of these strategies, with a site of its own.
func eachScript(t *testing.T, f func(t *testing.T, s *site, strategy string)) {
	for _, strategy := range scripts() {
		t.Run(strategy, func(t *testing.T) {
			eachSite(t, func(t *testing.T, s *site) { f(t, s, strategy) })
		})
	}
}

// parkFirstOrder stops the first order after its units are taken and before it is written, and then
// closes parked. The order continues when resume is called.
func (s *site) parkFirstOrder(t *testing.T) (parked <-chan struct{}, resume func()) {
	t.Helper()
	here, released := make(chan struct{}), make(chan struct{})
	var came atomic.Bool
	s.beforeOrders(func(*gorm.DB) {
		if came.CompareAndSwap(false, true) {
			close(here)
			<-released
		}
	})
	resume = sync.OnceFunc(func() { close(released) })
	t.Cleanup(resume)
	return here, resume
}

// outcome is the result of a deduct.
type outcome struct {
	res stock.Result
	err error
}

// order begins a deduct and returns a channel for its outcome.
func order(ctx context.Context, service *stock.Service, req stock.Request) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		res, err := service.Deduct(ctx, req)
		done <- outcome{res, err}
	}()
	return done
}

// pause gives a goroutine that was just started time to reach the point where it waits. If that is
// not enough, the test checks less, but does not fail.
func pause() { time.Sleep(20 * time.Millisecond) }

// A process that crashes after the script and before it writes the order leaves a unit taken. If the
// process was only paused, it writes the order later, and the unit is there for it.
func TestCrashAfterTheScriptLeavesStockTaken(t *testing.T) {
	eachScript(t, func(t *testing.T, s *site, strategy string) {
		dying, other := s.instance(t, nil), s.instance(t, nil)
		s.put(t, other, 10)
		parked, resume := s.parkFirstOrder(t)
		done := order(t.Context(), dying, s.request(strategy, ""))
		<-parked
		if sold, soldOut, _ := rush(t, s, 15, strategy, other); sold != 9 || soldOut != 6 {
			t.Errorf("the other sold %d and turned %d away, want 9 and 6", sold, soldOut)
		}
		a := s.audit(t, other)
		wantStock(t, a, 10, 0, 9, 9)
		if a.LostUpdates != -1 {
			t.Errorf("%d lost updates, want -1: a unit taken with no order", a.LostUpdates)
		}
		resume()
		if o := <-done; o.err != nil {
			t.Errorf("the paused buyer got %v", o.err)
		}
		wantStock(t, s.audit(t, other), 10, 0, 10, 10)
	})
}

// If the reply of the script is lost, it is unknown whether the units were taken, so the stock is
// rebuilt.
func TestReplyOfTheScriptIsLost(t *testing.T) {
	for name, action := range map[string]locktest.Action{
		"before": locktest.Fail(locktest.ErrCut),
		"after":  locktest.LoseReply(locktest.ErrCut),
	} {
		t.Run(name, func(t *testing.T) {
			eachScript(t, func(t *testing.T, s *site, strategy string) {
				service := s.sale(t, 10)
				s.failOnce(action, "evalsha", "eval")
				wantRefused(t, service, s.request(strategy, ""), locktest.ErrCut)
				wantStock(t, s.audit(t, service), 10, 10, 0, 0)
				sold, soldOut, _ := rush(t, s, 12, strategy, service)
				if sold != 10 || soldOut != 2 {
					t.Errorf("%d sold and %d refused afterwards, want 10 and 2", sold, soldOut)
				}
			})
		})
	}
}

func TestScriptsOnACluster(t *testing.T) {
	rdb := backendtest.DialRedis(t, backendtest.Redis(t, "local:cluster"))
	s := newSite(t, rdb, backendtest.DialDatabase(t, backendtest.Database(t, "embedded")))
	service := s.instance(t, nil)
	consume(t, service, stream.Consumer{})
	for _, strategy := range append(scripts(), streamed) {
		s.sku = newSKU()
		s.put(t, service, 30)
		if sold, soldOut, _ := rush(t, s, 50, strategy, service); sold != 30 || soldOut != 20 {
			t.Errorf("%s: %d sold and %d refused, want 30 and 20", strategy, sold, soldOut)
		}
		wantStock(t, s.settled(t, service), 30, 0, 30, 30)
		s.put(t, service, 30)
		wantOneOrder(t, sameKey(t, s, 10, strategy, "click", service))
		wantStock(t, s.settled(t, service), 30, 29, 1, 1)
	}
}

// refuse makes the database refuse every statement that includes an order for which bad returns true.
// The function largest returns the number of orders in the largest statement.
func (s *site) refuse(t *testing.T, bad func(quantity int64) bool) (largest func() int) {
	t.Helper()
	var most atomic.Int64
	s.beforeOrders(func(tx *gorm.DB) {
		orders := ordersIn(tx)
		most.Store(max(most.Load(), int64(len(orders))))
		if slices.ContainsFunc(orders, bad) {
			_ = tx.AddError(errBroken)
		}
	})
	return func() int { return int(most.Load()) }
}

func TestOneBadOrderDoesNotFailTheBatch(t *testing.T) {
	eachScript(t, func(t *testing.T, s *site, strategy string) {
		service := s.sale(t, 100)
		largest := s.refuse(t, func(quantity int64) bool { return quantity == 2 })
		parked, resume := s.parkFirstOrder(t)
		var done []<-chan outcome
		for i := range 30 {
			req := s.request(strategy, fmt.Sprint("key-", i))
			if i%10 == 5 {
				req.Quantity = 2
			}
			done = append(done, order(t.Context(), service, req))
		}
		<-parked
		pause()
		resume()
		for i, d := range done {
			o := <-d
			if bad := i%10 == 5; bad != errors.Is(o.err, errBroken) || !bad && o.err != nil {
				t.Errorf("buyer %d got %v", i, o.err)
			}
		}
		wantStock(t, s.audit(t, service), 100, 73, 27, 27)
		if n := largest(); n < 2 {
			t.Errorf("the largest statement had %d orders, want a batch", n)
		}
		// A refused order leaves no claim on its key behind.
		req := s.request(strategy, "key-5")
		if res, err := service.Deduct(t.Context(), req); err != nil || res.Replayed {
			t.Errorf("again with the key of a refused order: replayed %v, %v", res.Replayed, err)
		}
	})
}

// If another instance has just used the key without claiming it, the database's unique index detects
// that.
func TestKeyUsedByAnotherInstanceIsReplayed(t *testing.T) {
	eachScript(t, func(t *testing.T, s *site, strategy string) {
		var first stock.Result
		elsewhere := s.instance(t, withMixed)
		var once sync.Once
		service := s.instance(t, func(cfg *stock.Config) {
			cfg.Mixed, cfg.Work = true, func(ctx context.Context, _ string) (func(), error) {
				once.Do(func() { // after the key was looked up, and before units are taken
					var err error
					if first, err = elsewhere.Deduct(ctx, s.request("v4_lua", "click")); err != nil {
						t.Error(err)
					}
				})
				return nil, nil
			}
		})
		s.put(t, service, 10)
		res, err := service.Deduct(t.Context(), s.request(strategy, "click"))
		if err != nil || !res.Replayed || res.Order.ID != first.Order.ID {
			t.Errorf("answered with %+v, %v; want the order %s", res, err, first.Order.ID)
		}
		wantStock(t, s.audit(t, service), 10, 9, 1, 1)
	})
}

// A crashed process's claim on a key is respected for a while, and then ignored.
func TestClaimOfACrashedProcessIsIgnored(t *testing.T) {
	for _, strategy := range append(scripts(), streamed) {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			s := embeddedSite(t)
			service := s.instance(t, func(cfg *stock.Config) { cfg.Wait = 10 * time.Second })
			consume(t, service, stream.Consumer{})
			item := s.put(t, service, 10)
			period := time.Now().Unix() / 10
			for _, p := range []int64{period, period + 1} { // the next period may begin before the request
				at := fmt.Sprintf("oversell:{%s}:claims:%s:%d", s.sku, item.SaleID, p)
				must(t, s.rdb.HSet(t.Context(), at, "click", "").Err())
			}
			start := time.Now()
			if _, err := service.Deduct(t.Context(), s.request(strategy, "click")); err != nil {
				t.Error(err)
			}
			if took := time.Since(start); took < time.Second {
				t.Errorf("the claim was respected for %v", took)
			}
			wantStock(t, s.settled(t, service), 10, 9, 1, 1)
		})
	}
}

func TestSmallerRequestIsServedAfterOneThatIsTooLarge(t *testing.T) {
	eachScript(t, func(t *testing.T, s *site, strategy string) {
		service := s.sale(t, 6)
		parked, resume := s.parkFirstOrder(t)
		var done []<-chan outcome
		for i, quantity := range []int64{1, 4, 4, 1} {
			req := s.request(strategy, "")
			req.Quantity = quantity
			done = append(done, order(t.Context(), service, req))
			if i == 0 {
				<-parked
			}
			pause()
		}
		resume()
		for i, left := range []int64{5, 1, 1, 0} {
			o := <-done[i]
			if o.res.Left != left || errors.Is(o.err, stock.ErrSoldOut) != (i == 2) {
				t.Errorf("buyer %d: %d left, %v; want %d", i, o.res.Left, o.err, left)
			}
		}
		wantStock(t, s.audit(t, service), 6, 0, 6, 3)
	})
}

// A buyer who leaves before the batch begins, or who is waiting when the shop closes, buys nothing. A
// buyer whose units are already taken gets an order.
func TestBuyersWhoseUnitsAreTakenGetTheirOrder(t *testing.T) {
	for name, want := range map[string]error{"leave": context.Canceled, "close": stock.ErrClosing} {
		t.Run(name, func(t *testing.T) {
			eachScript(t, func(t *testing.T, s *site, strategy string) {
				service := s.sale(t, 10)
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				parked, resume := s.parkFirstOrder(t)
				served := order(ctx, service, s.request(strategy, ""))
				<-parked
				waiting := order(ctx, service, s.request(strategy, ""))
				pause()
				if name == "leave" {
					leave()
				} else {
					service.Close()
				}
				if o := <-waiting; !errors.Is(o.err, want) {
					t.Errorf("the waiter got %v, want %v", o.err, want)
				}
				resume()
				if o := <-served; o.err != nil || o.res.Order.ID == "" {
					t.Errorf("order %q, %v; want one", o.res.Order.ID, o.err)
				}
				if o := <-order(t.Context(), service, s.request(strategy, "")); name == "close" &&
					!errors.Is(o.err, want) || name == "leave" && o.err != nil {
					t.Errorf("a later buyer got %v", o.err)
				}
				sold := map[string]int64{"leave": 2, "close": 1}[name]
				wantStock(t, s.audit(t, service), 10, 10-sold, sold, sold)
			})
		})
	}
}

// An order is accepted by a Redis that is replaced, and the database does not say in time whether it
// was written. The buyer does not try again, because the order may still be written.
func TestOrderInDoubtIsNotBoughtAgain(t *testing.T) {
	s := embeddedSite(t)
	var replaced atomic.Uint64
	service := s.instance(t, func(cfg *stock.Config) {
		cfg.Changes = replaced.Load
		withStream(stock.Stream{Patience: time.Millisecond})(cfg)
	})
	s.put(t, service, 10)
	hook := new(locktest.Hook)
	s.rdb.AddHook(hook)
	hook.On(stock.Accepts, 1, func(_ context.Context, send func() error) error {
		err := send()
		if !redis.HasErrorPrefix(err, "NOSCRIPT") {
			replaced.Store(1)
		}
		return err
	})
	var broken atomic.Bool
	defer s.onReads(func(tx *gorm.DB) {
		if tx.Statement.Table == "oversell_items" && replaced.Load() == 1 && broken.CompareAndSwap(false, true) {
			_ = tx.AddError(errBroken)
		}
	})()
	// It succeeds if another read got the error.
	if _, err := service.Deduct(t.Context(), s.request(streamed, "")); !broken.Load() {
		t.Errorf("%v, and no read has failed", err)
	}
	consume(t, service, stream.Consumer{})
	wantStock(t, s.settled(t, service), 10, 9, 1, 1)
}
