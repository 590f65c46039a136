package stock_test

import (
	"errors"
	"testing"
	"time"

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
