package coordination

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"oversell/internal/backend/local"
	"oversell/internal/fleet"
)

// ServeZooKeeper resolves the value of -zookeeper:
//
//   - "local" starts a private ZooKeeper on a free loopback port, with its files
//     in a temporary folder; ZooKeeper and Java must be installed;
//   - addresses of the user's own ZooKeeper, such as HOST:PORT, separated by
//     commas, are checked and kept.
//
// ctx bounds the start of the server, not its life. stop ends that, leaves the
// user's own server alone, and may be called more than once. Errors wrap
// ErrSpec, ErrMissing, or the reason why the server did not start.
func ServeZooKeeper(ctx context.Context, spec string) (servers []string, stop func() error, err error) {
	if spec == "local" {
		return serveLocal(ctx)
	}
	if servers, err = zkServers(spec); err != nil {
		return nil, nil, err
	}
	return servers, func() error { return nil }, nil
}

func serveLocal(ctx context.Context) ([]string, func() error, error) {
	java, classPath, err := findZooKeeper()
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	// A port that was free a moment ago may be taken by the time the server
	// listens on it. Then another port is tried.
	for attempt := 1; ; attempt++ {
		s, err := startZooKeeper(ctx, java, classPath)
		if err == nil {
			return []string{s.addr}, sync.OnceValue(s.stop), nil
		}
		if attempt == 3 || ctx.Err() != nil || !strings.Contains(err.Error(), "already in use") {
			return nil, nil, fmt.Errorf("start a local zookeeper: %w", err)
		}
	}
}

// debianJar is where Debian's package installs ZooKeeper. Its manifest names
// the other jars that it needs, except for a logging backend.
const (
	debianJar    = "/usr/share/java/zookeeper.jar"
	debianLogger = "/usr/share/java/slf4j-simple.jar"
)

// FindZooKeeper reports whether "local" can start a ZooKeeper. The error wraps ErrMissing.
func FindZooKeeper() error {
	_, _, err := findZooKeeper()
	return err
}

// findZooKeeper looks for Java and for ZooKeeper: the one that ZOOKEEPER_HOME
// names, unpacked from the project's own archive, or Debian's.
func findZooKeeper() (java, classPath string, err error) {
	if home := os.Getenv("ZOOKEEPER_HOME"); home != "" {
		classPath = filepath.Join(home, "lib", "*")
	} else if _, err := os.Stat(debianJar); err == nil {
		classPath = debianJar + string(os.PathListSeparator) + debianLogger
	} else {
		return "", "", fmt.Errorf("zookeeper %w (nor %s, nor by ZOOKEEPER_HOME): install it with `apt-get install zookeeper`", ErrMissing, debianJar)
	}
	if java, err = exec.LookPath("java"); err != nil {
		return "", "", fmt.Errorf("java %w, which zookeeper runs on: install it with `apt-get install default-jre-headless`", ErrMissing)
	}
	return java, classPath, nil
}

// zkServer is a running ZooKeeper.
type zkServer struct {
	addr    string
	dir     string
	process *fleet.Process
}

// stopGrace is how long the server may take to end before it is killed. Its
// data is thrown away, so killing it does no harm.
const stopGrace = 5 * time.Second

func startZooKeeper(ctx context.Context, java, classPath string) (*zkServer, error) {
	dir, err := os.MkdirTemp("", "oversell-zookeeper-")
	if err != nil {
		return nil, fmt.Errorf("make a temporary folder: %w", err)
	}
	s := &zkServer{dir: dir}
	if err := s.run(ctx, java, classPath); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

func (s *zkServer) run(ctx context.Context, java, classPath string) error {
	port, err := local.FreePort()
	if err != nil {
		return err
	}
	s.addr = fmt.Sprintf("%s:%d", host, port)
	config, log := filepath.Join(s.dir, "zoo.cfg"), filepath.Join(s.dir, "log")
	if err := os.WriteFile(config, []byte(zkConfig(s.dir, port)), 0o600); err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	out, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	defer out.Close() // the child has its own handle
	cmd := exec.Command(java,
		"-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", // a quick start matters more than speed
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
		"-Dzookeeper.jmx.log4j.disable=true",
		"-Dzookeeper.forceSync=no", // its data is thrown away anyway
		"-Dzookeeper.preAllocSize=1024",
		"-Dznode.container.checkIntervalMs=1000",
		"-cp", classPath, "org.apache.zookeeper.server.ZooKeeperServerMain", config)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, out, out
	if s.process, err = fleet.Start(cmd); err != nil {
		return err
	}
	return s.awaitReady(ctx, log)
}

// zkConfig allows sessions from a second to a minute. The server rounds the end
// of a session to a tick.
func zkConfig(dir string, port int) string {
	return fmt.Sprintf(`dataDir=%s
clientPort=%d
clientPortAddress=%s
tickTime=250
minSessionTimeout=1000
maxSessionTimeout=60000
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=ruok,wchp
`, filepath.Join(dir, "data"), port, host)
}

func (s *zkServer) awaitReady(ctx context.Context, log string) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-s.process.Done():
			return fmt.Errorf("it ended at once (%s)%s", s.process.State(), lastLines(log))
		case <-ctx.Done():
			return fmt.Errorf("it did not become ready: %w%s", context.Cause(ctx), lastLines(log))
		case <-tick.C:
			if isOK(s.addr) {
				return nil
			}
		}
	}
}

// isOK sends the four-letter command "ruok" and reports whether the reply is
// "imok".
func isOK(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	defer c.Close()
	if c.SetDeadline(time.Now().Add(time.Second)) != nil {
		return false
	}
	if _, err := io.WriteString(c, "ruok"); err != nil {
		return false
	}
	reply, err := io.ReadAll(c)
	return err == nil && string(reply) == "imok"
}

// lastLines returns the end of a log, to be added to an error message.
func lastLines(log string) string {
	const most = 5
	b, err := os.ReadFile(log)
	if err != nil || len(b) == 0 {
		return ""
	}
	lines := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	return "; it logged:\n" + strings.Join(lines[max(0, len(lines)-most):], "\n")
}

func (s *zkServer) stop() error {
	if s.process != nil {
		s.process.Stop(stopGrace)
	}
	if err := os.RemoveAll(s.dir); err != nil {
		return fmt.Errorf("remove the files of zookeeper: %w", err)
	}
	return nil
}

// ZooKeeper is a connection and the session timeout that the server granted.
type ZooKeeper struct {
	*zk.Conn

	// Timeout is how long the server waits, without hearing from this process,
	// before it ends the session. It may differ from the requested timeout.
	Timeout time.Duration
}

// DialZooKeeper connects to the servers that ServeZooKeeper returned, requests a
// session with the timeout, and checks within a few seconds that there is one.
// The error wraps ErrUnreachable. Close ends the session.
func DialZooKeeper(ctx context.Context, servers []string, timeout time.Duration) (*ZooKeeper, error) {
	var agreed atomic.Int64
	dial := func(network, addr string, limit time.Duration) (net.Conn, error) {
		c, err := net.DialTimeout(network, addr, limit)
		if err != nil {
			return nil, err
		}
		return &listener{Conn: c, limit: limit, agreed: &agreed}, nil
	}
	ended := make(chan struct{})
	conn, events, err := zk.Connect(servers, timeout, zk.WithDialer(dial), zk.WithHostProvider(&hosts{}), zk.WithLogger(silent{}), zk.WithLogInfo(false))
	if err != nil {
		return nil, fmt.Errorf("connect to zookeeper: %w", err)
	}
	has := make(chan struct{})
	go func() { // until Close
		defer close(ended)
		first := sync.OnceFunc(func() { close(has) })
		for e := range events {
			if e.State == zk.StateHasSession {
				first()
			}
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	select {
	case <-has:
		return &ZooKeeper{conn, time.Duration(agreed.Load()) * time.Millisecond}, nil
	case <-ctx.Done():
	}
	conn.Close()
	<-ended
	return nil, fmt.Errorf("zookeeper at %s: %w: %w", strings.Join(servers, ","), ErrUnreachable, context.Cause(ctx))
}

// hosts is the order in which servers are tried. With a single server, the client
// library's own order pauses a second before each try, even if the connection has
// only just broken; this one pauses only after all servers were tried without
// success.
type hosts struct {
	mu      sync.Mutex
	servers []string
	next    int
	tried   int // since the last connection
}

func (h *hosts) Init(servers []string) error {
	h.servers = servers
	return nil
}

func (h *hosts) Len() int { return len(h.servers) }

func (h *hosts) Next() (server string, rest bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	server = h.servers[h.next]
	rest = h.tried > 0 && h.tried%len(h.servers) == 0
	h.next = (h.next + 1) % len(h.servers)
	h.tried++
	return server, rest
}

func (h *hosts) Connected() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tried = 0
}

// silent discards the client's log: the errors say the same.
type silent struct{}

func (silent) Printf(string, ...any) {}

// listener records the timeout that the server grants, because the client does
// not expose it. The first reply on a connection begins with its length and the
// protocol version, of four bytes each, and then the timeout in milliseconds.
//
// It also bounds the wait for that reply. The client would wait for several
// times the session's timeout, and try no other server meanwhile.
type listener struct {
	net.Conn
	limit  time.Duration
	head   []byte
	agreed *atomic.Int64
}

const headLength = 12

func (l *listener) SetReadDeadline(end time.Time) error {
	if soon := time.Now().Add(l.limit); len(l.head) < headLength && (end.IsZero() || soon.Before(end)) {
		end = soon
	}
	return l.Conn.SetReadDeadline(end)
}

func (l *listener) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if len(l.head) < headLength && n > 0 {
		l.head = append(l.head, p[:min(n, headLength-len(l.head))]...)
		if len(l.head) == headLength {
			if ms := binary.BigEndian.Uint32(l.head[8:]); ms > 0 { // 0: the session is over
				l.agreed.Store(int64(ms))
			}
		}
	}
	return n, err
}
