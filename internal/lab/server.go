package lab

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"oversell/internal/catalog"
)

// server is the Redis that the cells run on, with the other servers of their subject's
// lock.
type server struct {
	dial               func(ctx context.Context) (net.Conn, error)
	username, password string
	db                 int
	close              func()

	jump    func(time.Duration) // sets the clock ahead; nil: it cannot be set
	nodes   []*server           // of redlock; nil: the lock lives elsewhere
	service Service             // that is no Redis; nil: the lock lives in Redis
}

// inMemory is a Redis in this process, with its clock. It has no listener: its
// connections are pipes, which work in virtual time.
func inMemory() *server {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	return &server{
		dial:  func(context.Context) (net.Conn, error) { return m.Dial() },
		close: m.Close,
		jump:  m.FastForward,
	}
}

// inMemoryFor is inMemory with the nodes that the subject's lock lives on.
func inMemoryFor(c Subject) *server {
	s := inMemory()
	if c.Needs != catalog.NeedsNodes {
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

// nodesInMemory is how many nodes redlock has in virtual time: as in the examples of its
// author.
const nodesInMemory = 5

// with returns the same Redis, with what else a lock lives on.
func (s *server) with(nodes []*server, other Service) *server {
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

// hasClocks reports whether the clocks of the servers that keep the lock can be set.
func (s *server) hasClocks() bool {
	return s.service == nil && !slices.ContainsFunc(s.keepers(), func(k *server) bool { return k.jump == nil })
}

// errOneServer says what Redis the lab can run on.
var errOneServer = errors.New("the lab stands between a lock and one server: embedded, local, redis://host:port or rediss://host:port")

// CheckRedis returns an error for a value of -redis that names several servers, such as
// a cluster or sentinels. Other mistakes show when it is dialled.
func CheckRedis(spec string) error {
	if strings.Contains(spec, ",") || strings.HasPrefix(spec, "redis+sentinel:") || spec == "local:cluster" {
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

// address is the address that clients dial, as they believe. It is an IP, because a name
// would be looked up outside of virtual time.
const address = "127.0.0.1:6379"

// options are the settings of every go-redis client of the lab: the shop's, except for
// timeouts, which depend on the ttl.
func (s *server) options(dial func(ctx context.Context) (net.Conn, error)) *redis.Options {
	return &redis.Options{
		Addr:     address,
		Dialer:   func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		Username: s.username, Password: s.password, DB: s.db,

		// A pool that nobody has to wait for: its timers are reused, and a timer of
		// virtual time must not be used outside of it.
		PoolSize: 256,

		ContextTimeoutEnabled: true,
		MaxRetries:            -1,
		DialerRetries:         1,

		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// Servers is how many servers keep the lock.
func (w *World) Servers() int { return len(w.sides) }

// Majority is how many of the servers that keep the lock decide.
func (w *World) Majority() int { return w.Servers()/2 + 1 }

// ServerNames names the first n of the servers that keep the lock.
func (w *World) ServerNames(n int) string {
	if w.Servers() == 1 {
		return "the server"
	}
	var names []string
	for i := range n {
		names = append(names, strconv.Itoa(i))
	}
	return "nodes " + list(names)
}

// LoseLock removes the lock, and what its scripts keep beside it, from n of the servers
// that keep it, without its holder.
func (w *World) LoseLock(n int, why string) {
	w.alone(func() {
		e := w.trace.add("", Fault, why)
		if s := w.server.service; s != nil {
			place, err := s.First(w.ctx, w.lockKey)
			Need(err == nil && place != "", "the holder's place was not found: %v", err)
			err = s.Lose(w.ctx, place)
			Need(err == nil, "the holder's place could not be removed: %v", err)
			return
		}
		var gone int64
		for _, side := range w.sides[:n] {
			removed, err := side.Del(w.ctx, w.redisKey()).Result()
			Need(err == nil, "the key could not be removed: %v", err)
			gone += removed
			for _, name := range w.spaces[0].known() {
				if strings.HasPrefix(name, w.redisKey()+":") {
					err := side.Del(w.ctx, name).Err()
					Need(err == nil, "the key could not be removed: %v", err)
				}
			}
		}
		Need(gone > 0, "Redis has no key of the lock to lose")
		w.show(e)
	})
}

// LoseKeys removes all keys that the commands of the cell have named, as a Redis does that
// begins with an older copy of its data, or with none.
func (w *World) LoseKeys(why string) {
	w.alone(func() {
		e := w.trace.add("", Fault, why)
		err := w.Side.Del(w.ctx, w.spaces[0].known()...).Err()
		Need(err == nil, "the key could not be removed: %v", err)
		w.show(e)
	})
}

// JumpClocks sets the clocks of n servers ahead by the ttl. The time that the servers
// tell does not jump with them: a server in memory has no clock that goes on from where
// it was set. It is the leases that end.
func (w *World) JumpClocks(n int) {
	w.alone(func() {
		e := w.trace.add("", Fault, "the clock of "+w.ServerNames(n)+" jumps ahead by "+About(w.TTL))
		for _, keeper := range w.server.keepers()[:n] {
			keeper.jump(w.TTL)
		}
		w.show(e)
	})
}

// PersistLock removes the ttl of the lock, so that it does not expire.
func (w *World) PersistLock() {
	if w.Subject.InRedis() {
		for _, side := range w.sides {
			_ = side.Persist(w.ctx, w.redisKey()).Err()
		}
		w.look() // so that it is known of all nodes
		w.Note("", "the lock is kept without a ttl")
	}
}

// sites are the servers that subjects run on in real time.
type sites struct {
	of    map[string]site // by subject
	stops []func()
}

// site is where one subject is run.
type site struct {
	server *server
	ttl    time.Duration
}

func (s *sites) close() {
	for _, stop := range s.stops {
		stop()
	}
}

// errNoServers is returned, wrapped, for a subject whose servers are not given.
var errNoServers = errors.New("the servers of its lock are not given")

// open connects to the servers that the subjects in real time need.
func (r *run) open(ctx context.Context) (s sites, err error) {
	s.of = make(map[string]site)
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	redis, err := r.redis(ctx)
	if err != nil {
		return s, err
	}
	s.stops = append(s.stops, redis.close)
	for _, c := range r.cfg.Subjects {
		if r.virtual(c) {
			continue
		}
		nodes, other, err := r.lives(ctx, c)
		if err != nil {
			return s, fmt.Errorf("%s: %w", c.Name, err)
		}
		ttl := r.ttl(c)
		if other != nil {
			s.stops = append(s.stops, other.Close)
			if ttl, err = other.Granted(ctx, ttl); err != nil {
				return s, err
			}
		}
		s.of[c.Name] = site{redis.with(nodes, other), ttl}
		if other != nil || r.cfg.Redis == Embedded {
			r.apart = append(r.apart, apart{c.Name, ttl})
		}
	}
	return s, nil
}

// redis is the one Redis, in memory if Config names no other.
func (r *run) redis(ctx context.Context) (*server, error) {
	if r.cfg.Redis == Embedded {
		return inMemory(), nil
	}
	s, err := at(r.cfg.Redis)
	if err != nil {
		return nil, err
	}
	conn, err := s.dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("dialling Redis: %w", err)
	}
	return s, conn.Close()
}

// lives connects to what a subject's lock lives on, besides or instead of the one
// Redis.
func (r *run) lives(ctx context.Context, c Subject) (nodes []*server, other Service, err error) {
	switch c.Needs {
	case catalog.NeedsNodes:
		nodes, err = atNodes(r.cfg.Nodes)
		return nodes, nil, err
	case catalog.NeedsEtcd, catalog.NeedsZooKeeper:
		connect, ok := r.cfg.Services[c.Needs]
		if !ok {
			return nil, nil, errNoServers
		}
		other, err = connect(ctx)
	}
	return nil, other, err
}

func atNodes(urls []string) (nodes []*server, err error) {
	if len(urls) == 0 {
		return nil, errNoServers
	}
	for _, url := range urls {
		node, err := at(url)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, node)
	}
	return nodes, nil
}
