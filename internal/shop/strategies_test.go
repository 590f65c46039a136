package shop_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"

	"oversell/internal/backend/backendtest"
	"oversell/internal/backend/coordination/coordtest"
	"oversell/internal/backend/imitation"
	"oversell/internal/backend/lockservers"
	"oversell/internal/backend/lockservers/lockserverstest"
	"oversell/internal/catalog"
	"oversell/internal/shop"
	"oversell/internal/stock"
)

// Two shops take turns in selling one item, by every strategy that the servers allow.
func sellByAll(t *testing.T, redisURL string, at lockservers.Addresses, list catalog.List) {
	t.Helper()
	cfg := config(redisURL, backendtest.Database(t, "local"), 1)
	cfg.Servers, cfg.Catalog, cfg.Strategy = lockservers.Running(at), list, list[0].Name
	a, b := open(t, cfg), open(t, cfg)
	for _, s := range list {
		keeper := stock.InRedis
		if s.InDatabase() {
			keeper = stock.InDatabase
		}
		path := "/api/items/" + strings.ReplaceAll(s.Name, "_", "-")
		for i, want := range []int{http.StatusOK, http.StatusOK, http.StatusOK, http.StatusConflict} {
			r, other := a, b
			if i%2 == 1 {
				r, other = b, a
			}
			if i == 0 {
				if got := other.send(t, http.MethodPut, path, fmt.Sprintf(`{"stock":3,"keeper":%q}`, keeper)); got != http.StatusOK {
					t.Fatalf("%s: putting the item: %d", s.Name, got)
				}
			}
			if s.Kind == catalog.Streamed && want == http.StatusOK {
				want = http.StatusAccepted
			}
			if got := r.buyBy(t, path+"/deduct?strategy="+s.Name); got != want {
				t.Errorf("%s: buyer %d got %d, want %d", s.Name, i+1, got, want)
			}
		}
	}
}

// buyBy buys one unit and returns the status. If the replicas do not have the lock in time,
// as on a busy machine, nothing was sold, and it tries again.
func (r *running) buyBy(t *testing.T, path string) int {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; {
		status, reply := r.exchange(t, http.MethodPost, path, `{"quantity":1}`)
		var problem struct{ Code string }
		if err := json.Unmarshal(reply, &problem); err != nil {
			t.Fatalf("%s: %v in %q", path, err, reply)
		}
		if problem.Code != "not_replicated" || time.Now().After(end) {
			return status
		}
	}
}

// send sends a request and returns the status.
func (r *running) send(t *testing.T, method, path, body string) int {
	t.Helper()
	status, _ := r.exchange(t, method, path, body)
	return status
}

// exchange sends a request and returns the status and the reply.
func (r *running) exchange(t *testing.T, method, path, body string) (status int, reply []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+r.addr+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	res, err := r.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if reply, err = io.ReadAll(res.Body); err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, reply
}

func TestEveryStrategySells(t *testing.T) {
	var list catalog.List
	for _, s := range catalog.Strategies() {
		if s.Needs != catalog.NeedsZooKeeper && s.Needs != catalog.NeedsReplicas && s.Needs.Commands() == "" {
			list = append(list, s)
		}
	}
	sellByAll(t, backendtest.Redis(t, "local"), lockserverstest.Embedded(t), list)
}

// needing returns the strategies that need newer commands of Redis.
func needing(t *testing.T) catalog.List {
	t.Helper()
	var list catalog.List
	for _, s := range catalog.Strategies() {
		if s.Needs.Commands() != "" {
			list = append(list, s)
		}
	}
	if len(list) == 0 {
		t.Fatal("no strategy needs newer commands")
	}
	return list
}

func TestStrategiesWithNewerCommandsSell(t *testing.T) {
	sellByAll(t, backendtest.Redis(t, "embedded"), lockservers.Addresses{}, needing(t))
}

// A Redis without the commands, and one that does not tell what it has, offer no strategy that
// needs them.
func TestRedisWithoutNewerCommandsOffersNoStrategyThatNeedsThem(t *testing.T) {
	for name, answer := range map[string]string{"older": "", "refuses": "NOPERM no permission to run 'command'"} {
		t.Run(name, func(t *testing.T) {
			m := miniredis.RunT(t)
			imitation.Install(m, imitation.Redis70)
			if answer != "" {
				m.Server().SetPreHook(func(c *server.Peer, command string, _ ...string) bool {
					if command != "COMMAND" {
						return false
					}
					c.WriteError(answer)
					return true
				})
			}
			redisURL, dbURL := "redis://"+m.Addr(), backendtest.Database(t, "embedded")
			r := open(t, config(redisURL, dbURL, 1))
			for _, s := range needing(t) {
				wantAbsent(t, r, s.Name, "the shop's Redis lacks it")
				wantNoDefault(t, config(redisURL, dbURL, 1), s.Name, s.Needs.Commands())
			}
		})
	}
}

func TestZooKeeperSells(t *testing.T) {
	s, err := catalog.Strategies().Find("zookeeper")
	if err != nil {
		t.Fatal(err)
	}
	sellByAll(t, backendtest.Redis(t, "local"), lockservers.Addresses{ZooKeeper: []string{coordtest.ZooKeeper(t)}}, catalog.List{s})
}

// wantAbsent checks that a shop does not offer a strategy and says why.
func wantAbsent(t *testing.T, r *running, name, why string) {
	t.Helper()
	if _, offered := r.exchange(t, http.MethodGet, "/api/strategies", ""); strings.Contains(string(offered), fmt.Sprintf(`"name":%q`, name)) {
		t.Errorf("%s is offered", name)
	}
	for _, request := range [][3]string{
		{http.MethodPost, "/api/items/hot/deduct?strategy=" + name, `{"quantity":1}`},
		{http.MethodPut, "/api/strategy", fmt.Sprintf(`{"name":%q}`, name)},
	} {
		status, reply := r.exchange(t, request[0], request[1], request[2])
		if status != http.StatusNotFound || !strings.Contains(string(reply), why) {
			t.Errorf("%s %s: got %d %s, want %d and %q", request[0], request[1], status, reply, http.StatusNotFound, why)
		}
	}
}

// wantNoDefault checks that no shop starts with a strategy as its default, and why.
func wantNoDefault(t *testing.T, cfg shop.Config, name, why string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cfg.Strategy, cfg.Ready = name, func(string) { cancel() }
	if err := shop.Run(ctx, cfg); err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("%s as the default: got %v, want %q", name, err, why)
	}
}

// A strategy whose servers are missing is not offered.
func TestStrategiesWithoutTheirServersAreNotOffered(t *testing.T) {
	r := open(t, config(backendtest.Redis(t, "embedded"), backendtest.Database(t, "embedded"), 1))
	for _, name := range []string{"redlock", "etcd", "zookeeper"} {
		wantAbsent(t, r, name, "needs -"+name)
	}
}

func TestSQLiteHasNoLocksToOffer(t *testing.T) {
	redisURL, dbURL := backendtest.Redis(t, "embedded"), backendtest.Database(t, "embedded")
	r := open(t, config(redisURL, dbURL, 1))
	for _, name := range []string{"sql_for_update", "sql_get_lock"} {
		wantAbsent(t, r, name, "MySQL or MariaDB")
		wantNoDefault(t, config(redisURL, dbURL, 1), name, "MySQL or MariaDB")
	}
}

func TestRedisWithoutReplicasOffersNoWaitingForThem(t *testing.T) {
	redisURL, dbURL := backendtest.Redis(t, "local"), backendtest.Database(t, "embedded")
	r := open(t, config(redisURL, dbURL, 1))
	for _, name := range []string{"v6_wait_one", "v6_wait_all"} {
		wantAbsent(t, r, name, "replicas")
		wantNoDefault(t, config(redisURL, dbURL, 1), name, "replicas")
	}
}

func TestWaitersForReplicasSell(t *testing.T) {
	set := backendtest.Failovers(t)
	var list catalog.List
	for _, s := range catalog.Strategies() {
		if s.Needs == catalog.NeedsReplicas {
			list = append(list, s)
		}
	}
	sellByAll(t, set.URL(), lockservers.Addresses{}, list)
}
