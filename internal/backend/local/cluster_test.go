package local_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"oversell/internal/backend/backendtest"
	"oversell/internal/backend/local"
)

// A cluster is ready when it is started: every node serves or leads to the one that does,
// and each primary has a replica that is in sync.
func TestClusterIsReadyWhenStarted(t *testing.T) {
	t.Parallel()
	start := time.Now()
	c := backendtest.LocalCluster(t)
	t.Logf("started in %v", time.Since(start))
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
		node := dial(t, "redis://:"+password+"@"+n.Addr)
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
		if state := node.ClusterInfo(t.Context()).Val(); !strings.Contains(state, "cluster_state:ok") || !strings.Contains(state, "cluster_slots_ok:16384") {
			t.Errorf("%s says\n%s", n.Addr, state)
		}
	}
	if roles["primary"] != 3 || roles["replica"] != 3 {
		t.Errorf("%v, want three primaries and three replicas", roles)
	}
}

// Any program of any user on this machine can dial a node.
func TestClusterLetsNobodyInWithoutItsPassword(t *testing.T) {
	t.Parallel()
	for _, n := range backendtest.LocalCluster(t).Nodes() {
		if !strings.HasPrefix(n.Addr, "127.0.0.1:") {
			t.Errorf("a node listens on %s", n.Addr)
		}
		for _, password := range []string{"", "wrong"} {
			rdb := redis.NewClient(&redis.Options{Addr: n.Addr, Password: password, DisableIdentity: true})
			err := rdb.Ping(t.Context()).Err()
			_ = rdb.Close()
			if err == nil || !strings.Contains(err.Error(), "NOAUTH") && !strings.Contains(err.Error(), "WRONGPASS") {
				t.Errorf("%s lets in a client with the password %q: %v", n.Addr, password, err)
			}
		}
	}
}

// Nothing is left of a cluster: no process and no file, even if one node was killed before.
func TestClosedClusterLeavesNothing(t *testing.T) {
	dir := emptyTempDir(t)
	c := backendtest.LocalCluster(t)
	c.Nodes()[1].Kill()
	var pids []int
	for _, n := range c.Nodes() {
		if pid := n.Pid(); pid != 0 {
			pids = append(pids, pid)
		}
	}
	var closing sync.WaitGroup
	for range 3 {
		closing.Go(func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	closing.Wait()
	checkEmpty(t, dir)
	if len(pids) != 5 {
		t.Errorf("%d nodes ran, want 5", len(pids))
	}
	for _, pid := range pids {
		if p, err := os.FindProcess(pid); err == nil && p.Signal(syscall.Signal(0)) == nil {
			t.Errorf("process %d still runs", pid)
		}
	}
}

func TestClusterStartGivesUpWithContext(t *testing.T) {
	backendtest.Need(t, "redis-server")
	dir := emptyTempDir(t)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := local.StartCluster(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want context.DeadlineExceeded", err)
	}
	checkEmpty(t, dir)
}
