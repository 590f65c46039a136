package bench

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"gorm.io/gorm"

	"oversell/internal/backend/backendtest"
	"oversell/internal/bench/report"
	"oversell/internal/catalog"
	"oversell/internal/fault"
	"oversell/internal/fleet"
	"oversell/internal/page/texts"
	"oversell/internal/stock"
)

// site has private servers, and clients that connect to them as a shop does.
type site struct {
	*chaosRow
	rdb redis.UniversalClient
	db  *gorm.DB
	n   int
}

func newSite(t *testing.T, redisSpec, dbSpec string) *site {
	t.Helper()
	if redisSpec == "local" {
		backendtest.Need(t, "redis-server")
	}
	if dbSpec == "local" {
		backendtest.Need(t, "mariadb-install-db")
	}
	servers, err := ServeChaos(t.Context(), redisSpec, dbSpec)
	must(t, err)
	backendtest.CloseAfter(t, servers)
	through, links := setup{RedisURL: servers.RedisURL, DBURL: servers.DBURL}, make(map[string]*fault.Relay)
	for _, to := range []string{toRedis, toDatabase} {
		link, err := through.relay(to)
		must(t, err)
		if link != nil {
			links[to] = link
			backendtest.CloseAfter(t, link)
		}
	}
	s := &site{chaosRow: &chaosRow{run: &run{
		cfg: Config{Chaos: servers}, shops: &shops{Fleet: fleet.Of(&fleet.Member{Links: links})}, skus: []string{"hot"},
	}}}
	s.rdb, s.db = backendtest.DialRedis(t, through.RedisURL), backendtest.DialDatabase(t, through.DBURL)
	must(t, stock.Migrate(t.Context(), s.db))
	return s
}

// strike begins a fault of a kind.
func (s *site) strike(t *testing.T, k ChaosKind, f chaosFault) (end func(context.Context) error) {
	t.Helper()
	f.trait = traitOf(k)
	end, err := s.begin(t.Context(), f)
	must(t, err)
	return end
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
	must(t, s.db.WithContext(t.Context()).Model(&stock.Order{}).Count(&n).Error)
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
	n, err := s.cfg.Chaos.admin.Exists(t.Context(), key).Result()
	must(t, err)
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

// What a write during a fault must end in, besides an error with a given text.
const (
	fails  = ""                   // in any error
	either = "success or failure" // the outcome depends on the speed of the machine
)

func checkError(t *testing.T, err error, want string) {
	t.Helper()
	if want != either && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("error %v, want one with %q", err, want)
	}
}

// Each fault has its effect on a real Redis, and Redis recovers when the fault ends.
func TestFaultsOfRedis(t *testing.T) {
	s := newSite(t, "local", "embedded")
	for _, tt := range []struct {
		kind   ChaosKind
		fault  chaosFault
		during string // the error of a write
		lost   bool   // the data from before the fault is lost
	}{
		{redisFlush, chaosFault{}, either, true},
		{redisFlushOften, chaosFault{}, either, true},
		{redisKill, chaosFault{}, fails, false},
		{redisKillEmpty, chaosFault{}, fails, true},
		{redisStop, chaosFault{}, fails, false},
		{redisReadOnly, chaosFault{}, "READONLY", false},
		{redisOOM, chaosFault{}, "OOM", false},
		{redisClientPause, chaosFault{lasts: 8 * brief}, fails, false},
		{redisBlackHole, chaosFault{victim: everyShop}, fails, false},
		{redisDisconnected, chaosFault{victim: everyShop}, fails, false},
		{redisRepliesLost, chaosFault{victim: everyShop}, fails, false},
		{redisRepliesLate, chaosFault{victim: everyShop, delay: 4 * brief}, fails, false},
	} {
		t.Run(string(tt.kind), func(t *testing.T) {
			s.recovers(t)
			must(t, s.cfg.Chaos.admin.Set(t.Context(), "before", "v", 0).Err())
			end := s.strike(t, tt.kind, tt.fault)
			checkError(t, first(func() error { return s.set(t, "meanwhile", 2*brief) }), tt.during)
			must(t, end(t.Context()))
			s.recovers(t)
			if s.has(t, "before") == tt.lost {
				t.Errorf("what was there before is lost: %v, want %v", !tt.lost, tt.lost)
			}
		})
	}
	t.Run("what is in a black hole arrives", func(t *testing.T) {
		end := s.strike(t, redisBlackHole, chaosFault{})
		checkError(t, s.set(t, "held up", brief), fails)
		must(t, end(t.Context()))
		s.recovers(t)
		if !s.has(t, "held up") {
			t.Error("it does not")
		}
	})
	t.Run(string(redisClientKill), func(t *testing.T) {
		before := s.rdb.ClientID(t.Context()).Val()
		s.strike(t, redisClientKill, chaosFault{})
		s.recovers(t)
		if after := s.rdb.ClientID(t.Context()).Val(); after == before {
			t.Errorf("the connection is still %d", after)
		}
	})
}

// A fault without traffic leaves nothing behind: a reply that comes after its end is not lost.
func TestNoReplyIsLostAfterTheEnd(t *testing.T) {
	s := newSite(t, "embedded", "embedded")
	must(t, s.strike(t, redisRepliesLost, chaosFault{victim: everyShop})(t.Context()))
	must(t, s.set(t, "after", backendtest.Slack))
}

func TestLostKeys(t *testing.T) {
	for _, tt := range []struct {
		kind              ChaosKind
		sale, lock, other bool
	}{
		{redisKeysLost, false, false, true},
		{redisStockLost, true, true, true},
	} {
		s := newSite(t, "embedded", "embedded")
		for _, key := range []string{"oversell:{hot}:stock", "oversell:{hot}:sale", "oversell:{hot}:lock:v6_watchdog",
			"oversell:{hotter}:stock"} {
			must(t, s.set(t, key, time.Second))
		}
		s.strike(t, tt.kind, chaosFault{})
		for key, want := range map[string]bool{
			"oversell:{hot}:stock": false, "oversell:{hot}:sale": tt.sale,
			"oversell:{hot}:lock:v6_watchdog": tt.lock, "oversell:{hotter}:stock": tt.other,
		} {
			if got := s.has(t, key); got != want {
				t.Errorf("%s: %s is there: %v, want %v", tt.kind, key, got, want)
			}
		}
		must(t, s.set(t, "again", time.Second))
	}
}

func TestFaultsOfTheDatabase(t *testing.T) {
	s := newSite(t, "embedded", "local")
	for _, tt := range []struct {
		kind   ChaosKind
		fault  chaosFault
		during string // the error of an insert
	}{
		{dbKill, chaosFault{}, fails},
		{dbStop, chaosFault{}, fails},
		{dbReadOnly, chaosFault{}, "read-only"},
		{dbTableFull, chaosFault{}, "is full"},
		{dbSlowInserts, chaosFault{delay: 3 * brief}, fails},
		{dbBlackHole, chaosFault{victim: everyShop}, fails},
		{dbDisconnected, chaosFault{victim: everyShop}, fails},
		{dbRepliesLost, chaosFault{victim: everyShop}, fails},
		{dbRepliesLate, chaosFault{victim: 0, delay: 3 * brief}, fails},
	} {
		t.Run(string(tt.kind), func(t *testing.T) {
			s.recovers(t)
			before := s.orders(t)
			end := s.strike(t, tt.kind, tt.fault)
			checkError(t, first(func() error { return s.order(t, 2*brief) }), tt.during)
			must(t, end(t.Context()))
			s.recovers(t)
			if after := s.orders(t); after <= before {
				t.Errorf("%d orders, and before the fault %d", after, before)
			}
		})
	}
	t.Run(string(dbClientKill), func(t *testing.T) {
		id := func() (id int64) {
			must(t, s.db.WithContext(t.Context()).Raw("SELECT CONNECTION_ID()").Scan(&id).Error)
			return id
		}
		before := id()
		s.strike(t, dbClientKill, chaosFault{})
		s.recovers(t)
		if after := id(); after == before {
			t.Errorf("the connection is still %d", after)
		}
	})
}

// A shop that fails to start is started again.
func TestShopIsStartedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		started, taken := 0, errors.New("the port is taken")
		c := &chaosRow{run: &run{shops: &shops{Fleet: fleet.New(func(int) (fleet.Program, error) {
			started++
			return fleet.Program{}, taken
		})}}}
		if err := c.restart(0)(t.Context()); started != 5 || !errors.Is(err, taken) {
			t.Errorf("it was started %d times, %v; want 5, %v", started, err, taken)
		}
	})
}

// A new shop that does not take its plan does not outlive the attempt.
func TestShopWithoutAPlanIsKilled(t *testing.T) {
	deaf := func() (*exec.Cmd, error) {
		return exec.Command("sh", "-c", `echo '{"ready":""}'; exec cat >/dev/null`), nil
	}
	started := fleet.New(func(int) (fleet.Program, error) { return fleet.Program{Name: "deaf", Command: deaf}, nil })
	must(t, started.Fill(t.Context(), 1))
	defer started.Stop(0)
	old := started.Members()[0]
	old.Kill()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for started.Members()[0] == old {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	c := &chaosRow{run: &run{shops: &shops{Fleet: started}, skus: []string{"hot"}}}
	err := c.replace(ctx, 0)
	select {
	case <-started.Members()[0].Done():
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want %v", err, context.Canceled)
		}
	default:
		t.Errorf("%v, and the new shop is running", err)
	}
}

// A fault that repeats needs no end if its context ends.
func TestRepeatingEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		end, err := repeat(ctx, often, func(context.Context) error {
			n++
			return nil
		})
		must(t, err)
		time.Sleep(often * 5 / 2)
		cancel()
		synctest.Wait()
		time.Sleep(10 * often)
		must(t, end(t.Context()))
		if n != 3 {
			t.Errorf("it was done %d times, want 3", n)
		}
	})
}

// A fault has no effect on servers that the bench did not start.
func TestOnlyOwnServersAreHarmed(t *testing.T) {
	for _, specs := range [][2]string{
		{"redis://127.0.0.1:6379", "embedded"}, {"embedded", "u@tcp(127.0.0.1:3306)/shop"},
		{"embedded", "sqlite:/tmp/x.db"},
	} {
		if s, err := ServeChaos(t.Context(), specs[0], specs[1]); !errors.Is(err, ErrConfig) {
			t.Errorf("%v: %+v, %v", specs, s, err)
		}
	}
}

// Also a strategy of which nothing is expected must not lose a confirmed order or let a key buy twice.
func TestNoStrategyMayLoseAConfirmedOrder(t *testing.T) {
	nothing := catalog.Leeway{Undecided: true}
	if d := chaosDiffers(nothing, &report.Chaos{Oversold: 4, Stranded: 5, Remaining: 6}); d.String() != "" {
		t.Errorf("without an expectation: %q", d)
	}
	d := chaosDiffers(nothing, &report.Chaos{Missing: 1, Duplicates: 2, Unreported: 3, Oversold: 4})
	const want = "acknowledged_missing 1, duplicates 2, orders that no buyer was told of: 3"
	if got := d.String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A sale without a fault shows nothing about faults.
func TestSaleWithoutAFaultIsNotAsExpected(t *testing.T) {
	for _, faults := range [][]report.Fault{nil, {{Skipped: true}}, {{Skipped: true}, {Again: new(0.5), Limit: 1}}} {
		d := chaosDiffers(catalog.Leeway{}, &report.Chaos{SoldOut: true, Faults: faults})
		if injected := len(faults) == 2; (d.String() == "") != injected {
			t.Errorf("%+v: %q", faults, d)
		}
	}
}

// Every way in which a row under chaos can differ from the expectation is translated into Chinese.
func TestChaosDifferencesAreToldInChinese(t *testing.T) {
	l, err := texts.OfBench("zh")
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range []report.Chaos{{SoldOut: true}, {
		Missing: 1, Duplicates: 2, Foreign: 3, Oversold: 4, Stranded: 5, Remaining: 6, Unreported: 7,
		Faults: []report.Fault{
			{Kind: "redis-oom", At: 1.5, Again: new(9.25), Limit: 2},
			{Kind: "shop-kill", At: 2, Limit: 5},
			{Kind: "db-kill", At: 3, Skipped: true, Error: "EOF"},
		},
	}} {
		differs := chaosDiffers(catalog.Leeway{}, &found)
		told := differs.Translate(l.Say)
		for _, word := range regexp.MustCompile(`[A-Za-z]{2,}[\w-]*`).FindAllString(told, -1) {
			if !regexp.MustCompile(`^(redis-oom|shop-kill|db-kill|EOF)$`).MatchString(word) {
				t.Errorf("%q is left of %q in %q", word, differs.String(), told)
			}
		}
	}
}
