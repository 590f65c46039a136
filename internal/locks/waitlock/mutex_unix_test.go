//go:build unix

package waitlock

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"oversell/internal/locks/locktest"
)

// A stopped replica stays connected. It has received earlier writes, but not the
// lock.
func TestReplicaThatStandsStillHasNothing(t *testing.T) {
	t.Parallel()
	s, rdb := startSet(t)
	m := New(rdb, locktest.Key(t), ttl, 2)
	mustLock(t, "a", m)
	unlock(t, "a", m)

	pid := replicaPid(t, s.PrimaryURL())
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(pid, syscall.SIGCONT) }()
	if ok, err := m.TryLock(as(t, "a")); ok || !errors.Is(err, ErrNotReplicated) {
		t.Errorf("TryLock = %v, %v; want false, %v", ok, err, ErrNotReplicated)
	}
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if !settled(t, "a", m) {
		t.Error("nobody holds the lock, and it cannot be acquired")
	}
	unlock(t, "a", m)
}

// replicaPid returns the process id of a primary's first replica.
func replicaPid(t *testing.T, primary string) int {
	t.Helper()
	replication := info(t, primary, "replication")
	var port int
	if _, err := fmt.Sscanf(replication["slave0"], "ip=127.0.0.1,port=%d,", &port); err != nil {
		t.Fatalf("no replica in %v: %v", replication, err)
	}
	server, _, _ := strings.Cut(primary, "@")
	pid, err := strconv.Atoi(info(t, fmt.Sprintf("%s@127.0.0.1:%d", server, port), "server")["process_id"])
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// info returns a section of a server's INFO.
func info(t *testing.T, url, section string) map[string]string {
	t.Helper()
	o, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	o.DisableIdentity = true
	rdb := redis.NewClient(o)
	defer rdb.Close()
	text, err := rdb.Info(t.Context(), section).Result()
	if err != nil {
		t.Fatal(err)
	}
	known := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
			known[name] = value
		}
	}
	return known
}
