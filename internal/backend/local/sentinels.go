package local

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	// masterName is the sentinels' name for their primary.
	masterName = "oversell"

	// quorum is how many sentinels must agree that the primary is down.
	quorum    = 2
	sentinels = 3

	// A sentinel considers a primary down after it has been silent for this
	// long: downAfter for a primary that Failover kills, patience for any
	// other, because on a busy machine a healthy primary may well be silent for
	// longer than downAfter.
	downAfter = 300 * time.Millisecond
	patience  = 5 * time.Second

	// failoverTimeout bounds a failover. If no sentinel gets enough votes, they
	// wait for twice as long and vote again.
	failoverTimeout = 1500 * time.Millisecond
)

// The time limits of the methods; undoLimit is for cleaning up after one that
// failed.
const (
	sentinelsStartLimit = 30 * time.Second
	cutLimit            = 5 * time.Second
	failoverLimit       = 30 * time.Second
	healLimit           = 30 * time.Second
	undoLimit           = 5 * time.Second
)

// Sentinels is a primary redis-server, two replicas, and three sentinels that
// promote a replica when the primary is gone: always the one called the heir. The
// other one, the bystander, has a priority that rules out its promotion, however
// recent its data. Methods may be called concurrently; those that change the set
// wait for each other.
type Sentinels struct {
	heirs     [2]*node // one is primary, the other its heir
	bystander *node
	watchers  []*watcher
	primary   atomic.Pointer[node] // one of heirs: the last known primary
	password  string               // of all six servers

	turn  chan struct{} // held by the method that changes the set
	cut   *cut          // the Cut in effect, or nil; guarded by turn
	life  context.Context
	end   context.CancelFunc
	close func() error
}

// node is one of the three servers with data.
type node struct {
	*Server
	client   *redis.Client
	password string // its own and its primary's
	follows  string // host:port of its primary at its next start, or empty
	priority int    // inherits, or never
}

// Replica priorities. Sentinels never promote a replica with priority 0.
const (
	inherits = 100
	never    = 0
)

// watcher is one sentinel.
type watcher struct {
	*Server
	client *redis.SentinelClient
}

// cut is a replica that is cut off from its primary.
type cut struct {
	replica *node
	since   time.Time
}

// StartSentinels runs a private set and returns when the replicas are in sync
// and all sentinels know them and each other, which takes between half a second
// and two seconds.
//
// The error wraps ErrMissing if redis-server is not installed.
func StartSentinels(ctx context.Context) (*Sentinels, error) {
	path, err := RedisPath()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, sentinelsStartLimit)
	defer cancel()
	s := &Sentinels{turn: make(chan struct{}, 1), password: newSecret()}
	s.life, s.end = context.WithCancel(context.WithoutCancel(ctx))
	s.close = sync.OnceValue(s.stop)
	if err := s.start(ctx, path); err != nil {
		return nil, errors.Join(failed(ctx, "start local sentinels", err), s.Close())
	}
	return s, nil
}

func (s *Sentinels) start(ctx context.Context, path string) error {
	primary, err := startNode(ctx, path, node{password: s.password, priority: inherits})
	if err != nil {
		return err
	}
	s.heirs[0] = primary
	s.primary.Store(primary)
	if s.heirs[1], err = startNode(ctx, path, node{password: s.password, priority: inherits, follows: primary.Addr}); err != nil {
		return err
	}
	if s.bystander, err = startNode(ctx, path, node{password: s.password, priority: never, follows: primary.Addr}); err != nil {
		return err
	}
	// The sentinels ask for replicas at once, and then only occasionally.
	if err := s.awaitSync(ctx); err != nil {
		return err
	}
	for range sentinels {
		w, err := startWatcher(ctx, path, primary.Addr, s.password)
		if err != nil {
			return err
		}
		s.watchers = append(s.watchers, w)
	}
	return s.awaitAgreement(ctx)
}

func startNode(ctx context.Context, path string, as node) (_ *node, err error) {
	n := &as
	n.Server, err = Start(ctx, Command{
		Name:    "redis-server",
		Path:    path,
		Prepare: func(_ context.Context, dir string, _ int) error { return writeRedisConf(dir, n.password) },
		Args:    n.args,
		Ready:   AnswersPing,
		Timeout: 10 * time.Second,
	})
	if err != nil {
		return nil, err
	}
	n.client = redis.NewClient(clientOptions(n.Addr, n.password))
	return n, nil
}

func (n *node) args(dir string, port int) []string {
	args := append(redisArgs(dir, port),
		"--repl-diskless-sync", "yes",
		"--repl-diskless-sync-delay", "0",
		"--replica-priority", strconv.Itoa(n.priority),
	)
	if host, port, err := net.SplitHostPort(n.follows); err == nil {
		args = append(args, "--replicaof", host+" "+port)
	}
	return args
}

// answers returns nil if the server answers. It does not dial a killed one.
func (n *node) answers(ctx context.Context) error {
	if n.Pid() == 0 {
		return os.ErrProcessDone
	}
	return n.client.Ping(ctx).Err()
}

func startWatcher(ctx context.Context, path, primary, password string) (*watcher, error) {
	server, err := Start(ctx, Command{
		Name: "sentinel",
		Path: path,
		Prepare: func(_ context.Context, dir string, port int) error {
			return writeSecret(dir, sentinelConf, sentinelConfig(dir, port, primary, password))
		},
		Args: func(dir string, _ int) []string {
			return []string{filepath.Join(dir, sentinelConf), "--sentinel"}
		},
		Ready:   AnswersPing,
		Timeout: 10 * time.Second,
		// A sentinel syncs its configuration to disk at every change, and does
		// not answer meanwhile: on a busy disk, for seconds.
		InMemory: true,
	})
	if err != nil {
		return nil, err
	}
	w := &watcher{server, redis.NewSentinelClient(clientOptions(server.Addr, password))}
	w.hurry(ctx)
	return w, nil
}

// sentinelConf is the file in a sentinel's folder that holds its state.
const sentinelConf = "sentinel.conf"

// sentinelConfig makes a sentinel require the password, like the servers that
// it watches. It uses the same one to log in to the other sentinels.
func sentinelConfig(dir string, port int, primary, password string) string {
	primaryHost, primaryPort, _ := net.SplitHostPort(primary)
	return strings.Join([]string{
		"bind " + host,
		fmt.Sprintf("port %d", port),
		"unixsocket " + SocketPath(dir),
		"unixsocketperm 700",
		"dir " + dir,
		"requirepass " + password,
		fmt.Sprintf("sentinel monitor %s %s %s %d", masterName, primaryHost, primaryPort, quorum),
		fmt.Sprintf("sentinel auth-pass %s %s", masterName, password),
		fmt.Sprintf("sentinel down-after-milliseconds %s %d", masterName, patience.Milliseconds()),
		fmt.Sprintf("sentinel failover-timeout %s %d", masterName, failoverTimeout.Milliseconds()),
		"",
	}, "\n")
}

// hurry makes a sentinel check the servers more often than every ten seconds,
// and tell the others more often than every two. After the machine was paused,
// it does nothing for two seconds instead of thirty. Versions before Redis 7 do
// not support this: everything then takes longer.
func (w *watcher) hurry(ctx context.Context) {
	_ = w.client.Process(ctx, redis.NewStatusCmd(ctx, "SENTINEL", "DEBUG",
		"INFO-PERIOD", 500, "PUBLISH-PERIOD", 200, "ASK-PERIOD", 200, "TILT-PERIOD", 2000))
}

// clientOptions are for a caller that prefers to ask a private server again
// over waiting for it.
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

// URL is what backend.DialRedis and -redis take. It contains the password.
func (s *Sentinels) URL() string {
	var addrs []string
	for _, w := range s.watchers {
		addrs = append(addrs, w.Addr)
	}
	return "redis+sentinel://:" + s.password + "@" + strings.Join(addrs, ",") + "/" + masterName + "/0?sentinel_password=" + s.password
}

// PrimaryURL is the URL of the server at PrimaryAddr alone. It contains the
// password, which is also that of the other servers.
func (s *Sentinels) PrimaryURL() string { return "redis://:" + s.password + "@" + s.PrimaryAddr() }

// PrimaryAddr is the host:port of the server that was primary when a method
// last checked: after Failover, the promoted one.
func (s *Sentinels) PrimaryAddr() string { return s.primary.Load().Addr }

// heir returns the node that the next Failover promotes.
func (s *Sentinels) heir() *node {
	if s.primary.Load() == s.heirs[0] {
		return s.heirs[1]
	}
	return s.heirs[0]
}

// replicas returns the nodes that are not primary.
func (s *Sentinels) replicas() []*node { return []*node{s.heir(), s.bystander} }

// Cut keeps from the heir all writes that the primary receives after Cut
// returns: a Failover loses them. The heir has all writes from before Cut was
// called. The primary continues to serve, the bystander continues to acknowledge
// writes, and no sentinel notices. Heal lets the heir catch up.
func (s *Sentinels) Cut(ctx context.Context) error {
	ctx, done, err := s.begin(ctx, cutLimit)
	if err != nil {
		return fmt.Errorf("cut off the heir: %w", err)
	}
	defer done()
	if s.cut != nil {
		return errors.New("cut off the heir: it is cut off already")
	}
	primary := s.primary.Load()
	c := &cut{replica: s.heir()}
	if err := c.apply(ctx, primary); err != nil {
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
		defer cancel()
		return errors.Join(failed(ctx, "cut off the heir", err), c.replica.mayFollow(undo, true))
	}
	s.cut = c
	return nil
}

func (c *cut) apply(ctx context.Context, primary *node) error {
	if err := c.replica.awaitOffset(ctx, primary); err != nil {
		return err
	}
	c.since = time.Now()
	// Killing the connection is not enough: the replica reconnects at once and
	// receives what it missed. So it first gets a password that its primary
	// refuses before it sends anything.
	if err := c.replica.mayFollow(ctx, false); err != nil {
		return err
	}
	return await(ctx, "the replica's connection is killed", func() error {
		killed, err := c.replica.client.ClientKillByFilter(ctx, "TYPE", "master").Result()
		if err == nil && killed == 0 {
			return errors.New("it has none")
		}
		return err
	})
}

// mayFollow sets whether a replica can log in to its primary.
func (n *node) mayFollow(ctx context.Context, may bool) error {
	password := n.password
	if !may {
		password = "cut"
	}
	if err := n.client.ConfigSet(ctx, "masterauth", password).Err(); err != nil {
		return fmt.Errorf("change the replica's password: %w", err)
	}
	return nil
}

// uncut ends the Cut in effect, if any.
func (s *Sentinels) uncut(ctx context.Context) error {
	if s.cut == nil {
		return nil
	}
	err := await(ctx, "the replica may follow again", func() error {
		return s.cut.replica.mayFollow(ctx, true)
	})
	s.cut = nil
	return err
}

// Failover kills the primary and returns when the heir is primary in its place,
// accepts writes, and all sentinels say so. That takes one to two seconds,
// occasionally three. After a Cut of some seconds it takes longer, by a fifth
// of the length of the Cut: sentinels do not promote a replica that was without
// a primary for too long. It fails after 30 seconds.
//
// Until Heal, there is no heir. The bystander follows the new primary and, at
// once or soon after, loses the writes that the new primary never received.
func (s *Sentinels) Failover(ctx context.Context) error {
	ctx, done, err := s.begin(ctx, failoverLimit)
	if err != nil {
		return fmt.Errorf("fail over: %w", err)
	}
	defer done()
	if err := s.failover(ctx); err != nil {
		return failed(ctx, "fail over", err)
	}
	return nil
}

func (s *Sentinels) failover(ctx context.Context) error {
	primary := s.primary.Load()
	heir := s.heir()
	if err := heir.answers(ctx); err != nil {
		return fmt.Errorf("there is no heir, it needs Heal: %w", err)
	}
	wait := downAfter
	if s.cut != nil {
		// Sentinels do not promote a replica that was cut off for ten times
		// this.
		wait = max(wait, time.Since(s.cut.since)/5)
	}
	defer s.beHasty(context.WithoutCancel(ctx), patience)
	if err := s.beHasty(ctx, wait); err != nil {
		return err
	}
	primary.Kill()
	if err := await(ctx, "the heir is promoted", func() error { return s.promoted(ctx, heir) }); err != nil {
		return err
	}
	s.primary.Store(heir)
	return s.uncut(ctx)
}

// beHasty sets after how long a silence the sentinels consider the primary
// down.
func (s *Sentinels) beHasty(ctx context.Context, after time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, undoLimit)
	defer cancel()
	var errs []error
	for _, w := range s.watchers {
		errs = append(errs, await(ctx, "the sentinel at "+w.Addr+" knows how long to wait", func() error {
			return w.client.Set(ctx, masterName, "down-after-milliseconds", strconv.FormatInt(after.Milliseconds(), 10)).Err()
		}))
	}
	return errors.Join(errs...)
}

// promoted returns nil if n is primary according to itself and all sentinels.
func (s *Sentinels) promoted(ctx context.Context, n *node) error {
	for _, w := range s.watchers {
		addr, err := w.primary(ctx)
		if err != nil {
			return err
		}
		if addr != n.Addr {
			return fmt.Errorf("the sentinel at %s names %s", w.Addr, addr)
		}
	}
	info, err := replication(ctx, n.client)
	if err != nil {
		return err
	}
	if info["role"] != "master" {
		return fmt.Errorf("%s is a %s", n.Addr, info["role"])
	}
	// Accepted only by a primary, and changes nothing.
	return n.client.Del(ctx, "oversell:nothing").Err()
}

// Heal starts a server in place of the one that Failover killed, empty and on
// the same port, as the heir of the current primary, and ends a Cut. It returns
// when both replicas are in sync and the sentinels agree on the set, so that the
// next Failover works. That takes one to two seconds; if the caller gave up on a
// Failover, it takes as long as the sentinels need to promote the replica on
// their own, about seven seconds. It fails after 30 seconds.
func (s *Sentinels) Heal(ctx context.Context) error {
	ctx, done, err := s.begin(ctx, healLimit)
	if err != nil {
		return fmt.Errorf("heal the sentinels' set: %w", err)
	}
	defer done()
	if err := s.heal(ctx); err != nil {
		return failed(ctx, "heal the sentinels' set", err)
	}
	return nil
}

func (s *Sentinels) heal(ctx context.Context) error {
	err := await(ctx, "there is a primary", func() error {
		s.find(ctx)
		return s.primary.Load().answers(ctx)
	})
	if err != nil {
		return err
	}
	primary := s.primary.Load()
	heir := s.heir()
	if err := heir.answers(ctx); err != nil {
		heir.follows = primary.Addr
		if err := await(ctx, "the heir runs", func() error { return heir.Restart(ctx) }); err != nil {
			return err
		}
	}
	if err := s.uncut(ctx); err != nil {
		return err
	}
	if err := s.awaitSync(ctx); err != nil {
		return err
	}
	return s.awaitAgreement(ctx)
}

// awaitSync waits until the replicas have their primary's data and receive its
// changes, which begins up to a second later.
func (s *Sentinels) awaitSync(ctx context.Context) error {
	primary := s.primary.Load()
	for _, replica := range s.replicas() {
		if err := replica.awaitOffset(ctx, primary); err != nil {
			return err
		}
	}
	// A command that is replicated but changes nothing.
	if err := primary.client.Publish(ctx, "oversell:nothing", "").Err(); err != nil {
		return fmt.Errorf("tell the replicas something: %w", err)
	}
	for _, replica := range s.replicas() {
		if err := replica.awaitOffset(ctx, primary); err != nil {
			return err
		}
	}
	return nil
}

// awaitOffset waits until a replica has everything that its primary has now.
func (n *node) awaitOffset(ctx context.Context, primary *node) error {
	info, err := replication(ctx, primary.client)
	if err != nil {
		return fmt.Errorf("ask the primary how far it is: %w", err)
	}
	offset := info["master_repl_offset"]
	return await(ctx, "the replica is in sync", func() error {
		info, err := replication(ctx, n.client)
		if err != nil {
			return err
		}
		if info["master_link_status"] != "up" || number(info["slave_repl_offset"]) < number(offset) {
			return fmt.Errorf("its link is %s, at %s of %s", info["master_link_status"], info["slave_repl_offset"], offset)
		}
		return nil
	})
}

// awaitAgreement waits until a failover would work.
func (s *Sentinels) awaitAgreement(ctx context.Context) error {
	return await(ctx, "the sentinels agree", func() error {
		epochs := map[string]bool{}
		for _, w := range s.watchers {
			epoch, err := w.agrees(ctx, s.primary.Load(), s.replicas())
			if err != nil {
				return fmt.Errorf("the sentinel at %s: %w", w.Addr, err)
			}
			epochs[epoch] = true
		}
		if len(epochs) > 1 {
			return errors.New("their epochs differ")
		}
		return nil
	})
}

// agrees returns the config epoch of a sentinel. It returns an error if the
// sentinel does not know this primary, usable replicas, and two more sentinels.
func (w *watcher) agrees(ctx context.Context, primary *node, replicas []*node) (epoch string, err error) {
	master, err := w.client.Master(ctx, masterName).Result()
	if err != nil {
		return "", err
	}
	if net.JoinHostPort(master["ip"], master["port"]) != primary.Addr || master["flags"] != "master" {
		return "", fmt.Errorf("its primary is %s:%s, %s", master["ip"], master["port"], master["flags"])
	}
	known, err := w.client.Replicas(ctx, masterName).Result()
	if err != nil {
		return "", err
	}
	missing := func(replica *node) bool {
		return !slices.ContainsFunc(known, func(k map[string]string) bool { return usable(k, primary, replica) })
	}
	if len(known) != len(replicas) || slices.ContainsFunc(replicas, missing) {
		return "", fmt.Errorf("its replicas are %v", known)
	}
	others, err := w.client.Sentinels(ctx, masterName).Result()
	if err != nil {
		return "", err
	}
	down := func(other map[string]string) bool { return other["flags"] != "sentinel" }
	if len(others) != sentinels-1 || slices.ContainsFunc(others, down) {
		return "", fmt.Errorf("the other sentinels are %v", others)
	}
	return master["config-epoch"], nil
}

// usable reports whether a sentinel sees the replica as following primary, and
// knows its priority.
func usable(known map[string]string, primary, replica *node) bool {
	return net.JoinHostPort(known["ip"], known["port"]) == replica.Addr &&
		net.JoinHostPort(known["master-host"], known["master-port"]) == primary.Addr &&
		known["flags"] == "slave" &&
		known["role-reported"] == "slave" &&
		known["master-link-status"] == "ok" &&
		known["slave-priority"] == strconv.Itoa(replica.priority)
}

// primary asks a sentinel for the address of the primary.
func (w *watcher) primary(ctx context.Context) (string, error) {
	addr, err := w.client.GetMasterAddrByName(ctx, masterName).Result()
	if err != nil {
		return "", fmt.Errorf("ask the sentinel at %s for the primary: %w", w.Addr, err)
	}
	return net.JoinHostPort(addr[0], addr[1]), nil
}

// replication asks a server for its replication state.
func replication(ctx context.Context, client *redis.Client) (map[string]string, error) {
	text, err := client.Info(ctx, "replication").Result()
	if err != nil {
		return nil, err
	}
	info := map[string]string{}
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		if name, value, found := strings.Cut(lines.Text(), ":"); found {
			info[name] = value
		}
	}
	return info, nil
}

// number parses an offset. A missing one is less than all others.
func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// begin acquires the turn to change the set. The context ends with ctx, after
// limit, and with Close; done releases the turn.
func (s *Sentinels) begin(ctx context.Context, limit time.Duration) (_ context.Context, done func(), err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(s.life, func() { cancel(os.ErrClosed) })
	release := func() {
		unhook()
		cancel(nil)
	}
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		release()
		return nil, nil, context.Cause(ctx)
	}
	ctx, expire := context.WithTimeout(ctx, limit)
	s.find(ctx)
	return ctx, func() {
		expire()
		release()
		<-s.turn
	}, nil
}

// find learns from a sentinel which node is primary: the sentinels may have
// promoted the other one on their own.
func (s *Sentinels) find(ctx context.Context) {
	for _, w := range s.watchers {
		addr, err := w.primary(ctx)
		if err != nil {
			continue
		}
		for _, n := range s.heirs {
			if n.Addr == addr {
				s.primary.Store(n)
			}
		}
		return
	}
}

// Close stops all servers and removes their folders. Methods in progress return
// os.ErrClosed, wrapped, as do later calls.
func (s *Sentinels) Close() error { return s.close() }

func (s *Sentinels) stop() error {
	s.end()
	s.turn <- struct{}{} // never released
	var servers []*Server
	for _, w := range s.watchers {
		_ = w.client.Close()
		servers = append(servers, w.Server)
	}
	for _, n := range append(s.heirs[:], s.bystander) {
		if n != nil {
			_ = n.client.Close()
			servers = append(servers, n.Server)
		}
	}
	errs := make([]error, len(servers))
	var stopping sync.WaitGroup
	for i, server := range servers {
		stopping.Go(func() { errs[i] = server.Close() })
	}
	stopping.Wait()
	return errors.Join(errs...)
}

// failed wraps err, and adds the cause of ctx: a command that ctx cut off may
// only report a timeout. The connection has a timer of its own for the deadline,
// which may fire before that of ctx.
func failed(ctx context.Context, doing string, err error) error {
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		<-ctx.Done() // in an instant
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%s: %w: %w", doing, cause, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// await calls holds every few milliseconds until it returns nil.
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
