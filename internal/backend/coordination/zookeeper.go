package coordination

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"oversell/internal/backend"
	"oversell/internal/backend/local"
)

// ServeZooKeeper resolves the value of -zookeeper:
//
//   - "local" starts a private ZooKeeper on a free loopback port, with its files in a temporary
//     folder; ZooKeeper and Java must be installed;
//   - addresses of the user's own ZooKeeper, such as HOST:PORT, separated by commas, are checked
//     and kept.
//
// ctx limits the start of the server, which runs until Close. Errors wrap backend.ErrSpec,
// backend.ErrMissing, or the reason why the server did not start.
func ServeZooKeeper(ctx context.Context, spec string) (*Server, error) {
	if spec != "local" {
		servers, err := zkServers(spec)
		if err != nil {
			return nil, err
		}
		return &Server{Addresses: servers}, nil
	}
	java, classPath, err := findZooKeeper()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	s, err := start(ctx, "", local.Command{
		Name: "zookeeper",
		Path: java,
		Prepare: func(_ context.Context, dir string, port int) error {
			return os.WriteFile(filepath.Join(dir, zkConfigFile), []byte(zkConfig(dir, port)), 0o600)
		},
		Args: func(dir string, _ int) []string {
			return []string{
				// A quick start is more important than speed.
				"-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
				"-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
				"-Dzookeeper.jmx.log4j.disable=true",
				"-Dzookeeper.forceSync=no", // the data is deleted at the end
				"-Dzookeeper.preAllocSize=1024",
				"-Dznode.container.checkIntervalMs=1000",
				"-cp", classPath, "org.apache.zookeeper.server.ZooKeeperServerMain", filepath.Join(dir, zkConfigFile),
			}
		},
		Ready:   isOK,
		OnPort:  true,
		Timeout: startTimeout,
	})
	if err != nil {
		return nil, err
	}
	if err := s.awaitSession(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// awaitSession waits until a new ZooKeeper has granted a session. On a busy machine, the first one takes
// a new Java process longer than DialZooKeeper waits.
func (s *Server) awaitSession(ctx context.Context) error {
	for {
		conn, err := DialZooKeeper(ctx, s.Addresses, time.Second)
		if err == nil {
			conn.Close()
			return nil
		}
		if ended := s.Err(); ended != nil || ctx.Err() != nil {
			return errors.Join(ended, fmt.Errorf("waiting for the first session: %w", err))
		}
	}
}

// zkConfigFile is the configuration file in the server's folder.
const zkConfigFile = "zoo.cfg"

// debianJar is the path at which Debian's package installs ZooKeeper. The jar's manifest names
// the other jars that it needs, except for a logging backend.
const (
	debianJar    = "/usr/share/java/zookeeper.jar"
	debianLogger = "/usr/share/java/slf4j-simple.jar"
)

// FindZooKeeper returns an error that wraps backend.ErrMissing if "local" cannot start a ZooKeeper.
func FindZooKeeper() error {
	_, _, err := findZooKeeper()
	return err
}

// findZooKeeper looks for Java and for ZooKeeper. It uses the ZooKeeper in the folder
// ZOOKEEPER_HOME, which must be unpacked from the archive of the ZooKeeper project, or otherwise
// the ZooKeeper of Debian's package.
func findZooKeeper() (java, classPath string, err error) {
	if home := os.Getenv("ZOOKEEPER_HOME"); home != "" {
		classPath = filepath.Join(home, "lib", "*")
		if jars, _ := fs.Glob(os.DirFS(home), "lib/zookeeper-*.jar"); len(jars) == 0 {
			return "", "", fmt.Errorf("zookeeper %w (nor in %s, by ZOOKEEPER_HOME): unpack its archive there",
				backend.ErrMissing, home)
		}
	} else if _, err := os.Stat(debianJar); err == nil {
		classPath = debianJar + string(os.PathListSeparator) + debianLogger
	} else {
		return "", "", fmt.Errorf("zookeeper %w (nor %s, nor by ZOOKEEPER_HOME): "+
			"install it with `apt-get install zookeeper`", backend.ErrMissing, debianJar)
	}
	if java, err = exec.LookPath("java"); err != nil {
		return "", "", fmt.Errorf("java %w, which zookeeper runs on: "+
			"install it with `apt-get install default-jre-headless`", backend.ErrMissing)
	}
	return java, classPath, nil
}

// zkConfig returns a configuration that allows session timeouts from a second to a minute. The
// server rounds the end of a session to a tick.
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

// isOK sends the four-letter command "ruok", and returns an error unless the server replies "imok",
// which means that it is ready.
func isOK(c net.Conn) error {
	if _, err := io.WriteString(c, "ruok"); err != nil {
		return err
	}
	reply, err := io.ReadAll(c)
	if err == nil && string(reply) != "imok" {
		err = errors.New("no imok")
	}
	return err
}

// ZooKeeper is a connection to ZooKeeper, with the session timeout that the server granted.
type ZooKeeper struct {
	*zk.Conn

	// Timeout is the time after which the server ends the session if it does not hear from this
	// process. It may differ from the requested timeout.
	Timeout time.Duration
}

// DialZooKeeper connects to the servers that ServeZooKeeper returned, and requests a session with
// the timeout. If there is no session within a few seconds, the error wraps
// backend.ErrUnreachable. Close ends the session.
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
	nothing := log.New(io.Discard, "", 0) // the client also returns the errors that it would log
	conn, events, err := zk.Connect(servers, timeout,
		zk.WithDialer(dial), zk.WithHostProvider(&hosts{}), zk.WithLogger(nothing), zk.WithLogInfo(false))
	if err != nil {
		return nil, fmt.Errorf("connect to zookeeper: %w", err)
	}
	has := make(chan struct{})
	go func() { // runs until Close
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
	return nil, fmt.Errorf("zookeeper at %s: %w: %w",
		strings.Join(servers, ","), backend.ErrUnreachable, context.Cause(ctx))
}

// hosts decides the order in which servers are tried. By default, the client library pauses for a
// second before each try if there is only one server, even if the connection has only just broken.
// hosts pauses only after all servers were tried without success.
type hosts struct {
	mu      sync.Mutex
	servers []string
	next    int
	tried   int // number of tries since the last connection
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

// listener records the timeout that the server grants, because the client does not expose it. The
// first reply on a connection begins with its length and the protocol version, of four bytes each,
// and then the timeout in milliseconds.
//
// listener also limits the wait for that reply. The client would wait for several times the
// session's timeout before it tries another server.
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
			if ms := binary.BigEndian.Uint32(l.head[8:]); ms > 0 { // 0 means that the session is over
				l.agreed.Store(int64(ms))
			}
		}
	}
	return n, err
}
