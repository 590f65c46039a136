package shop_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"

	"oversell/internal/backend/backendtest"
	"oversell/internal/backend/lockservers"
	"oversell/internal/catalog"
	"oversell/internal/locks/lease/leasetest"
	"oversell/internal/shop"
	"oversell/internal/stock"
)

// sellByAll opens two shops that take turns in selling one item, with each strategy in list.
func sellByAll(t *testing.T, redisURL string, at lockservers.Addresses, list catalog.List) {
	t.Helper()
	cfg := config(redisURL, backendtest.Database(t, "local"), 1)
	cfg.Servers, cfg.Strategy = lockservers.Running(at), list[0].Name
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
				body := fmt.Sprintf(`{"stock":3,"keeper":%q}`, keeper)
				if got := other.send(t, http.MethodPut, path, body); got != http.StatusOK {
					t.Fatalf("%s: putting the item: %d", s.Name, got)
				}
			}
			if s.Kind == catalog.Streamed && want == http.StatusOK {
				want = http.StatusAccepted
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
	status, _ := r.exchange(t, method, path, body)
	return status
}

// exchange sends a request and returns the status and the reply.
func (r *running) exchange(t *testing.T, method, path, body string) (status int, reply []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+r.addr+path, strings.NewReader(body))
	must(t, err)
	res, err := r.client.Do(req)
	must(t, err)
	defer res.Body.Close()
	if reply, err = io.ReadAll(res.Body); err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, reply
}

// leastRights starts a Redis with the restricted user that docs/http.md describes, and returns the URL
// for that user.
func leastRights(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/http.md")
	must(t, err)
	server := backendtest.RestartableRedis(t)
	_, rights, found := strings.Cut(string(text), "\nACL SETUSER oversell ")
	rights, _, _ = strings.Cut(rights, "\n")
	args := []any{"ACL", "SETUSER", "oversell"}
	for _, rule := range strings.Fields(rights) {
		args = append(args, rule)
	}
	if err := backendtest.DialRedis(t, server.URL).Do(t.Context(), args...).Err(); err != nil || !found {
		t.Fatalf("rights %q: %v", rights, err)
	}
	return "redis://oversell:PASSWORD@" + server.Addr
}

// Every strategy can sell as a Redis user that has only the rights in docs/http.md.
func TestEveryStrategySells(t *testing.T) {
	var list catalog.List
	for _, s := range catalog.Strategies() {
		if s.Needs != catalog.NeedsZooKeeper && s.Needs != catalog.NeedsEtcd {
			list = append(list, s)
		}
	}
	servers, err := lockservers.New(t.Context(), lockservers.Specs{Redlock: "embedded"}, catalog.NeedsNodes)
	must(t, err)
	t.Cleanup(func() { _ = servers.Close() })
	at, _, err := servers.Open(t.Context(), catalog.NeedsNodes)
	must(t, err)
	sellByAll(t, leastRights(t), at, list)
}

// A shop whose Redis refuses INFO sells and audits nevertheless. It logs once that it cannot count
// commands.
func TestRedisThatRefusesINFO(t *testing.T) {
	m := miniredis.RunT(t)
	m.Server().SetPreHook(func(c *server.Peer, command string, _ ...string) bool {
		if command != "INFO" {
			return false
		}
		c.WriteError("NOPERM this user has no permissions to run the 'info' command")
		return true
	})
	var log bytes.Buffer
	cfg := config("redis://"+m.Addr(), backendtest.Database(t, "embedded"), 1)
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	r := open(t, cfg)
	if a := r.buy(); a.status != http.StatusOK {
		t.Errorf("got %+v", a)
	}
	if a := r.audit(t); a.Sold != 1 || a.RedisCommands != nil {
		t.Errorf("audit %+v, want one sale and no count of commands", a)
	}
	r.close(t)
	if n := strings.Count(log.String(), "redis_commands"); n != 1 {
		t.Errorf("%d lines say what is lost, want 1:\n%s", n, &log)
	}
}

func TestLocksOnOtherServersSell(t *testing.T) {
	servers := lockservers.Addresses{
		catalog.NeedsEtcd: {leasetest.Etcd(t)}, catalog.NeedsZooKeeper: {leasetest.ZooKeeper(t)},
	}
	var list catalog.List
	for _, name := range []string{"etcd", "zookeeper"} {
		s, err := catalog.Strategies().Find(name)
		must(t, err)
		list = append(list, s)
	}
	sellByAll(t, backendtest.Redis(t, "local"), servers, list)
}

// wantAbsent checks that a shop does not offer a strategy, and that its replies give the reason.
func wantAbsent(t *testing.T, r *running, name, why string) {
	t.Helper()
	_, offered := r.exchange(t, http.MethodGet, "/api/strategies", "")
	if strings.Contains(string(offered), fmt.Sprintf(`"name":%q`, name)) {
		t.Errorf("%s is offered", name)
	}
	for _, request := range [][3]string{
		{http.MethodPost, "/api/items/hot/deduct?strategy=" + name, `{"quantity":1}`},
		{http.MethodPut, "/api/strategy", fmt.Sprintf(`{"name":%q}`, name)},
	} {
		status, reply := r.exchange(t, request[0], request[1], request[2])
		if status != http.StatusNotFound || !strings.Contains(string(reply), why) {
			t.Errorf("%s: got %d %s, want %d and %q", request, status, reply, http.StatusNotFound, why)
		}
	}
}

// wantNoDefault checks that a shop does not start with this strategy as its default, and that the error
// gives the reason.
func wantNoDefault(t *testing.T, cfg shop.Config, name, why string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cfg.Strategy, cfg.Ready = name, func(string) { cancel() }
	if err := shop.Run(ctx, cfg); err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("%s as the default: got %v, want %q", name, err, why)
	}
}

// A shop does not offer strategies whose servers it does not have.
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

// The shop starts the server that its default strategy needs, and does not open if that fails.
func TestDefaultStrategyStartsItsServer(t *testing.T) {
	backendtest.System(t)
	cfg := config(backendtest.Redis(t, "embedded"), backendtest.Database(t, "embedded"), 1)
	servers, err := lockservers.New(t.Context(), lockservers.Specs{Etcd: "local"}, catalog.NeedsEtcd)
	must(t, err)
	t.Cleanup(func() { _ = servers.Close() })
	cfg.Servers = servers
	missing := filepath.Join(t.TempDir(), "missing")
	t.Setenv("TMPDIR", missing)
	wantNoDefault(t, cfg, "etcd", missing)
}
