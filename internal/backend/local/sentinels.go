package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	// masterName is the sentinel's name for its primary.
	masterName = "oversell"

	// patience is the time for which a primary may be silent before the sentinel replaces it on its
	// own. It is long because Failover does not wait for that, and because a sentinel does not
	// promote a replica that was cut off for ten times as long.
	patience = time.Minute

	// failoverTimeout limits one failover by the sentinel. If it fails, promote asks the sentinel again.
	failoverTimeout = 1500 * time.Millisecond

	// groupLimit limits the time to start a group of servers, and the time of each change to the group.
	groupLimit = 30 * time.Second
)

// Sentinels is a primary redis-server, two replicas, and a sentinel that promotes a replica. The
// sentinel always promotes the replica called the heir. The priority of the other replica, the
// bystander, prevents its promotion, even if its data is more recent. The methods must not be
// called concurrently.
type Sentinels struct {
	primary, heir, bystander *Redis // the heir is down between Failover and Heal
	sentinel                 *Server
	client                   *redis.SentinelClient // client of the sentinel
	password                 string                // password of all four servers
}

// Replica priorities. The bystander has priority 0: a sentinel never promotes such a replica.
const (
	inherits = "100"
	never    = "0"
)

// StartSentinels runs a private set of servers. It returns when the replicas are in sync and the
// sentinel knows them, which takes about a second.
//
// The error wraps ErrMissing if redis-server is not installed.
func StartSentinels(ctx context.Context) (*Sentinels, error) {
	s := &Sentinels{password: newSecret()}
	// The sentinel looks for replicas when it starts, and later only occasionally.
	err := s.change(ctx, "start a local sentinel with its servers",
		s.startNodes, s.awaitSync, s.startSentinel, s.awaitKnown)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Sentinels) startNodes(ctx context.Context) (err error) {
	if s.primary, err = s.startNode(ctx, inherits); err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(s.primary.Addr)
	if err != nil {
		return err
	}
	follow := []string{"--replicaof", host + " " + port}
	if s.heir, err = s.startNode(ctx, inherits, follow...); err != nil {
		return err
	}
	s.bystander, err = s.startNode(ctx, never, follow...)
	return err
}

func (s *Sentinels) startNode(ctx context.Context, priority string, args ...string) (*Redis, error) {
	return StartRedis(ctx, append([]string{
		"--requirepass", s.password,
		"--repl-diskless-sync", "yes",
		"--repl-diskless-sync-delay", "0",
		"--replica-priority", priority,
	}, args...)...)
}

func (s *Sentinels) startSentinel(ctx context.Context) (err error) {
	s.sentinel, err = Start(ctx, Command{
		Name: "sentinel",
		Path: s.primary.command.Path,
		Prepare: func(_ context.Context, dir string, port int) error {
			return writeSecret(dir, sentinelConf, s.sentinelConfig(dir, port))
		},
		Args: func(dir string, _ int) []string {
			return []string{filepath.Join(dir, sentinelConf), "--sentinel"}
		},
		Ready:   func(c net.Conn) error { return AnswersPing(c, s.password) },
		Timeout: 10 * time.Second,
		// A sentinel syncs its configuration to disk at every change, and does not answer
		// while it does so. On a busy disk that can take seconds.
		InMemory: true,
	})
	if err != nil {
		return err
	}
	s.client = redis.NewSentinelClient(clientOptions(s.sentinel.Addr, s.password))
	// The sentinel then asks the servers more often than every ten seconds, and after a pause of the
	// machine it is inactive for two seconds instead of thirty. Versions before Redis 7 do not
	// support this, so all changes take longer with them.
	_ = s.client.Process(ctx, redis.NewStatusCmd(ctx, "SENTINEL", "DEBUG", "INFO-PERIOD", 500, "TILT-PERIOD", 2000))
	return nil
}

// sentinelConf is the file in a sentinel's folder that contains its state.
const sentinelConf = "sentinel.conf"

// sentinelConfig returns the sentinel's configuration. The sentinel requires the same password as
// the servers that it watches.
func (s *Sentinels) sentinelConfig(dir string, port int) string {
	primaryHost, primaryPort, _ := net.SplitHostPort(s.primary.Addr)
	return strings.Join([]string{
		"bind " + host,
		fmt.Sprintf("port %d", port),
		"unixsocket " + SocketPath(dir),
		"unixsocketperm 700",
		"dir " + dir,
		"requirepass " + s.password,
		fmt.Sprintf("sentinel monitor %s %s %s 1", masterName, primaryHost, primaryPort),
		fmt.Sprintf("sentinel auth-pass %s %s", masterName, s.password),
		fmt.Sprintf("sentinel down-after-milliseconds %s %d", masterName, patience.Milliseconds()),
		fmt.Sprintf("sentinel failover-timeout %s %d", masterName, failoverTimeout.Milliseconds()),
		"",
	}, "\n")
}

// clientOptions returns options for a client of a private server. The client does not
// retry and does not wait for long, because its callers repeat their requests.
func clientOptions(addr, password string) *redis.Options {
	return &redis.Options{
		Addr:                     addr,
		Password:                 password,
		PoolSize:                 1,
		MaxRetries:               -1,
		DialerRetries:            1,
		DialTimeout:              time.Second,
		ReadTimeout:              time.Second,
		ContextTimeoutEnabled:    true,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// URL returns a value for backend.DialRedis and -redis. It contains the password.
func (s *Sentinels) URL() string {
	return fmt.Sprintf("redis+sentinel://:%s@%s/%s/0?sentinel_password=%[1]s", s.password, s.sentinel.Addr, masterName)
}

// Nodes returns the servers with data: the primary, the replica that the next Failover promotes, and the
// replica that is never promoted.
func (s *Sentinels) Nodes() (primary, heir, bystander *Redis) {
	return s.primary, s.heir, s.bystander
}

// change runs the steps of a change to the set of servers. They may take groupLimit in total. Errors begin with
// the text doing.
func (s *Sentinels) change(ctx context.Context, doing string, steps ...func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, groupLimit)
	defer cancel()
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return failed(ctx, doing, err)
		}
	}
	return nil
}

// Cut prevents writes that the primary receives after Cut returns from reaching the heir, so that a
// Failover loses them. The heir has all writes from before the call to Cut. The primary continues
// to serve, the bystander continues to acknowledge writes, and the sentinel does not notice the
// cut. Heal lets the heir catch up.
func (s *Sentinels) Cut(ctx context.Context) error {
	return s.change(ctx, "cut off the heir", s.cutOff)
}

func (s *Sentinels) cutOff(ctx context.Context) error {
	if err := awaitOffset(ctx, s.heir.client, s.primary.client); err != nil {
		return err
	}
	return s.heir.CutOff(ctx)
}

// uncut ends the effect of Cut, if Cut was called.
func (s *Sentinels) uncut(ctx context.Context) error {
	return await(ctx, "the replica may follow again", func() error {
		return s.heir.client.ConfigSet(ctx, "masterauth", s.password).Err()
	})
}

// Failover kills the primary. It returns when the heir has become the primary and accepts writes,
// which takes about a second. Failover fails after 30 seconds.
//
// Until Heal, there is no heir. The bystander follows the new primary, and then loses the writes
// that the new primary never received.
func (s *Sentinels) Failover(ctx context.Context) error {
	if s.heir.Pid() == 0 {
		return errors.New("fail over: there is no heir, it needs Heal")
	}
	s.primary.Kill()
	return s.change(ctx, "fail over", s.promote)
}

// promote makes the heir the primary, in place of the killed one.
func (s *Sentinels) promote(ctx context.Context) error {
	err := await(ctx, "the heir is promoted", func() error {
		addr, err := s.client.GetMasterAddrByName(ctx, masterName).Result()
		if err != nil {
			return err
		}
		if net.JoinHostPort(addr[0], addr[1]) != s.heir.Addr {
			asked := s.client.Failover(ctx, masterName).Err() // an error if a failover is in progress
			return errors.Join(fmt.Errorf("the sentinel names %v", addr), asked)
		}
		// Only a primary accepts this command, which changes nothing.
		return s.heir.client.Del(ctx, "oversell:nothing").Err()
	})
	if err != nil {
		return err
	}
	if err := s.uncut(ctx); err != nil {
		return err
	}
	s.primary, s.heir = s.heir, s.primary
	return nil
}

// Heal restarts the server that Failover killed, empty and on the same port, as the heir of the
// current primary. It also ends the effect of Cut. Heal returns when both replicas are in sync and
// the sentinel knows them, so that the next Failover works. This takes one to two seconds. Heal
// fails after 30 seconds. If a Failover ended early, Heal completes it first.
func (s *Sentinels) Heal(ctx context.Context) error {
	steps := []func(context.Context) error{s.restart, s.uncut, s.awaitSync, s.awaitKnown}
	if s.primary.Pid() == 0 {
		steps = append([]func(context.Context) error{s.promote}, steps...)
	}
	return s.change(ctx, "heal the sentinel's set", steps...)
}

// restart starts the heir again, as a replica, if it was killed.
func (s *Sentinels) restart(ctx context.Context) error {
	if s.heir.Pid() != 0 {
		return nil
	}
	if err := await(ctx, "the heir runs", func() error { return s.heir.Restart(ctx) }); err != nil {
		return err
	}
	host, port, _ := net.SplitHostPort(s.primary.Addr)
	// For about a second, the heir's client may still report that the heir is unavailable.
	return await(ctx, "the heir follows", func() error { return s.heir.client.ReplicaOf(ctx, host, port).Err() })
}

// awaitSync waits until the replicas have their primary's data, and then until they receive
// changes, which may take another second.
func (s *Sentinels) awaitSync(ctx context.Context) error {
	for range 2 {
		for _, replica := range []*Redis{s.heir, s.bystander} {
			if err := awaitOffset(ctx, replica.client, s.primary.client); err != nil {
				return err
			}
		}
		// This command is replicated, but changes nothing.
		if err := s.primary.client.Publish(ctx, "oversell:nothing", "").Err(); err != nil {
			return fmt.Errorf("tell the replicas something: %w", err)
		}
	}
	return nil
}

// awaitOffset waits until a replica has all the data that its primary has now.
func awaitOffset(ctx context.Context, replica, primary *redis.Client) error {
	info := primary.InfoMap(ctx, "replication")
	if info.Err() != nil {
		return fmt.Errorf("ask the primary how far it is: %w", info.Err())
	}
	offset := info.Item("Replication", "master_repl_offset")
	want, err := strconv.ParseInt(offset, 10, 64)
	if err != nil {
		return fmt.Errorf("ask the primary how far it is: %w", err)
	}
	return await(ctx, "the replica at "+replica.Options().Addr+" is in sync", func() error {
		info := replica.InfoMap(ctx, "replication")
		link, at := info.Item("Replication", "master_link_status"), info.Item("Replication", "slave_repl_offset")
		have, _ := strconv.ParseInt(at, 10, 64) // 0 for a replica that does not follow yet
		if info.Err() == nil && (link != "up" || have < want) {
			return fmt.Errorf("its link is %s, at %s of %s", link, at, offset)
		}
		return info.Err()
	})
}

// awaitKnown waits until a failover would work: the sentinel knows the primary and both replicas.
func (s *Sentinels) awaitKnown(ctx context.Context) error {
	return await(ctx, "the sentinel knows the servers", func() error {
		master, err := s.client.Master(ctx, masterName).Result()
		if err != nil {
			return err
		}
		if net.JoinHostPort(master["ip"], master["port"]) != s.primary.Addr || master["flags"] != "master" {
			return fmt.Errorf("its primary is %s:%s, %s", master["ip"], master["port"], master["flags"])
		}
		known, err := s.client.Replicas(ctx, masterName).Result()
		if err != nil {
			return err
		}
		missing := func(replica *Redis, priority string) bool {
			return !slices.ContainsFunc(known, func(k map[string]string) bool { return s.usable(k, replica, priority) })
		}
		if missing(s.heir, inherits) || missing(s.bystander, never) {
			return fmt.Errorf("its replicas are %v", known)
		}
		return nil
	})
}

// usable reports whether the sentinel knows the replica's priority and knows that the replica follows the
// primary.
func (s *Sentinels) usable(known map[string]string, replica *Redis, priority string) bool {
	return net.JoinHostPort(known["ip"], known["port"]) == replica.Addr &&
		net.JoinHostPort(known["master-host"], known["master-port"]) == s.primary.Addr &&
		known["flags"] == "slave" &&
		known["role-reported"] == "slave" &&
		known["master-link-status"] == "ok" &&
		known["slave-priority"] == priority
}

// Close stops all servers and removes their folders. It may be called more than once.
func (s *Sentinels) Close() error {
	var err error
	if s.sentinel != nil {
		_ = s.client.Close() // after the first Close it is already closed
		err = s.sentinel.Close()
	}
	return errors.Join(err, closeAll(s.primary, s.heir, s.bystander))
}

// closeAll closes all servers that were started, concurrently.
func closeAll(servers ...*Redis) error {
	errs := make([]error, len(servers))
	var stopping sync.WaitGroup
	for i, server := range servers {
		stopping.Go(func() { errs[i] = server.Close() })
	}
	stopping.Wait()
	return errors.Join(errs...)
}

// failed wraps err. If ctx has ended, failed also wraps the cause of ctx, because the error of a
// command that ctx interrupted may be only a timeout. A context whose deadline has passed counts as
// ended, because the timer of the connection may fire before the timer of ctx.
func failed(ctx context.Context, doing string, err error) error {
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		<-ctx.Done() // ctx ends in a moment
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%s: %w: %w", doing, cause, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// await calls holds every few milliseconds until holds returns nil. If ctx ends first, the error
// wraps the cause of ctx and the last error of holds.
func await(ctx context.Context, what string, holds func() error) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		err := holds()
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || last == nil {
			last = err // more useful than the error of an ended ctx
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w; at last: %w", what, context.Cause(ctx), last)
		case <-tick.C:
		}
	}
}
