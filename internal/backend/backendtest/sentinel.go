package backendtest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"oversell/internal/backend/local"
)

// masterName is the sentinels' name for their master.
const masterName = "oversell"

// SentinelSet is a master, one replica, and a sentinel that promotes the
// replica soon after the master is gone.
type SentinelSet struct {
	// URL is what backend.DialRedis and -redis take.
	URL string

	Master, Replica *LocalRedis
}

// Sentinel runs a SentinelSet for the length of the test and returns its
// value for -redis.
func Sentinel(t testing.TB) string {
	t.Helper()
	return Sentinels(t).URL
}

// Sentinels runs a SentinelSet for the length of the test.
func Sentinels(t testing.TB) *SentinelSet {
	t.Helper()
	ctx := starting(t)
	master := RestartableRedis(t, "--requirepass", groupPassword, "--repl-diskless-sync-delay", "0")
	host, port, err := net.SplitHostPort(master.Addr)
	must(t, err)
	replica := RestartableRedis(t, "--requirepass", groupPassword, "--replicaof", host+" "+port)

	path, err := local.RedisPath()
	must(t, err)
	sentinel, err := local.Start(ctx, sentinelCommand(path, host, port))
	must(t, err)
	closeAfter(t, sentinel)

	s := redis.NewSentinelClient(&redis.Options{Addr: sentinel.Addr, Password: groupPassword})
	t.Cleanup(func() { _ = s.Close() })
	eventually(t, ctx, "the sentinel knows the replica", func() bool {
		replicas, err := s.Replicas(ctx, masterName).Result()
		return err == nil && len(replicas) == 1 && replicas[0]["master-link-status"] == "ok"
	})
	return &SentinelSet{
		URL:     "redis+sentinel://:" + groupPassword + "@" + sentinel.Addr + "/" + masterName + "?sentinel_password=" + groupPassword,
		Master:  master,
		Replica: replica,
	}
}

// Failovers runs a set that can fail over again and again, for the length of
// the test.
func Failovers(t testing.TB) *local.Sentinels {
	t.Helper()
	System(t)
	set, err := local.StartSentinels(t.Context())
	must(t, err)
	t.Cleanup(func() {
		if err := set.Close(); err != nil {
			t.Error(err)
		}
	})
	return set
}

// sentinelCommand runs a sentinel that decides alone, within a second.
func sentinelCommand(path, host, port string) local.Command {
	return local.Command{
		Name: "sentinel",
		Path: path,
		Prepare: func(_ context.Context, dir string, own int) error {
			return os.WriteFile(sentinelConf(dir), []byte(strings.Join([]string{
				"bind 127.0.0.1",
				fmt.Sprintf("port %d", own),
				"unixsocket " + local.SocketPath(dir),
				"dir " + dir,
				"requirepass " + groupPassword,
				fmt.Sprintf("sentinel monitor %s %s %s 1", masterName, host, port),
				fmt.Sprintf("sentinel auth-pass %s %s", masterName, groupPassword),
				fmt.Sprintf("sentinel down-after-milliseconds %s 500", masterName),
				fmt.Sprintf("sentinel failover-timeout %s 5000", masterName),
				"",
			}, "\n")), 0o600)
		},
		Args: func(dir string, _ int) []string {
			return []string{sentinelConf(dir), "--sentinel"}
		},
		Ready:   local.AnswersPing,
		Timeout: 10 * time.Second,
	}
}

func sentinelConf(dir string) string { return filepath.Join(dir, "sentinel.conf") }
