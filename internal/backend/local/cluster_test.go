package local_test

import (
	"fmt"
	"strings"
	"testing"

	"oversell/internal/backend/backendtest"
)

// A started cluster is ready: every node serves a key or redirects to the node that does, and each
// primary has a replica that is in sync.
func TestClusterIsReadyWhenStarted(t *testing.T) {
	t.Parallel()
	c := backendtest.LocalCluster(t)
	rdb := backendtest.DialRedis(t, c.URL())
	for i := range 100 { // keys of all three primaries
		if err := rdb.Set(t.Context(), fmt.Sprint("key-", i), i, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(c.Nodes()); n != 6 {
		t.Fatalf("%d nodes, want 6", n)
	}
	_, password, _ := strings.Cut(c.URL(), "://:")
	password, _, _ = strings.Cut(password, "@")
	roles := map[string]int{}
	for _, n := range c.Nodes() {
		node := backendtest.DialRedis(t, "redis://:"+password+"@"+n.Addr)
		info, err := node.Info(t.Context(), "replication").Result()
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case strings.Contains(info, "role:master\r\nconnected_slaves:1\r\n") && strings.Contains(info, "state=online"):
			roles["primary"]++
		case strings.Contains(info, "role:slave") && strings.Contains(info, "master_link_status:up"):
			roles["replica"]++
		default:
			t.Errorf("%s says\n%s", n.Addr, info)
		}
		state := node.ClusterInfo(t.Context()).Val()
		if !strings.Contains(state, "cluster_state:ok") || !strings.Contains(state, "cluster_slots_ok:16384") {
			t.Errorf("%s says\n%s", n.Addr, state)
		}
	}
	if roles["primary"] != 3 || roles["replica"] != 3 {
		t.Errorf("%v, want three primaries and three replicas", roles)
	}
}
