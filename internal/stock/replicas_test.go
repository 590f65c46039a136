package stock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gorm.io/gorm"

	"oversell/internal/backend/backendtest"
	"oversell/internal/stock"
	"oversell/internal/stock/stream"
)

// patience limits the time for which a buyer waits for the order to be written.
const patience = 200 * time.Millisecond

// An order is confirmed as accepted when a replica has it. If there is no replica, the buyer waits
// until the order is written.
func TestAcceptedOnAReplica(t *testing.T) {
	backendtest.Need(t, "redis-server")
	set := backendtest.Sentinels(t)
	_, replica, _ := set.Nodes()
	db := backendtest.DialDatabase(t, backendtest.Database(t, "embedded"))
	s := newSite(t, backendtest.DialRedis(t, set.URL()), db)
	service := s.instance(t, withStream(stock.Stream{Replicas: 1, Patience: patience}))
	const units = 50
	s.put(t, service, units)
	buy := func(key string) (stock.Result, error) { // no consumer runs
		return service.Deduct(t.Context(), s.request(streamed, key))
	}
	var ids []string
	for accepted := 0; accepted < 3; { // a replica on a busy machine may be late
		res, err := buy("")
		if ids = append(ids, res.Order.ID); err == nil && res.State == stock.StateAccepted {
			accepted++
		} else if !errors.Is(err, stock.ErrNotDurable) || len(ids) > units/2 {
			t.Fatalf("with a replica: state %q, %v", res.State, err)
		}
	}

	replica.Kill()
	unsure, err := buy("key")
	if !errors.Is(err, stock.ErrNotDurable) {
		t.Fatalf("without a replica: %v, want %v", err, stock.ErrNotDurable)
	}
	patient := s.instance(t, withStream(stock.Stream{Replicas: 1, Patience: time.Minute}))
	consume(t, patient, stream.Consumer{})
	res := s.buy(t, patient, streamed)
	if res.State != stock.StateWritten {
		t.Errorf("without a replica: state %q, want a written order", res.State)
	}
	again, err := patient.Deduct(t.Context(), s.request(streamed, "key"))
	if err != nil || again.State == stock.StateAccepted || !again.Replayed || again.Order.ID != unsure.Order.ID {
		t.Errorf("the same key again: %+v, %v; want order %s, written", again, err, unsure.Order.ID)
	}
	ids = append(ids, res.Order.ID, again.Order.ID)
	sold := int64(len(ids))
	wantStock(t, s.settled(t, service), units, units-sold, sold, sold)
	s.wantWritten(t, service, ids)
}

// A repeated request whose order is still in the stream waits, too, because it is not known whether
// the replicas have the order.
func TestReplayOfAnOrderThatIsNotOnAReplica(t *testing.T) {
	s := embeddedSite(t) // a Redis without replicas
	service := s.instance(t, withStream(stock.Stream{Replicas: 1, Patience: patience}))
	s.put(t, service, 10)
	for range 2 {
		res, err := service.Deduct(t.Context(), s.request(streamed, "key"))
		if !errors.Is(err, stock.ErrNotDurable) || res.State == stock.StateAccepted {
			t.Errorf("state %q, %v; want %v", res.State, err, stock.ErrNotDurable)
		}
	}
	consume(t, service, stream.Consumer{})
	wantStock(t, s.settled(t, service), 10, 9, 1, 1)
}

// While a buyer waits for the order to be written, Redis loses the order. It may still be written by a
// consumer that has read it, so its outcome is unknown.
func TestOrderThatIsLostWhileItIsAwaited(t *testing.T) {
	s := embeddedSite(t)
	service := s.instance(t, withStream(stock.Stream{Replicas: 1, Patience: patience}))
	s.put(t, service, 10)
	k := stream.Keys{SKU: s.sku}
	defer s.onReads(func(tx *gorm.DB) {
		if tx.Statement.Table == "oversell_orders" {
			must(t, s.rdb.Del(t.Context(), k.Stream(), k.Places()).Err())
		}
	})()
	_, err := service.Deduct(t.Context(), s.request(streamed, ""))
	if !errors.Is(err, stock.ErrNotDurable) || errors.Is(err, stock.ErrUnknownOrder) {
		t.Errorf("%v; want %v", err, stock.ErrNotDurable)
	}
}

// Buyers that wait until their orders are written keep nobody from buying another item.
func TestWaitersForOrdersKeepNobodyOut(t *testing.T) {
	s := embeddedSite(t)
	unconfirmed := withStream(stock.Stream{Replicas: 1, Patience: time.Hour})
	first, again := s.instance(t, unconfirmed), s.instance(t, unconfirmed)
	s.put(t, first, 100)
	const buyers = 40 // more than may read items at the same time
	buy := func(service *stock.Service) (leave func()) {
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for n := range buyers {
			all.Go(func() { _, _ = service.Deduct(ctx, s.request(streamed, fmt.Sprint("key-", n))) })
		}
		return func() { cancel(); all.Wait() }
	}
	leave := buy(first)
	eventually(t, "all orders are accepted", func() (bool, any) {
		n := s.rdb.XLen(t.Context(), stream.Keys{SKU: s.sku}.Stream()).Val()
		return n == buyers, n
	})
	leave()
	var reads atomic.Int64
	defer s.onReads(func(tx *gorm.DB) {
		if tx.Statement.Table == "oversell_orders" {
			reads.Add(1)
		}
	})()
	defer buy(again)()
	eventually(t, "the same buyers wait again", func() (bool, any) { return reads.Load() > 5*buyers, reads.Load() })
	other := *s
	other.sku = newSKU()
	other.put(t, again, 1)
	other.buy(t, again, "v4_lua")
}
