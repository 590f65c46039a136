package main

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"oversell/internal/catalog"
)

// waiters are the strategies that wait for replicas.
func waiters(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, s := range catalog.Strategies() {
		if s.Needs == catalog.NeedsReplicas {
			names = append(names, s.Name)
		}
	}
	if len(names) == 0 {
		t.Fatal("no strategy waits for replicas")
	}
	return names
}

// A strategy whose servers are missing is not offered.
func TestReplicasAreNotOfferedWhereThereAreNone(t *testing.T) {
	p := start(t)
	var offered struct {
		Strategies []struct{ Name string }
	}
	if code := p.read(t, "/api/strategies", &offered); code != http.StatusOK || len(offered.Strategies) == 0 {
		t.Fatalf("the strategies: %d, %v", code, offered)
	}
	for _, name := range waiters(t) {
		for _, s := range offered.Strategies {
			if s.Name == name {
				t.Errorf("%s is offered", name)
			}
		}
		res, err := http.Post("http://"+p.addr+"/api/items/hot/deduct?strategy="+name, "application/json", strings.NewReader(`{"quantity":1}`))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusNotFound {
			t.Errorf("%s: got %d, want %d", name, res.StatusCode, http.StatusNotFound)
		}
	}
}

func TestReplicasAreOfferedByTheUsersOwnRedis(t *testing.T) {
	for redis, want := range map[string]bool{
		"embedded": false, "local": false, "local:cluster": false, "redis://h:1": true, "redis+sentinel://h:1/name": true,
	} {
		o, err := parse([]string{"-redis", redis})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range waiters(t) {
			if got := slices.Contains(o.catalog().Names(), name); got != want {
				t.Errorf("-redis %s: %s is offered: %v, want %v", redis, name, got, want)
			}
		}
		if !slices.Contains(o.catalog().Names(), "v6_watchdog") {
			t.Errorf("-redis %s: v6_watchdog is not offered", redis)
		}
	}
}
