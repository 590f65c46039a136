package chaos

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"gorm.io/gorm"

	"oversell/internal/backend"
	"oversell/internal/backend/backendtest"
	"oversell/internal/fault"
	"oversell/internal/fleet"
	"oversell/internal/stock"
)

// site has private servers, and clients that connect to them as a shop does.
type site struct {
	World
	rdb redis.UniversalClient
	db  *gorm.DB
	n   int
}

func newSite(t *testing.T, redisSpec, dbSpec string) *site {
	t.Helper()
	if redisSpec == privateOnly {
		backendtest.Need(t, "redis-server")
	}
	if dbSpec == privateOnly {
		backendtest.Need(t, "mariadb-install-db")
	}
	servers, err := Serve(t.Context(), redisSpec, dbSpec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { no(t, servers.Close()) })
	s := &site{World: World{Servers: servers, SKU: "hot"}}
	links := make(map[string]*fault.Relay)
	link := func(to string, r *fault.Relay, through string, err error) string {
		no(t, err)
		links[to] = r
		t.Cleanup(func() { no(t, r.Close()) })
		return through
	}
	r, url, err := StartRedisRelay(servers.RedisURL)
	s.rdb = backendtest.DialRedis(t, link(ToRedis, r, url, err))
	if r, url, err = StartDatabaseRelay(servers.DBURL); errors.Is(err, backend.ErrNotRelayed) {
		s.db = backendtest.DialDatabase(t, servers.DBURL)
	} else {
		s.db = backendtest.DialDatabase(t, link(ToDatabase, r, url, err))
	}
	s.Shops = []*fleet.Member{{Links: links}}
	no(t, stock.Migrate(t.Context(), s.db))
	return s
}

func no(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// brief is the patience of a request that gets no reply.
const brief = 150 * time.Millisecond

// set writes a key, and gives up after patience.
func (s *site) set(t *testing.T, key string, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return s.rdb.Set(ctx, key, "v", 0).Err()
}

// order inserts an order, and gives up after patience.
func (s *site) order(t *testing.T, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s.n++
	key := fmt.Sprint(s.n)
	order := stock.Order{ID: fmt.Sprintf("order-%03d", s.n), SaleID: "s", SKU: "hot", Quantity: 1, IdempotencyKey: &key}
	return s.db.WithContext(ctx).Create(&order).Error
}

// orders counts the orders in the database.
func (s *site) orders(t *testing.T) (n int64) {
	t.Helper()
	no(t, s.db.WithContext(t.Context()).Model(&stock.Order{}).Count(&n).Error)
	return n
}

// recovers waits until both servers can be written to again.
func (s *site) recovers(t *testing.T) {
	t.Helper()
	var redisErr, dbErr error
	for end := time.Now().Add(backendtest.Slack); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		redisErr, dbErr = s.set(t, "after", time.Second), s.order(t, time.Second)
		if redisErr == nil && dbErr == nil {
			return
		}
	}
	t.Fatalf("redis: %v; database: %v", redisErr, dbErr)
}

// has reports whether a key exists.
func (s *site) has(t *testing.T, key string) bool {
	t.Helper()
	n, err := s.Servers.admin.Exists(t.Context(), key).Result()
	no(t, err)
	return n == 1
}

// first repeats try for a short time and returns its first error: a server does not stop
// immediately when it gets a signal.
func first(try func() error) (err error) {
	for end := time.Now().Add(4 * brief); err == nil && time.Now().Before(end); {
		err = try()
	}
	return err
}

func says(word string) func(*testing.T, *site, error) {
	return func(t *testing.T, _ *site, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("error %v, want one with %q", err, word)
		}
	}
}

func fails(t *testing.T, _ *site, err error) {
	t.Helper()
	if err == nil {
		t.Error("it succeeds")
	}
}

// either accepts both success and failure: the outcome depends on the speed of the machine.
func either(*testing.T, *site, error) {}

// Each fault has its effect on a real Redis, and Redis recovers when the fault ends.
func TestFaultsOfRedis(t *testing.T) {
	s := newSite(t, privateOnly, embedded)
	for _, tt := range []struct {
		fault  Fault
		during func(*testing.T, *site, error) // checks a write during the fault
		lost   bool                           // the data from before the fault is lost
	}{
		{Fault{Kind: RedisFlush}, either, true},
		{Fault{Kind: RedisFlushOften}, either, true},
		{Fault{Kind: RedisKill}, fails, false},
		{Fault{Kind: RedisKillEmpty}, fails, true},
		{Fault{Kind: RedisStop}, fails, false},
		{Fault{Kind: RedisReadOnly}, says("READONLY"), false},
		{Fault{Kind: RedisOOM}, says("OOM"), false},
		{Fault{Kind: RedisClientPause, For: 8 * brief}, fails, false},
		{Fault{Kind: RedisBlackHole, Victim: all}, fails, false},
		{Fault{Kind: RedisDisconnected, Victim: all}, fails, false},
		{Fault{Kind: RedisRepliesLost, Victim: all}, fails, false},
		{Fault{Kind: RedisRepliesLate, Victim: all, Amount: 4 * brief}, fails, false},
	} {
		t.Run(string(tt.fault.Kind), func(t *testing.T) {
			s.recovers(t)
			no(t, s.Servers.admin.Set(t.Context(), "before", "v", 0).Err())
			end, err := s.Begin(t.Context(), tt.fault)
			no(t, err)
			tt.during(t, s, first(func() error { return s.set(t, "meanwhile", 2*brief) }))
			no(t, end(t.Context()))
			s.recovers(t)
			if s.has(t, "before") == tt.lost {
				t.Errorf("what was there before is lost: %v, want %v", !tt.lost, tt.lost)
			}
		})
	}
	t.Run("what is in a black hole arrives", func(t *testing.T) {
		end, err := s.Begin(t.Context(), Fault{Kind: RedisBlackHole, Victim: 0})
		no(t, err)
		fails(t, s, s.set(t, "held up", brief))
		no(t, end(t.Context()))
		s.recovers(t)
		if !s.has(t, "held up") {
			t.Error("it does not")
		}
	})
	t.Run(string(RedisClientKill), func(t *testing.T) {
		before := s.rdb.ClientID(t.Context()).Val()
		_, err := s.Begin(t.Context(), Fault{Kind: RedisClientKill})
		no(t, err)
		s.recovers(t)
		if after := s.rdb.ClientID(t.Context()).Val(); after == before {
			t.Errorf("the connection is still %d", after)
		}
	})
}

func TestLostKeys(t *testing.T) {
	for _, tt := range []struct {
		kind              Kind
		sale, lock, other bool
	}{
		{RedisKeysLost, false, false, true},
		{RedisStockLost, true, true, true},
	} {
		s := newSite(t, embedded, embedded)
		for _, key := range []string{"oversell:{hot}:stock", "oversell:{hot}:sale", "oversell:{hot}:lock:v6_watchdog",
			"oversell:{hotter}:stock"} {
			no(t, s.set(t, key, time.Second))
		}
		_, err := s.Begin(t.Context(), Fault{Kind: tt.kind})
		no(t, err)
		for key, want := range map[string]bool{
			"oversell:{hot}:stock": false, "oversell:{hot}:sale": tt.sale,
			"oversell:{hot}:lock:v6_watchdog": tt.lock, "oversell:{hotter}:stock": tt.other,
		} {
			if got := s.has(t, key); got != want {
				t.Errorf("%s: %s is there: %v, want %v", tt.kind, key, got, want)
			}
		}
		no(t, s.set(t, "again", time.Second))
	}
}

func TestFaultsOfTheDatabase(t *testing.T) {
	s := newSite(t, embedded, privateOnly)
	for _, tt := range []struct {
		fault  Fault
		during func(*testing.T, *site, error) // checks an insert during the fault
	}{
		{Fault{Kind: DBKill}, fails},
		{Fault{Kind: DBStop}, fails},
		{Fault{Kind: DBReadOnly}, says("read-only")},
		{Fault{Kind: DBTableFull}, says("is full")},
		{Fault{Kind: DBSlowInserts, Amount: 3 * brief}, fails},
		{Fault{Kind: DBBlackHole, Victim: all}, fails},
		{Fault{Kind: DBDisconnected, Victim: all}, fails},
		{Fault{Kind: DBRepliesLost, Victim: all}, fails},
		{Fault{Kind: DBRepliesLate, Victim: 0, Amount: 3 * brief}, fails},
	} {
		t.Run(string(tt.fault.Kind), func(t *testing.T) {
			s.recovers(t)
			before := s.orders(t)
			end, err := s.Begin(t.Context(), tt.fault)
			no(t, err)
			tt.during(t, s, first(func() error { return s.order(t, 2*brief) }))
			no(t, end(t.Context()))
			s.recovers(t)
			if after := s.orders(t); after <= before {
				t.Errorf("%d orders, and before the fault %d", after, before)
			}
		})
	}
	t.Run(string(DBClientKill), func(t *testing.T) {
		id := func() (id int64) {
			no(t, s.db.WithContext(t.Context()).Raw("SELECT CONNECTION_ID()").Scan(&id).Error)
			return id
		}
		before := id()
		_, err := s.Begin(t.Context(), Fault{Kind: DBClientKill})
		no(t, err)
		s.recovers(t)
		if after := id(); after == before {
			t.Errorf("the connection is still %d", after)
		}
	})
}

// A shop that fails to start is started again.
func TestShopIsStartedAgain(t *testing.T) {
	started := 0
	w := World{Start: func(_ context.Context, shop int) error {
		if started++; started < 3 || shop != 1 {
			return errors.New("the port is taken")
		}
		return nil
	}}
	no(t, w.restart(1)(t.Context()))
	if started != 3 {
		t.Errorf("it was started %d times", started)
	}
}

// A fault has no effect on servers that the bench did not start.
func TestOnlyOwnServersAreHarmed(t *testing.T) {
	for _, specs := range [][2]string{{"redis://127.0.0.1:6379", embedded}, {embedded, "u@tcp(127.0.0.1:3306)/shop"},
		{embedded, "sqlite:/tmp/x.db"}} {
		if s, err := Serve(t.Context(), specs[0], specs[1]); !errors.Is(err, ErrSpec) {
			t.Errorf("%v: %+v, %v", specs, s, err)
		}
	}
}
