package shop_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"oversell/internal/backend/backendtest"
	"oversell/internal/backend/lockservers"
	"oversell/internal/catalog"
	"oversell/internal/shop"
)

// onDemand is config with an etcd that starts when it is first used, with its files in the
// temporary folder.
func onDemand(t *testing.T) shop.Config {
	t.Helper()
	backendtest.System(t)
	cfg := config(backendtest.Redis(t, "embedded"), backendtest.Database(t, "embedded"), 1)
	servers, err := lockservers.New(t.Context(), lockservers.Specs{Etcd: "local"}, catalog.NeedsEtcd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := servers.Close(); err != nil {
			t.Error(err)
		}
	})
	cfg.Servers = servers
	return cfg
}

const buyByEtcd = "/api/items/crowd/deduct?strategy=etcd"

// If a crowd needs a server that does not run yet, the server is started once, and the crowd is
// served.
func TestCrowdStartsAServerOnce(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	r := open(t, onDemand(t))
	if got := r.send(t, http.MethodPut, "/api/items/crowd", `{"stock":30}`); got != http.StatusOK {
		t.Fatalf("putting the item: %d", got)
	}
	var wg sync.WaitGroup
	for range 30 {
		wg.Go(func() {
			res, err := r.client.Post("http://"+r.addr+buyByEtcd, "application/json",
				strings.NewReader(`{"quantity":1}`))
			if err != nil {
				t.Error(err)
				return
			}
			res.Body.Close()
			if res.StatusCode != http.StatusOK {
				t.Errorf("a buyer got %s", res.Status)
			}
		})
	}
	wg.Wait()
	started, err := filepath.Glob(filepath.Join(dir, "oversell-*", "data", "member"))
	if err != nil || len(started) != 1 {
		t.Errorf("started: %v, %v", started, err)
	}
}

// If a server cannot be started, only requests for its lock fail. It is started as soon as that is
// possible.
func TestServerThatDoesNotStartIsAway(t *testing.T) {
	cfg := onDemand(t)
	r := open(t, cfg)
	if got := r.send(t, http.MethodPut, "/api/items/crowd", `{"stock":1}`); got != http.StatusOK {
		t.Fatalf("putting the item: %d", got)
	}
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "missing"))
	for range 3 {
		status, reply := r.exchange(t, http.MethodPost, buyByEtcd, `{"quantity":1}`)
		if status != http.StatusServiceUnavailable || !strings.Contains(string(reply), `"code":"backend"`) ||
			!strings.Contains(string(reply), "or etcd is unavailable") {
			t.Errorf("got %d %s, want %d", status, reply, http.StatusServiceUnavailable)
		}
	}
	if a := r.buy(); a.status != http.StatusOK {
		t.Errorf("by another lock: %+v", a)
	}
	if err := os.Unsetenv("TMPDIR"); err != nil { // t.Setenv restores it
		t.Fatal(err)
	}
	for r.send(t, http.MethodPost, buyByEtcd, `{"quantity":1}`) != http.StatusOK {
		time.Sleep(100 * time.Millisecond)
	}
}

// The shop does not open without the server that its default strategy needs.
func TestDefaultStrategyStartsItsServer(t *testing.T) {
	cfg := onDemand(t)
	cfg.Strategy = "etcd"
	missing := filepath.Join(t.TempDir(), "missing")
	t.Setenv("TMPDIR", missing)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cfg.Ready = func(string) { cancel() }
	if err := shop.Run(ctx, cfg); err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("got %v, want why etcd did not start", err)
	}
}
