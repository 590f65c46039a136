package stock_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"oversell/internal/backend/backendtest"
	"oversell/internal/guard"
	"oversell/internal/stock"
)

func TestGuardsSellExactly(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		a, b := s.instance(t, nil), s.instance(t, nil)
		s.eachVariant(t, variant.holds, func(t *testing.T, v variant) {
			s.put(t, a, 30)
			sold, soldOut, _ := rush(t, s, 50, v.strategy, a, b)
			if sold != 30 || soldOut != 20 {
				t.Errorf("%d sold and %d refused, want 30 and 20", sold, soldOut)
			}
			wantStock(t, s.audit(t, b), 30, 0, 30, 30)
		})
	})
}

// Under contention the watch strategy needs several attempts, but serves all buyers in the end.
func TestWatchRetriesUnderContention(t *testing.T) {
	const buyers = 100
	eachSite(t, func(t *testing.T, s *site) {
		// The first reader writes after another buyer has written.
		overtaken := make(chan struct{})
		overtake := sync.OnceFunc(func() { close(overtaken) })
		var readers atomic.Int32
		meet := func(context.Context, string) (func(), error) {
			if readers.Add(1) == 1 {
				<-overtaken
			}
			return overtake, nil
		}
		a, b := s.instance(t, withWork(meet)), s.instance(t, withWork(meet))
		s.put(t, a, buyers)
		sold, _, attempts := rush(t, s, buyers, "watch", a, b)
		if sold != buyers || attempts <= buyers {
			t.Errorf("%d of %d sold in %d attempts, want all, and more attempts than buyers", sold, buyers, attempts)
		}
		wantStock(t, s.audit(t, a), buyers, 0, buyers, buyers)
	})
}

func TestSoldOutTakesNoLock(t *testing.T) {
	s := embeddedSite(t)
	service := s.instance(t, withGuard(guardFunc(func(context.Context, guard.Entry, stock.Section) error {
		t.Error("the guard was asked for a sold-out item")
		return nil
	})))
	s.put(t, service, 0)
	wantRefused(t, service, s.request("test", ""), stock.ErrSoldOut)
}

// waiting is a guard that is never acquired.
var waiting = guardFunc(func(ctx context.Context, _ guard.Entry, _ stock.Section) error {
	<-ctx.Done()
	return context.Cause(ctx)
})

// waitingService starts an instance whose guard is never acquired. The channel is closed when the
// guard is first asked for: it may be asked twice, if the message about a new generation comes late.
func waitingService(t *testing.T, s *site) (service *stock.Service, waits <-chan struct{}) {
	asked := make(chan struct{})
	once := sync.OnceFunc(func() { close(asked) })
	return s.instance(t, withGuard(guardFunc(func(ctx context.Context, e guard.Entry, section stock.Section) error {
		once()
		return waiting(ctx, e, section)
	}))), asked
}

func TestWaitersNoticeThatTheItemIsSoldOut(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		elsewhere := s.instance(t, withMixed)
		s.put(t, elsewhere, 1)
		service, waits := waitingService(t, s)
		waiter := order(t.Context(), service, s.request("test", ""))
		<-waits
		s.buy(t, elsewhere, "v1_setnx")
		if o := <-waiter; !errors.Is(o.err, stock.ErrSoldOut) {
			t.Errorf("the waiter got %v, want %v", o.err, stock.ErrSoldOut)
		}
	})
}

func TestWaitIsBounded(t *testing.T) {
	s := embeddedSite(t)
	service := s.instance(t, func(cfg *stock.Config) {
		withGuard(waiting)(cfg)
		cfg.Wait = 20 * time.Millisecond
	})
	s.put(t, service, 1)
	for _, key := range []string{"", "key"} {
		wantRefused(t, service, s.request("test", key), stock.ErrBusy)
	}
}

func TestCloseTurnsWaitersAwayAndLetsTheHolderFinish(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		working, resume := make(chan struct{}), make(chan struct{})
		service := s.instance(t, withWork(park(working, resume)))
		s.put(t, service, 10)
		holder := order(t.Context(), service, s.request("v6_watchdog", ""))
		<-working
		waiter := order(t.Context(), service, s.request("v6_watchdog", ""))
		service.Close()
		if o := <-waiter; !errors.Is(o.err, stock.ErrClosing) {
			t.Errorf("the waiter got %v, want %v", o.err, stock.ErrClosing)
		}
		close(resume)
		if o := <-holder; o.err != nil {
			t.Errorf("the holder got %v", o.err)
		}
		wantRefused(t, service, s.request("v6_watchdog", ""), stock.ErrClosing)
		wantStock(t, s.audit(t, service), 10, 9, 1, 1)
	})
}

// Buyers of an item that cannot be counted do not keep the buyers of other items out.
func TestBuyersWhoWaitForACountKeepNobodyOut(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		service := s.instance(t, nil)
		other := *s
		other.sku = newSKU()
		other.put(t, service, 0)
		s.put(t, service, 10)
		s.buy(t, service, "none")
		wantRefused(t, service, other.request("none", ""), stock.ErrSoldOut)
		s.lockRow(t)
		must(t, s.rdb.Del(t.Context(), s.stockKey(t)).Err())
		ctx, leave := context.WithTimeout(t.Context(), backendtest.Slack)
		defer leave()
		var buyers []<-chan outcome
		for range 40 {
			buyers = append(buyers, order(ctx, service, s.request("none", "")))
		}
		pause()
		if _, err := service.Deduct(ctx, other.request("none", "")); !errors.Is(err, stock.ErrSoldOut) {
			t.Errorf("a buyer of another item got %v, want %v", err, stock.ErrSoldOut)
		}
		leave()
		for _, buyer := range buyers {
			if o := <-buyer; !errors.Is(o.err, context.Canceled) {
				t.Errorf("a buyer who left got %v, want %v", o.err, context.Canceled)
			}
		}
	})
}

func TestFailedWorkSellsNothing(t *testing.T) {
	declined := errors.New("the card was declined")
	eachSite(t, func(t *testing.T, s *site) {
		service := s.instance(t, withWork(func(context.Context, string) (func(), error) { return nil, declined }))
		s.eachVariant(t, variant.oneLock, func(t *testing.T, v variant) {
			s.put(t, service, 10)
			wantRefused(t, service, s.request(v.strategy, ""), declined)
			wantStock(t, s.audit(t, service), 10, 10, 0, 0)
		})
	})
}

func TestWorkIsDoneBetweenReadAndWriteAndAfterTheOrder(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		var service *stock.Service
		var during, after stock.Audit
		service = s.instance(t, withWork(func(context.Context, string) (func(), error) {
			during = s.audit(t, service)
			return func() { after = s.audit(t, service) }, nil
		}))
		s.put(t, service, 10)
		s.buy(t, service, "v1_setnx")
		wantStock(t, during, 10, 10, 0, 0)
		wantStock(t, after, 10, 9, 1, 1)
	})
}

// A holder that learns before its write that it has lost the lock sells nothing.
func TestLostLockSellsNothing(t *testing.T) {
	gone := errors.New("the lease ran out")
	s := embeddedSite(t)
	service := s.instance(t, func(cfg *stock.Config) {
		lost, lose := context.WithCancelCause(t.Context())
		withGuard(guardFunc(func(_ context.Context, _ guard.Entry, section stock.Section) error {
			return section(lost, counter{t})
		}))(cfg)
		cfg.Work = func(ctx context.Context, _ string) (func(), error) {
			lose(gone)
			return nil, context.Cause(ctx)
		}
	})
	s.put(t, service, 10)
	_, err := service.Deduct(t.Context(), s.request("test", ""))
	if !errors.Is(err, stock.ErrLost) || !errors.Is(err, gone) {
		t.Errorf("got %v, want %v and its reason", err, stock.ErrLost)
	}
	wantStock(t, s.audit(t, service), 10, 10, 0, 0)
}

// counter is a stock of 10 units that must not be written.
type counter struct{ t *testing.T }

func (c counter) Get(context.Context) (int64, error) { return 10, nil }
func (c counter) Set(context.Context, int64) error {
	c.t.Error("the stock was written")
	return nil
}

func TestInvalidRequests(t *testing.T) {
	s := embeddedSite(t)
	service := s.sale(t, 10)
	for want, changes := range map[error][]func(*stock.Request){
		stock.ErrUnknownStrategy: {func(r *stock.Request) { r.Strategy = "v0" }},
		stock.ErrUnknownItem:     {func(r *stock.Request) { r.SKU = "nobody-sells-this" }},
		stock.ErrInvalid: {
			func(r *stock.Request) { r.Quantity = 0 },
			func(r *stock.Request) { r.Quantity = -1 },
			func(r *stock.Request) { r.Quantity = stock.MaxQuantity + 1 },
			func(r *stock.Request) { r.SKU = "" },
			func(r *stock.Request) { r.SKU = "a}b" },
			func(r *stock.Request) { r.SKU = "a\n" },
			func(r *stock.Request) { r.SKU = strings.Repeat("a", 65) },
			func(r *stock.Request) { r.IdempotencyKey = "a b" },
			func(r *stock.Request) { r.IdempotencyKey = "é" },
			func(r *stock.Request) { r.IdempotencyKey = strings.Repeat("a", 129) },
		},
	} {
		for _, change := range changes {
			req := s.request("v4_lua", "")
			change(&req)
			wantRefused(t, service, req, want)
		}
	}
	wantStock(t, s.audit(t, service), 10, 10, 0, 0)
}
