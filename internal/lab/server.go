package lab

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"oversell/internal/locks"
)

// server is the Redis that the cells run on, with what else the lock of their
// column lives on.
type server struct {
	dial               func(ctx context.Context) (net.Conn, error)
	username, password string
	db                 int
	close              func()

	jump    func(time.Duration) // sets the clock ahead; nil: it cannot be set
	nodes   []*server           // of redlock; nil: the lock lives elsewhere
	service service             // that is no Redis; nil: the lock lives in Redis
}

// inMemory is a Redis that lives in this process and keeps its time. No
// listener: its connections are pipes, which know of virtual time too.
func inMemory() *server {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	return &server{
		dial:  func(context.Context) (net.Conn, error) { return m.Dial() },
		close: m.Close,
		jump:  m.FastForward,
	}
}

// inMemoryFor is inMemory with the nodes that the column's lock lives on.
func inMemoryFor(c Column) *server {
	s := inMemory()
	if c.Needs != locks.NeedsNodes {
		return s
	}
	closers := []func(){s.close}
	for range nodesInMemory {
		node := inMemory()
		s.nodes, closers = append(s.nodes, node), append(closers, node.close)
	}
	s.close = func() {
		for _, f := range closers {
			f()
		}
	}
	return s
}

// nodesInMemory is how many nodes redlock has in virtual time: as many as its
// author does his examples with.
const nodesInMemory = 5

// with returns the same Redis, with what else a lock lives on.
func (s *server) with(nodes []*server, other service) *server {
	more := *s
	more.nodes, more.service = nodes, other
	return &more
}

// keepers are the servers that keep a lock, of which more than half decide.
func (s *server) keepers() []*server {
	if len(s.nodes) > 0 {
		return s.nodes
	}
	return []*server{s}
}

// hasClocks reports whether the clocks of those who keep the lock can be set.
func (s *server) hasClocks() bool {
	return s.service == nil && !slices.ContainsFunc(s.keepers(), func(k *server) bool { return k.jump == nil })
}

// errOneServer says what Redis the lab can run on.
var errOneServer = errors.New("the lab stands between a lock and one server: embedded, local, redis://host:port or rediss://host:port")

// CheckRedis returns an error for a value of -redis that names several servers,
// as a cluster and sentinels are. Other mistakes in it show when it is dialled.
func CheckRedis(spec string) error {
	if strings.Contains(spec, ",") || strings.HasPrefix(spec, "redis+sentinel:") {
		return errOneServer
	}
	return nil
}

// at is the Redis behind a URL of the form redis:// or rediss://.
func at(url string) (*server, error) {
	o, err := redis.ParseURL(url)
	if err != nil || strings.Contains(url, ",") {
		return nil, errOneServer // the URL may hold a password, and its error with it
	}
	return &server{
		dial:     func(ctx context.Context) (net.Conn, error) { return dialTCP(ctx, o) },
		username: o.Username, password: o.Password, db: o.DB,
		close: func() {},
	}, nil
}

func dialTCP(ctx context.Context, o *redis.Options) (net.Conn, error) {
	if o.TLSConfig != nil {
		d := tls.Dialer{Config: o.TLSConfig}
		return d.DialContext(ctx, o.Network, o.Addr)
	}
	var d net.Dialer
	return d.DialContext(ctx, o.Network, o.Addr)
}

// address is what clients believe to dial. It has to be an IP: a name would be
// looked up, outside of virtual time.
const address = "127.0.0.1:6379"

// options are the settings of every go-redis client of the lab: those that the
// shop uses, but for the timeout, which goes by the ttl.
func (s *server) options(dial func(ctx context.Context) (net.Conn, error)) *redis.Options {
	return &redis.Options{
		Addr:     address,
		Dialer:   func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		Username: s.username, Password: s.password, DB: s.db,

		// A pool that nobody waits for: its timers are reused, and one of a
		// bubble of virtual time must not be met outside of it.
		PoolSize: 256,

		ContextTimeoutEnabled: true,
		MaxRetries:            -1,
		DialerRetries:         1,

		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}
