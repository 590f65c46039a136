package shop_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"gorm.io/gorm"

	"oversell/internal/backend/backendtest"
	"oversell/internal/figures"
	"oversell/internal/locks/locktest"
)

// saleKey is the Redis key that holds the ids of the current sale and generation.
const saleKey = "oversell:{hot}:sale"

// atPublication returns a hook that calls stop when a generation is published, either before or after
// Redis has it.
func atPublication(seam string, stop func(string) error) redis.Hook {
	hook := new(locktest.Hook)
	set := locktest.All(locktest.Command("set"), locktest.Mentioning(saleKey))
	hook.On(set, 1, func(_ context.Context, send func() error) error {
		if seam == published {
			if err := send(); err != nil {
				return err
			}
		}
		return stop(seam)
	})
	return hook
}

// A generation of lua_stream is committed to the item's row, then published in Redis, and then
// marked as published in the row. A shop is killed with SIGKILL before or after the publication that
// follows a count of the stock or a PUT. The next shop publishes the row's generation, and the sale
// continues: every unit is sold once.
func TestKillBetweenACountAndItsPublication(t *testing.T) {
	t.Parallel()
	for _, backends := range backendtest.Kinds() {
		for _, seam := range []string{unpublished, published} {
			t.Run(backends+"/"+seam+"/count", func(t *testing.T) {
				s := newPublication(t, backends, seam)
				must(t, put(s.front, 60))
				s.front.accept(t, 20)
				s.evict(t)
				s.killDuring(t, func(victim *running) { victim.buy() })
				s.wantRestSold(t, 60, 20)
			})
			t.Run(backends+"/"+seam+"/put", func(t *testing.T) {
				s := newPublication(t, backends, seam)
				must(t, put(s.front, 60))
				s.front.accept(t, 20)
				s.killDuring(t, func(victim *running) { _ = put(victim, 40) })
				s.wantRestSold(t, 40, 0)
			})
		}
	}
}

// publication is a test in which a shop is killed when it publishes a generation.
type publication struct {
	seam            string
	redisURL, dbURL string
	rdb             redis.UniversalClient
	db              *gorm.DB
	front           *running // a shop that is never killed and writes the accepted orders
}

func newPublication(t *testing.T, backends, seam string) *publication {
	t.Helper()
	s := &publication{seam: seam, redisURL: backendtest.Redis(t, backends), dbURL: backendtest.Database(t, backends)}
	s.rdb, s.db = backendtest.DialRedis(t, s.redisURL), backendtest.DialDatabase(t, s.dbURL)
	cfg := config(s.redisURL, s.dbURL, 0)
	cfg.Item, cfg.Strategy = nil, "lua_stream"
	s.front = open(t, cfg)
	return s
}

// put begins a new sale. The shop may be killed before it replies.
func put(r *running, units int) error {
	body := strings.NewReader(fmt.Sprintf(`{"stock":%d}`, units))
	req, err := http.NewRequest(http.MethodPut, "http://"+r.addr+"/api/items/hot", body)
	if err != nil {
		return err
	}
	res, err := r.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("putting the item: %s", res.Status)
	}
	return nil
}

// evict removes the stock from Redis, so that the next buyer causes a count.
func (s *publication) evict(t *testing.T) {
	t.Helper()
	keys, err := s.rdb.Keys(t.Context(), "oversell:{hot}:stock:*").Result()
	if err != nil || len(keys) != 1 {
		t.Fatalf("the keys of the stock are %q, %v; want one", keys, err)
	}
	must(t, s.rdb.Del(t.Context(), keys[0]).Err())
}

// killDuring starts a shop, calls do, which makes the shop publish a generation, and kills the shop at
// the seam.
func (s *publication) killDuring(t *testing.T, do func(victim *running)) {
	t.Helper()
	process, addr := startChild(t, s.seam, s.redisURL, s.dbURL)
	done := make(chan struct{})
	go func() {
		defer close(done)
		do(&running{addr: addr, client: s.front.client})
	}()
	if said := process.next(t); said != "stopped" {
		t.Fatalf("the child says %q", said)
	}
	var row struct {
		Generation  string
		Unpublished bool
	}
	err := s.db.Raw("SELECT generation, unpublished FROM oversell_items WHERE sku = 'hot'").Scan(&row).Error
	must(t, err)
	sale, err := s.rdb.Get(t.Context(), saleKey).Result()
	if err != nil && err != redis.Nil {
		t.Fatal(err)
	}
	if has := strings.Contains(sale, row.Generation); !row.Unpublished || has != (s.seam == published) {
		t.Errorf("the row is unpublished: %v; Redis has its generation: %v", row.Unpublished, has)
	}
	process.kill()
	<-done
}

// wantRestSold starts another shop in place of the killed one. This shop and the front must sell
// exactly the remaining units, and the audit must agree.
func (s *publication) wantRestSold(t *testing.T, initial, sold int) {
	t.Helper()
	_, addr := startChild(t, successor, s.redisURL, s.dbURL)
	restarted, begun := &running{addr: addr, client: s.front.client}, time.Now()
	half := (initial - sold) / 2
	restarted.accept(t, half)
	t.Logf("%d were sold %v after the restart", half, time.Since(begun).Round(time.Millisecond))
	s.front.accept(t, initial-sold-half)
	for _, at := range []*running{s.front, restarted} {
		if a := at.buy(); a.code != "sold_out" {
			t.Errorf("one buyer more got %d %s", a.status, a.code)
		}
	}
	want := figures.Stock{Initial: int64(initial), Sold: int64(initial), Orders: int64(initial)}
	if a := drained(t, s.front); a.Stock != want || a.AcceptedLost != 0 || a.Duplicates != 0 {
		t.Errorf("the audit finds %+v, want %+v", a, want)
	}
}
