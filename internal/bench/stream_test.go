package bench

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"oversell/internal/bench/report"
	"oversell/internal/web"
)

// newShopLike returns a server with this handler, for the duration of the test.
func newShopLike(t *testing.T, handle http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(handle)
	t.Cleanup(s.Close)
	return s
}

func fine(http.ResponseWriter, *http.Request) {}

// streamTo returns a stream that sends rate requests within a second.
func streamTo(t *testing.T, rate, inFlight int, alive func(int) bool, targets ...string) *stream {
	t.Helper()
	cfg := Config{Rate: rate, Requests: rate, Duration: time.Second, InFlight: inFlight}
	s, err := newStream(cfg, targets, func(_ int, target string) (*http.Request, error) {
		return http.NewRequest(http.MethodPost, target, nil)
	}, alive)
	must(t, err)
	t.Cleanup(s.close)
	return s
}

// must ends the test if err is not nil.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func always(int) bool { return true }

// flow runs a stream, and checks that every request has an outcome.
func flow(ctx context.Context, t *testing.T, s *stream, limit time.Duration) (*tally, *report.Open) {
	t.Helper()
	counts := newTally(limit + s.duration)
	s.fire(ctx, limit, counts)
	o := s.figures(counts)
	if n := counts.served + counts.soldOut + counts.failed + counts.unknown[0] + counts.unknown[1]; n != o.Sent {
		t.Errorf("%d outcomes of %d requests that were sent", n, o.Sent)
	}
	if ctx.Err() == nil && (o.Sent+o.Dropped != o.Planned || s.awaited() != 0) {
		t.Errorf("%d sent and %d dropped of %d, %d awaited", o.Sent, o.Dropped, o.Planned, s.awaited())
	}
	return counts, o
}

// Requests are sent whether or not earlier ones were answered, so the latencies include the delay
// that a slow reply causes to later requests.
func TestLatencyCountsFromThePlannedTime(t *testing.T) {
	const stall = 400 * time.Millisecond
	var n atomic.Int64
	var mu sync.RWMutex
	shop := newShopLike(t, func(http.ResponseWriter, *http.Request) {
		if n.Add(1) == 20 {
			mu.Lock()
			time.Sleep(stall)
			mu.Unlock()
		}
		mu.RLock() // waits during the stall
		defer mu.RUnlock()
	})
	counts, o := flow(t.Context(), t, streamTo(t, 100, 100, always, shop.URL), time.Minute)
	// About forty of the hundred requests in a second arrive during the stall. A client that waits
	// for each reply would have seen only one slow request.
	if o.Dropped != 0 || counts.latency.ms(75) < 100 || counts.latency.ms(100) < 390 {
		t.Errorf("%d dropped; three of four took at most %v ms, all at most %v ms", o.Dropped, counts.latency.ms(75),
			counts.latency.ms(100))
	}
	for _, p := range []float64{50, 99, 100} {
		if counts.latency.ms(p) < counts.service.ms(p) {
			t.Errorf("p%v: response %v ms, service %v ms", p, counts.latency.ms(p), counts.service.ms(p))
		}
	}
}

func TestStreamDropsWhatCannotBeSentInTime(t *testing.T) {
	var under, most atomic.Int64
	shop := newShopLike(t, func(http.ResponseWriter, *http.Request) {
		if n := under.Add(1); n > most.Load() {
			most.Store(n)
		}
		defer under.Add(-1)
		time.Sleep(300 * time.Millisecond)
	})
	counts, o := flow(t.Context(), t, streamTo(t, 200, 5, always, shop.URL), time.Minute)
	if o.Dropped < 150 || counts.served < 5 || most.Load() > 5 {
		t.Errorf("%d dropped, %d served, %d at once; want 5 at once, every 300 ms", o.Dropped, counts.served,
			most.Load())
	}
	if o.AchievedRate > 50 {
		t.Errorf("%v sent a second, want some 17", o.AchievedRate)
	}
}

// No request is sent to a killed shop, and a request that was never sent is known to have failed.
// All requests may be in flight at once, so no request is dropped on a machine that stalls.
func TestStreamGoesOnWithTheShopsThatAreThere(t *testing.T) {
	shop := newShopLike(t, fine)
	counts, _ := flow(t.Context(), t, streamTo(t, 50, 50, func(target int) bool { return target == 0 }, shop.URL,
		"http://127.0.0.1:1"), time.Minute)
	if counts.served != 50 || counts.failed != 0 {
		t.Errorf("one was killed: %d served, %v", counts.served, counts.reasons)
	}
	counts, _ = flow(t.Context(), t, streamTo(t, 50, 50, always, shop.URL, "http://127.0.0.1:1"), time.Minute)
	if counts.served != 25 || counts.reasons[codeNoConn] != 25 || counts.failed != 25 {
		t.Errorf("one takes no connection: %d served, %d failed, %v", counts.served, counts.failed, counts.reasons)
	}
	counts, _ = flow(t.Context(), t, streamTo(t, 20, 20, func(int) bool { return false }, shop.URL), time.Minute)
	if counts.failed != 20 {
		t.Errorf("all were killed: %d failed, %v", counts.failed, counts.reasons)
	}
}

func TestStreamLearnsWhatRepliesAre(t *testing.T) {
	var n atomic.Int64
	shop := newShopLike(t, func(w http.ResponseWriter, r *http.Request) {
		switch n.Add(1) % 6 {
		case 0:
			w.Header().Set(web.HeldHeader, "1000-2000")
		case 1:
			w.WriteHeader(http.StatusConflict)
			_, _ = w.Write([]byte(`{"code":"sold_out"}`))
		case 2:
			w.Header().Set("Connection", "close")
			http.Error(w, "<h1>Bad Gateway</h1>", http.StatusBadGateway)
		case 3:
			panic(http.ErrAbortHandler)
		case 4:
			<-r.Context().Done() // wait until the client gives up
		case 5:
			w.Header().Set(web.HeldHeader, "yesterday")
		}
	})
	counts, _ := flow(t.Context(), t, streamTo(t, 60, 60, always, shop.URL), 2*time.Second)
	if counts.served != 10 || counts.soldOut != 10 || counts.failed != 10 ||
		counts.reasons[codeOther] != 10 || counts.reasons[codeCutOff] != 10 || counts.reasons[codeTimedOut] != 10 ||
		counts.reasons[codeNotAReply] != 10 {
		t.Errorf("%d served, %d sold out, %d failed, %v; want 10 of each", counts.served, counts.soldOut, counts.failed,
			counts.reasons)
	}
	if got := counts.mostHolders(); got != 10 {
		t.Errorf("%d holders at once, want 10", got)
	}
}

func TestStreamEndsWithItsContext(t *testing.T) {
	held := make(chan struct{})
	shop := newShopLike(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-held:
		case <-r.Context().Done():
		}
	})
	defer close(held)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	begun := time.Now()
	flow(ctx, t, streamTo(t, 50, 50, always, shop.URL), time.Minute)
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("it took %v to end", took)
	}
}

// A connection that has long been idle is not used again, because a shop may have closed it.
func TestPoolKeepsNothingStale(t *testing.T) {
	shop := newShopLike(t, fine)
	p := newPool(1)
	defer p.close()
	get := func() *conn { return connTo(t, p, 0, shop.URL) }
	first := get()
	p.put(first, true)
	if again := get(); again != first {
		t.Error("a fresh connection is not used again")
	}
	other := get()
	p.put(first, true)
	p.put(other, true) // one more than the pool keeps
	if p.idle != 1 {
		t.Errorf("%d connections are kept, want 1", p.idle)
	}
	p.waiting[0][0].until = time.Now().Add(-stale)
	third := get()
	if third == first || p.idle != 0 {
		t.Error("a stale connection is used again, or kept")
	}
	p.put(third, false)
	if p.idle != 0 || len(p.busy) != 0 {
		t.Errorf("%d connections are kept that cannot be used, %d are in use", p.idle, len(p.busy))
	}
	// A shop closes a new connection sooner, if no request arrives.
	p.fill(get())
	p.waiting[0][0].until = p.waiting[0][0].until.Add(-2 * staleUnused)
	if unused := p.waiting[0][0]; get() == unused || p.idle != 0 {
		t.Error("a connection that the shop may have closed is used, or kept")
	}
}

// connTo returns a connection of a pool to a shop.
func connTo(t *testing.T, p *pool, target int, url string) *conn {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, url, nil)
	must(t, err)
	c, err := p.get(t.Context(), target, req, time.Minute)
	must(t, err)
	return c
}

// The connections to a killed shop are closed, because the connections to other shops need their
// file descriptors.
func TestConnectionsToAKilledShopAreClosed(t *testing.T) {
	dead, other := newShopLike(t, fine), newShopLike(t, fine)
	var killed atomic.Bool
	s := streamTo(t, 10, 10, func(target int) bool { return target == 1 || !killed.Load() }, dead.URL, other.URL)
	must(t, s.connect(t.Context()))
	killed.Store(true)
	if r := s.exchange(t.Context(), 0, time.Now(), time.Minute); r.Status != http.StatusOK || r.Target != 1 {
		t.Errorf("the reply is %+v, want one of the other shop", r)
	}
	if n := len(s.pool.waiting[0]); n != 0 {
		t.Errorf("%d connections to the killed shop are open", n)
	}
}

// A pool never exceeds its limit. If one shop is slow and the connections to the other shop are
// idle, the pool closes an idle connection for each new one.
func TestPoolKeepsToItsConnections(t *testing.T) {
	const most = 6
	p := newPool(most)
	p.most = most
	defer p.close()
	shops := []*httptest.Server{newShopLike(t, fine), newShopLike(t, fine)}
	get := func(target int) *conn {
		t.Helper()
		c := connTo(t, p, target, shops[target].URL)
		if n := p.idle + len(p.busy) + p.dialing; n > most {
			t.Errorf("the pool has %d connections, want at most %d", n, most)
		}
		return c
	}
	var fast []*conn
	for range most {
		fast = append(fast, get(0))
	}
	for _, c := range fast {
		p.put(c, true) // the fast shop has sent all replies
	}
	for range most {
		get(1) // the slow shop has not replied yet
	}
	if p.idle != 0 || len(p.busy) != most {
		t.Errorf("%d connections are idle and %d in use, want all in use", p.idle, len(p.busy))
	}
	for c := range p.busy {
		p.put(c, false)
	}
}
