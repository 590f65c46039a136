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

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"
	"gorm.io/gorm"

	"oversell/internal/backend/backendtest"
	"oversell/internal/locks"
	"oversell/internal/locks/locktest"
	"oversell/internal/stock"
)

// takers names the strategies that guard nothing.
func takers() []string {
	var names []string
	for _, s := range strategies() {
		if s.Kind == locks.Atomic || s.Kind == locks.Batched {
			names = append(names, s.Name)
		}
	}
	return names
}

// eachTaker runs f for each of them on each site, with an item of its own.
func eachTaker(t *testing.T, f func(t *testing.T, s *site, strategy string)) {
	for _, strategy := range takers() {
		t.Run(strategy, func(t *testing.T) {
			eachSite(t, func(t *testing.T, s *site) { f(t, s, strategy) })
		})
	}
}

// holdUp parks the first order just before it is written, which is after its
// units were taken. It returns when that is so, and how to let it go on.
func (s *site) holdUp(t *testing.T) (parked <-chan struct{}, goOn func()) {
	t.Helper()
	here, released := make(chan struct{}), make(chan struct{})
	var came atomic.Bool
	onOrders(t, s.db, "test:park", true, func(*gorm.DB) {
		if came.CompareAndSwap(false, true) {
			close(here)
			<-released
		}
	})
	goOn = sync.OnceFunc(func() { close(released) })
	t.Cleanup(goOn)
	return here, goOn
}

// outcome is what became of a deduct.
type outcome struct {
	res stock.Result
	err error
}

// order begins a deduct and returns where its outcome will be.
func order(ctx context.Context, service *stock.Service, req stock.Request) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		res, err := service.Deduct(ctx, req)
		done <- outcome{res, err}
	}()
	return done
}

// soon gives what was just begun the time to come to where it has to wait. A
// test that it is not enough for tests less, and does not fail.
func soon() { time.Sleep(20 * time.Millisecond) }

// What a process leaves behind that dies after the script and before the order,
// and what becomes of it if it was only paused: the order is written, and there
// is a unit for it.
func TestCrashAfterTheScriptLeavesStockTaken(t *testing.T) {
	eachTaker(t, func(t *testing.T, s *site, strategy string) {
		dying, other := s.instance(t, nil), s.instance(t, nil)
		s.put(t, other, 10)
		parked, goOn := s.holdUp(t)
		done := order(t.Context(), dying, s.wish(strategy, ""))
		<-parked
		if sold, soldOut, _ := rush(t, s, 15, strategy, other); sold != 9 || soldOut != 6 {
			t.Errorf("%d sold and %d turned away by the other, want 9 and 6", sold, soldOut)
		}
		a := s.audit(t, other)
		wantStock(t, a, 10, 0, 9, 9)
		if a.LostUpdates != -1 {
			t.Errorf("%d lost updates, want -1: a unit taken with no order", a.LostUpdates)
		}
		goOn()
		if o := <-done; o.err != nil {
			t.Errorf("who was paused got %v", o.err)
		}
		wantStock(t, s.audit(t, other), 10, 0, 10, 10)
	})
}

// It is not known whether the units were taken: the stock is counted anew.
func TestReplyOfTheScriptIsLost(t *testing.T) {
	for name, action := range map[string]locktest.Action{
		"before": locktest.Fail(locktest.ErrCut),
		"after":  locktest.LoseReply(locktest.ErrCut),
	} {
		t.Run(name, func(t *testing.T) {
			eachTaker(t, func(t *testing.T, s *site, strategy string) {
				service := s.instance(t, nil)
				s.put(t, service, 10)
				hook := &scriptHook{action: action}
				s.rdb.AddHook(hook)
				hook.armed.Store(true)
				if _, err := service.Deduct(t.Context(), s.wish(strategy, "")); !errors.Is(err, locktest.ErrCut) {
					t.Errorf("got %v, want %v", err, locktest.ErrCut)
				}
				wantStock(t, s.audit(t, service), 10, 10, 0, 0)
				sold, soldOut, _ := rush(t, s, 12, strategy, service)
				if sold != 10 || soldOut != 2 {
					t.Errorf("%d sold and %d turned away afterwards, want 10 and 2", sold, soldOut)
				}
			})
		})
	}
}

// scriptHook does something to the first script that succeeds in being called
// since it was armed.
type scriptHook struct {
	action locktest.Action
	armed  atomic.Bool
}

func (h *scriptHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *scriptHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if !h.strikes(cmd) {
			return next(ctx, cmd)
		}
		err := h.action(ctx, func() error { return next(ctx, cmd) })
		cmd.SetErr(err)
		return h.again(err)
	}
}

func (h *scriptHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if !h.strikes(cmds[0]) {
			return next(ctx, cmds)
		}
		err := h.action(ctx, func() error { return next(ctx, cmds) })
		for _, cmd := range cmds {
			cmd.SetErr(err)
		}
		return h.again(err)
	}
}

func (h *scriptHook) strikes(cmd redis.Cmder) bool {
	return (cmd.Name() == "evalsha" || cmd.Name() == "eval") && h.armed.CompareAndSwap(true, false)
}

// again strikes once more if nothing was executed yet.
func (h *scriptHook) again(err error) error {
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		h.armed.Store(true)
	}
	return err
}

// writeHook does something to the first pipeline, or the first DEL, since it was
// armed: the part of a change of sale that writes to Redis.
type writeHook struct {
	action locktest.Action
	armed  atomic.Bool
}

func (h *writeHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *writeHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != "del" || !h.armed.CompareAndSwap(true, false) {
			return next(ctx, cmd)
		}
		err := h.action(ctx, func() error { return next(ctx, cmd) })
		cmd.SetErr(err)
		return err
	}
}

func (h *writeHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if !h.armed.CompareAndSwap(true, false) {
			return next(ctx, cmds)
		}
		return h.action(ctx, func() error { return next(ctx, cmds) })
	}
}

// A Redis that was restarted knows the scripts no more.
func TestScriptsAreSentAgain(t *testing.T) {
	eachTaker(t, func(t *testing.T, s *site, strategy string) {
		service := s.instance(t, nil)
		s.put(t, service, 20)
		for range 2 {
			if err := s.rdb.ScriptFlush(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			if sold, _, attempts := rush(t, s, 10, strategy, service); sold != 10 || attempts != 10 {
				t.Errorf("%d sold in %d attempts, want 10 in 10", sold, attempts)
			}
		}
		wantStock(t, s.audit(t, service), 20, 0, 20, 20)
	})
}

func TestTakersOnACluster(t *testing.T) {
	rdb := backendtest.DialRedis(t, backendtest.Cluster(t))
	s := newSite(t, rdb, backendtest.DialDatabase(t, backendtest.Database(t, "embedded")))
	service := s.instance(t, nil)
	for _, strategy := range takers() {
		s.sku = newSKU()
		s.put(t, service, 30)
		if sold, soldOut, _ := rush(t, s, 50, strategy, service); sold != 30 || soldOut != 20 {
			t.Errorf("%s: %d sold and %d turned away, want 30 and 20", strategy, sold, soldOut)
		}
		s.put(t, service, 30)
		wantOneOrder(t, sameKey(t, s, 10, strategy, "click", service))
		wantStock(t, s.audit(t, service), 30, 29, 1, 1)
	}
}

// refuse has the database refuse every statement with an order for which bad is
// true. It returns how many orders the largest of all statements had.
func (s *site) refuse(t *testing.T, bad func(quantity int64) bool) (largest func() int) {
	t.Helper()
	var most atomic.Int64
	onOrders(t, s.db, "test:refuse", true, func(tx *gorm.DB) {
		orders := ordersIn(tx)
		most.Store(max(most.Load(), int64(len(orders))))
		if slices.ContainsFunc(orders, bad) {
			_ = tx.AddError(errBroken)
		}
	})
	return func() int { return int(most.Load()) }
}

func TestOneBadOrderSpoilsNoOther(t *testing.T) {
	eachTaker(t, func(t *testing.T, s *site, strategy string) {
		service := s.instance(t, nil)
		s.put(t, service, 100)
		largest := s.refuse(t, func(quantity int64) bool { return quantity == 2 })
		parked, goOn := s.holdUp(t)
		var done []<-chan outcome
		for i := range 30 {
			req := s.wish(strategy, fmt.Sprint("key-", i))
			if i%10 == 5 {
				req.Quantity = 2
			}
			done = append(done, order(t.Context(), service, req))
		}
		<-parked
		soon()
		goOn()
		for i, d := range done {
			o := <-d
			if bad := i%10 == 5; bad != errors.Is(o.err, errBroken) || !bad && o.err != nil {
				t.Errorf("buyer %d got %v", i, o.err)
			}
		}
		wantStock(t, s.audit(t, service), 100, 73, 27, 27)
		if n := largest(); n < 2 {
			t.Errorf("the largest statement had %d orders: nothing was written together", n)
		}
		// What was refused left no claim behind.
		req := s.wish(strategy, "key-5")
		if res, err := service.Deduct(t.Context(), req); err != nil || res.Replayed {
			t.Errorf("once more with a key that was refused: replayed %v, %v", res.Replayed, err)
		}
	})
}

// A key that another instance has just used, and whose claim is gone, is found
// out by the database alone.
func TestKeyThatWasUsedMeanwhileSpoilsNoOther(t *testing.T) {
	eachTaker(t, func(t *testing.T, s *site, strategy string) {
		var first stock.Result
		elsewhere := s.instance(t, withMixed)
		var once sync.Once
		service := s.instance(t, func(cfg *stock.Config) {
			cfg.Mixed, cfg.Work = true, func(ctx context.Context, _ string) (func(), error) {
				once.Do(func() { // when the key was looked for, and before units are taken
					var err error
					if first, err = elsewhere.Deduct(ctx, s.wish("v4_lua", "click")); err != nil {
						t.Error(err)
					}
				})
				return nil, nil
			}
		})
		s.put(t, service, 10)
		res, err := service.Deduct(t.Context(), s.wish(strategy, "click"))
		if err != nil || !res.Replayed || res.Order.ID != first.Order.ID {
			t.Errorf("answered with %+v, %v; want the order %s", res, err, first.Order.ID)
		}
		wantStock(t, s.audit(t, service), 10, 9, 1, 1)
	})
}

// A claim whose owner has died is respected for a while, and then no more.
func TestClaimOfTheDeadIsOverridden(t *testing.T) {
	for _, strategy := range takers() {
		t.Run(strategy, func(t *testing.T) {
			s := embeddedSite(t)
			service := s.instance(t, nil)
			item := s.put(t, service, 10)
			period := time.Now().Unix() / 10
			for _, p := range []int64{period, period + 1} { // which may begin now
				at := fmt.Sprintf("oversell:{%s}:claims:%s:%d", s.sku, item.SaleID, p)
				if err := s.rdb.HSet(t.Context(), at, "click", "").Err(); err != nil {
					t.Fatal(err)
				}
			}
			start := time.Now()
			if _, err := service.Deduct(t.Context(), s.wish(strategy, "click")); err != nil {
				t.Error(err)
			}
			if took := time.Since(start); took < time.Second {
				t.Errorf("the claim was respected for %v", took)
			}
			wantStock(t, s.audit(t, service), 10, 9, 1, 1)
		})
	}
}

func TestSmallerWishIsServedAfterOneThatIsTooLarge(t *testing.T) {
	eachTaker(t, func(t *testing.T, s *site, strategy string) {
		service := s.instance(t, nil)
		s.put(t, service, 6)
		parked, goOn := s.holdUp(t)
		var done []<-chan outcome
		for i, quantity := range []int64{1, 4, 4, 1} {
			req := s.wish(strategy, "")
			req.Quantity = quantity
			done = append(done, order(t.Context(), service, req))
			if i == 0 {
				<-parked
			}
			soon()
		}
		goOn()
		for i, left := range []int64{5, 1, 1, 0} {
			o := <-done[i]
			if o.res.Left != left || errors.Is(o.err, stock.ErrSoldOut) != (i == 2) {
				t.Errorf("buyer %d: %d left, %v; want %d", i, o.res.Left, o.err, left)
			}
		}
		wantStock(t, s.audit(t, service), 6, 0, 6, 3)
	})
}

// Who gives up in time has bought nothing. Whose units were taken by then has
// bought, and is told so.
func TestCallersWhoGoWhileOthersAreServed(t *testing.T) {
	eachTaker(t, func(t *testing.T, s *site, strategy string) {
		service := s.instance(t, nil)
		s.put(t, service, 10)
		ctx, goAway := context.WithCancel(t.Context())
		parked, goOn := s.holdUp(t)
		served := order(ctx, service, s.wish(strategy, ""))
		<-parked
		waiting := order(ctx, service, s.wish(strategy, ""))
		patient := order(t.Context(), service, s.wish(strategy, ""))
		soon()
		goAway()
		if o := <-waiting; !errors.Is(o.err, context.Canceled) {
			t.Errorf("who waited got %v, want %v", o.err, context.Canceled)
		}
		goOn()
		for _, done := range []<-chan outcome{served, patient} {
			if o := <-done; o.err != nil || o.res.Order.ID == "" {
				t.Errorf("order %q, %v; want one", o.res.Order.ID, o.err)
			}
		}
		wantStock(t, s.audit(t, service), 10, 8, 2, 2)
	})
}

func TestCloseLetsThoseFinishWhoAreBeingServed(t *testing.T) {
	eachTaker(t, func(t *testing.T, s *site, strategy string) {
		service := s.instance(t, nil)
		s.put(t, service, 10)
		parked, goOn := s.holdUp(t)
		served := order(t.Context(), service, s.wish(strategy, ""))
		<-parked
		waiting := order(t.Context(), service, s.wish(strategy, ""))
		soon()
		service.Close()
		for _, late := range []<-chan outcome{waiting, order(t.Context(), service, s.wish(strategy, ""))} {
			if o := <-late; !errors.Is(o.err, stock.ErrClosing) {
				t.Errorf("got %v, want %v", o.err, stock.ErrClosing)
			}
		}
		goOn()
		if o := <-served; o.err != nil {
			t.Errorf("who was being served got %v", o.err)
		}
		wantStock(t, s.audit(t, service), 10, 9, 1, 1)
	})
}

// The item is sold out while somebody waits to be served: he is told at once.
func TestThoseWhoWaitToBeServedNoticeThatTheItemIsSoldOut(t *testing.T) {
	eachTaker(t, func(t *testing.T, s *site, strategy string) {
		service, elsewhere := s.instance(t, nil), s.instance(t, nil)
		s.put(t, service, 3)
		parked, goOn := s.holdUp(t)
		served := order(t.Context(), service, s.wish(strategy, ""))
		<-parked
		waiting := order(t.Context(), service, s.wish(strategy, ""))
		rush(t, s, 2, strategy, elsewhere)
		if o := <-waiting; !errors.Is(o.err, stock.ErrSoldOut) {
			t.Errorf("the waiter got %v, want %v", o.err, stock.ErrSoldOut)
		}
		goOn()
		if o := <-served; o.err != nil {
			t.Error(o.err)
		}
	})
}

// Another instance begins a new sale: who remembers the last one sells in the
// new one all the same.
func TestTakersSellInTheSaleThatIsOn(t *testing.T) {
	eachTaker(t, func(t *testing.T, s *site, strategy string) {
		a, b := s.instance(t, nil), s.instance(t, nil)
		s.put(t, a, 5)
		wantOneOrder(t, sameKey(t, s, 2, strategy, "click", b))
		rush(t, s, 1, strategy, b)
		s.put(t, a, 5)
		rush(t, s, 1, strategy, b)
		res, err := b.Deduct(t.Context(), s.wish(strategy, "click"))
		if err != nil || res.Replayed {
			t.Errorf("the key of the last sale: replayed %v, %v; want an order", res.Replayed, err)
		}
		wantStock(t, s.audit(t, a), 5, 3, 2, 2)
		if err := a.Delete(t.Context(), s.sku); err != nil {
			t.Fatal(err)
		}
		if keys := s.rdb.Keys(t.Context(), "oversell:{"+s.sku+"}:*").Val(); slices.ContainsFunc(keys, func(key string) bool {
			return s.rdb.TTL(t.Context(), key).Val() < 0
		}) {
			t.Errorf("of the item that is gone, Redis keeps %v", keys)
		}
		if _, err := b.Deduct(t.Context(), s.wish(strategy, "")); !errors.Is(err, stock.ErrUnknownItem) {
			t.Errorf("an item that is gone: got %v, want %v", err, stock.ErrUnknownItem)
		}
	})
}

// Nobody hangs when Redis or the database goes away, and nothing is oversold.
func TestTakersOutliveTheirBackends(t *testing.T) {
	server, dbServer := backendtest.RestartableRedis(t), backendtest.RestartableDatabase(t)
	s := newSite(t, backendtest.DialRedis(t, server.URL), backendtest.DialDatabase(t, dbServer.URL))
	service := s.instance(t, nil)
	for _, strategy := range takers() {
		s.sku = newSKU()
		s.put(t, service, 1000)
		rush(t, s, 20, strategy, service)
		dbServer.Kill()
		for range 3 {
			if o := <-order(t.Context(), service, s.wish(strategy, "")); o.err == nil {
				t.Errorf("%s: sold without a database", strategy)
			}
		}
		if err := dbServer.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantStock(t, s.audit(t, service), 1000, 980, 20, 20)
		server.Kill()
		start := time.Now()
		var all []<-chan outcome
		for range 50 {
			all = append(all, order(t.Context(), service, s.wish(strategy, "")))
		}
		for _, done := range all {
			if o := <-done; o.err == nil || errors.Is(o.err, stock.ErrBusy) {
				t.Errorf("%s: got %v, want the error of Redis", strategy, o.err)
			}
		}
		if took := time.Since(start); took > backendtest.Slack {
			t.Errorf("%s: it took %v to tell", strategy, took)
		}
		if err := server.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		if sold, _, _ := rush(t, s, 10, strategy, service); sold != 10 {
			t.Errorf("%s: %d of 10 sold once Redis is back", strategy, sold)
		}
	}
}

// Several orders may or may not have been written: all their units come back, once
// the orders cannot be written any more.
func TestUnitsOfAllComeBackOnceTheirOrdersCannotBeWritten(t *testing.T) {
	for _, strategy := range takers() {
		t.Run(strategy, func(t *testing.T) {
			rdb := backendtest.DialRedis(t, backendtest.Redis(t, "embedded"))
			s := newSite(t, rdb, backendtest.DialDatabase(t, backendtest.Database(t, "local")))
			service := s.instance(t, nil)
			s.put(t, service, 10)
			failing(t, s.db, true, mysql.ErrInvalidConn)
			var all []<-chan outcome
			for range 5 {
				all = append(all, order(t.Context(), service, s.wish(strategy, "")))
			}
			for _, done := range all {
				if o := <-done; o.err == nil {
					t.Error("sold, but there is no order")
				}
			}
			wantStock(t, s.audit(t, service), 10, 10, 0, 0)
		})
	}
}
