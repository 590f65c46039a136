package shop_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"oversell/internal/backend/backendtest"
	"oversell/internal/backend/coordination/coordtest"
	"oversell/internal/backend/lockservers"
	"oversell/internal/backend/lockservers/lockserverstest"
	"oversell/internal/locks"
	"oversell/internal/stock"
)

// Two shops sell one item, in turns, by every strategy that the servers allow.
func sellByAll(t *testing.T, at lockservers.Addresses, catalog locks.Catalog) {
	t.Helper()
	cfg := config(backendtest.Redis(t, "local"), backendtest.Database(t, "local"), 1)
	cfg.Servers, cfg.Catalog, cfg.Strategy = at, catalog, catalog[0].Name
	a, b := open(t, cfg), open(t, cfg)
	for _, s := range catalog {
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
			if got := r.send(t, http.MethodPost, path+"/deduct?strategy="+s.Name, `{"quantity":1}`); got != want {
				t.Errorf("%s: buyer %d got %d, want %d", s.Name, i+1, got, want)
			}
		}
	}
}

// send sends a request and returns the status.
func (r *running) send(t *testing.T, method, path, body string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+r.addr+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	res, err := r.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if err := res.Body.Close(); err != nil {
		t.Error(err)
	}
	return res.StatusCode
}

func TestEveryStrategySells(t *testing.T) {
	var catalog locks.Catalog
	for _, s := range locks.Strategies() {
		if s.Needs != locks.NeedsZooKeeper {
			catalog = append(catalog, s)
		}
	}
	sellByAll(t, lockserverstest.Embedded(t), catalog)
}

func TestZooKeeperSells(t *testing.T) {
	s, err := locks.Strategies().Find("zookeeper")
	if err != nil {
		t.Fatal(err)
	}
	sellByAll(t, lockservers.Addresses{ZooKeeper: []string{coordtest.ZooKeeper(t)}}, locks.Catalog{s})
}

// What is not there is not offered.
func TestStrategiesWithoutTheirServersAreNotOffered(t *testing.T) {
	r := open(t, config(backendtest.Redis(t, "embedded"), backendtest.Database(t, "embedded"), 1))
	for _, name := range []string{"redlock", "etcd", "zookeeper"} {
		if got := r.send(t, http.MethodPost, "/api/items/hot/deduct?strategy="+name, `{"quantity":1}`); got != http.StatusNotFound {
			t.Errorf("%s: got %d, want %d", name, got, http.StatusNotFound)
		}
	}
}
