package reconcile

import (
	"io"
	"log/slog"
	"testing"
	"time"

	"oversell/internal/backend/backendtest"
	"oversell/internal/locks/locktest"
	"oversell/internal/stock"
)

func TestStrandedUnitsGoBackOnSaleByThemselves(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		service := s.service(t)
		sku := s.put(t, service, 20)
		var log buffer
		stop := Start(t.Context(), Config{Stock: service, DB: s.db, Every: 20 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		defer stop()
		for _, units := range []int64{5, 20} {
			s.strand(t, sku, units)
			await(t, 0, "all units are on sale", func() bool { return left(t, service, sku) == 20 })
		}
		await(t, 0, "both repairs are in the log", func() bool { return log.count("stranded units are on sale again") == 2 })
	})
}

// A stop ends the reconciler, and another shop need not wait for the end of its lease.
func TestStopReleasesTheLease(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		service := s.service(t)
		cfg := Config{Stock: service, DB: s.db, Every: 10 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
		stop := Start(t.Context(), cfg)
		next := s.stopped(t, io.Discard)
		await(t, 0, "the reconciler has the lease", func() bool {
			held, err := next.claim.take(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if held {
				if err := next.claim.release(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			return !held
		})
		stop()
		wantTake(t, next.claim, true)
	})
}

// Units are put back in the second round that finds them stranded. A unit that the stock has
// too many is left to be seen, and so is a stock in the database.
func TestRoundRepairsOnlyWhatIsStranded(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		r := s.stopped(t, io.Discard)
		stranded, lost, sound := s.put(t, r.Stock, 10), s.put(t, r.Stock, 10), s.put(t, r.Stock, 10)
		inDatabase := s.put(t, r.Stock, 0)
		if _, err := r.Stock.Put(t.Context(), stock.Item{SKU: inDatabase, Initial: 10, Keeper: stock.InDatabase}); err != nil {
			t.Fatal(err)
		}
		generation := func(sku string) string {
			key, err := stockKey(t.Context(), s.rdb, sku)
			if err != nil {
				t.Fatal(err)
			}
			return key
		}
		before := map[string]string{lost: generation(lost), sound: generation(sound), inDatabase: generation(inDatabase)}
		s.strand(t, stranded, 4)
		s.strand(t, lost, -4)
		for round, want := range []int64{6, 10, 10} {
			time.Sleep(2 * r.Stock.Grace())
			if err := r.step(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := left(t, r.Stock, stranded); n != want {
				t.Errorf("round %d leaves %d units, want %d", round+1, n, want)
			}
		}
		if n := left(t, r.Stock, lost); n != 14 {
			t.Errorf("%d units are left of the item with lost updates, want 14", n)
		}
		for sku, key := range before {
			if generation(sku) != key {
				t.Errorf("%s has a new generation without need", sku)
			}
		}
	})
}

// Of two shops one makes the rounds. When it is dead the other does.
func TestOneShopReconcilesAtATime(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		first, second := s.stopped(t, io.Discard), s.stopped(t, io.Discard)
		sku := s.put(t, first.Stock, 10)
		step := func(r *reconciler) {
			t.Helper()
			time.Sleep(2 * r.Stock.Grace())
			if err := r.step(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		step(first)
		s.strand(t, sku, 3)
		for range 3 {
			step(second)
		}
		if n := left(t, second.Stock, sku); n != 7 {
			t.Errorf("the shop without the lease has repaired: %d left, want 7", n)
		}
		// The first is killed, and its lease ends.
		if err := s.db.Model(&lease{}).Where("name = ?", first.claim.name).Update("ends_at", 1).Error; err != nil {
			t.Fatal(err)
		}
		step(second)
		step(first) // it was only paused, and comes too late
		step(second)
		if n := left(t, second.Stock, sku); n != 10 {
			t.Errorf("%d left after the other shop has taken over, want 10", n)
		}
	})
}

// A failure is logged once, is no hang, and ends with the outage.
func TestRoundsGoOnAfterAnOutage(t *testing.T) {
	redisServer, dbServer := backendtest.RestartableRedis(t), backendtest.RestartableDatabase(t)
	s := newSite(t, redisServer.URL, dbServer.URL)
	var log buffer
	r := s.stopped(t, &log)
	skus := make([]string, 10)
	for i := range skus {
		skus[i] = s.put(t, r.Stock, 10)
	}
	servers := map[string]struct {
		kill    func()
		restart func() error
	}{
		"redis":    {redisServer.Kill, func() error { return redisServer.Restart(t.Context()) }},
		"database": {dbServer.Kill, func() error { return dbServer.Restart(t.Context()) }},
	}
	for name, server := range servers {
		logged := log.count("level=WARN")
		server.kill()
		for range 3 {
			began := time.Now()
			err := r.step(t.Context())
			r.failures.note(err)
			if took := time.Since(began); err == nil || took > statementTimeout+backendtest.Slack {
				t.Errorf("without the %s a round ends after %v with %v", name, took, err)
			}
		}
		if n := log.count("level=WARN") - logged; n != 1 {
			t.Errorf("%d lines about three rounds without the %s, want 1", n, name)
		}
		if err := server.restart(); err != nil {
			t.Fatal(err)
		}
		worked := log.count("works again")
		await(t, 0, "a round works again", func() bool {
			err := r.step(t.Context())
			r.failures.note(err)
			return err == nil
		})
		if n := log.count("works again") - worked; n != 1 {
			t.Errorf("%d lines say that it works again, want 1", n)
		}
		for i, sku := range skus {
			s.strand(t, sku, int64(i%3))
		}
		for range 2 {
			time.Sleep(2 * r.Stock.Grace())
			if err := r.step(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		for _, sku := range skus {
			if n := left(t, r.Stock, sku); n != 10 {
				t.Errorf("%d left of %s after the outage of the %s, want 10", n, sku, name)
			}
		}
	}
}

// Items that cannot be read do not keep the others from being repaired, even if there are so many
// that a backend seems to be unavailable.
func TestBadItemsDoNotStopTheOthers(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		r := s.stopped(t, io.Discard)
		const rounds = 2 // until the round comes to the good item
		hook := new(locktest.Hook)
		s.rdb.AddHook(hook)
		for range rounds * maxFailures {
			key, err := stockKey(t.Context(), s.rdb, s.put(t, r.Stock, 10))
			if err != nil {
				t.Fatal(err)
			}
			hook.On(locktest.Mentioning(key), -1, locktest.Fail(locktest.ErrCut))
		}
		good := s.put(t, r.Stock, 10)
		s.strand(t, good, 2)
		for range rounds + 2 {
			time.Sleep(2 * r.Stock.Grace())
			if err := r.step(t.Context()); err == nil {
				t.Error("the bad item is not reported")
			}
		}
		if n := left(t, r.Stock, good); n != 10 {
			t.Errorf("%d left, want 10", n)
		}
	})
}

// The process that has the lease renews it between two rounds, too.
func TestLeaseIsRenewedBetweenRounds(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		r := s.stopped(t, io.Discard)
		r.claim.ttl = 600 * time.Millisecond
		if err := r.step(t.Context()); err != nil || !r.mine {
			t.Fatalf("has had the lease: %v, %v", r.mine, err)
		}
		const tries = 20 // a machine that stalls may let a pause end before its renewal
		first := r.claim.endsAt(t)
		for range tries {
			if err := r.rest(t.Context(), r.claim.ttl/2); err != nil {
				t.Fatal(err)
			}
			if r.claim.endsAt(t) > first {
				return
			}
		}
		t.Errorf("the lease was not renewed in %d pauses", tries)
	})
}
