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
	"oversell/internal/message"
)

// server is the Redis that cells run on, together with the other servers of their subject's lock.
type server struct {
	dial               func(ctx context.Context) (net.Conn, error)
	username, password string
	db                 int
	close              func()

	mini    *miniredis.Miniredis // nil: the clocks of the servers that keep the lock cannot be set
	nodes   []*server            // the nodes of redlock; nil: the lock is elsewhere
	service *Service             // keeps the lock instead of Redis; nil: the lock is in Redis
	ttl     time.Duration        // in real time: the lease that the servers grant
}

// inMemory returns a Redis in this process. It works in virtual time, because it uses the clock of
// this process and its connections are pipes.
func inMemory() *server {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	return &server{
		dial:  func(context.Context) (net.Conn, error) { return m.Dial() },
		close: m.Close,
		mini:  m,
	}
}

// inMemoryFor is like inMemory, but adds the nodes that the subject's lock needs.
func inMemoryFor(c Subject) *server {
	s := inMemory()
	if c.Needs != catalog.NeedsNodes {
		return s
	}
	closeOne := s.close
	for range 5 { // as in the examples of redlock's author
		s.nodes = append(s.nodes, inMemory())
	}
	s.close = func() {
		closeOne()
		for _, node := range s.nodes {
			node.close()
		}
	}
	return s
}

var errOneServer = errors.New("the lab stands between a lock and one server: embedded, local, redis://host:port or " +
	"rediss://host:port")

// CheckRedis returns an error if spec, the value of -redis, names several servers, such as a
// cluster or sentinels. Other mistakes are found when the lab connects.
func CheckRedis(spec string) error {
	scheme, _, _ := strings.Cut(spec, ":")
	if strings.Contains(spec, ",") || strings.HasSuffix(scheme, "+sentinel") || spec == "local:cluster" {
		return errOneServer
	}
	return nil
}

func at(url string) (*server, error) {
	o, err := redis.ParseURL(url)
	if err != nil || strings.Contains(url, ",") {
		return nil, errOneServer // the URL may contain a password, and so may the error
	}
	dial := new(net.Dialer).DialContext
	if o.TLSConfig != nil {
		dial = (&tls.Dialer{Config: o.TLSConfig}).DialContext
	}
	return &server{
		dial:     func(ctx context.Context) (net.Conn, error) { return dial(ctx, o.Network, o.Addr) },
		username: o.Username, password: o.Password, db: o.DB,
		close: func() {},
	}, nil
}

// address is the server address in the configuration of clients. It is an IP address, because a
// name would be looked up outside of virtual time.
const address = "127.0.0.1:6379"

// options returns the settings of the lab's go-redis clients. They are the shop's settings, except
// for the timeouts, which depend on the ttl.
func (s *server) options(dial func(ctx context.Context) (net.Conn, error)) *redis.Options {
	return &redis.Options{
		Addr:     address,
		Dialer:   func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		Username: s.username, Password: s.password, DB: s.db,

		// The pool is so large that no caller waits for it. go-redis would wait with a timer that
		// it reuses, and a timer of virtual time must not be used outside of virtual time.
		PoolSize: 256,

		ContextTimeoutEnabled: true,
		MaxRetries:            -1,
		DialerRetries:         1,

		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// Servers returns the number of servers that keep the lock.
func (w *World) Servers() int { return len(w.keepers()) }

// Majority returns how many of the servers that keep the lock form a majority.
func (w *World) Majority() int { return w.Servers()/2 + 1 }

// ServerNames returns the names of the first n servers that keep the lock.
func (w *World) ServerNames(n int) message.Message {
	if w.Servers() == 1 {
		return message.Text("the server")
	}
	var names []string
	for i := range n {
		names = append(names, strconv.Itoa(i))
	}
	return message.Newf("nodes %s", list(names))
}

// LoseLock removes the lock, and the keys that its scripts keep beside it, from the first n servers
// that keep the lock. The holder is not notified. The format and its arguments say why.
func (w *World) LoseLock(n int, format string, args ...any) {
	w.alone(func() {
		e := w.Trace("", Fault, format, args...)
		if s := w.server.service; s != nil {
			place, err := s.First(w.ctx, w.lockKey)
			Need(err == nil && place != "", "the holder's place was not found: %v", err)
			err = s.Lose(w.ctx, place)
			Need(err == nil, "the holder's place could not be removed: %v", err)
			return
		}
		var gone int64
		beside := slices.DeleteFunc(w.spaces[0].known(),
			func(name string) bool { return !strings.HasPrefix(name, w.redisKey()+":") })
		for _, keeper := range w.keepers()[:n] {
			removed, err := keeper.side.Del(w.ctx, w.redisKey()).Result()
			Need(err == nil, "the key could not be removed: %v", err)
			gone += removed
			for _, name := range beside {
				err := keeper.side.Del(w.ctx, name).Err()
				Need(err == nil, "the key could not be removed: %v", err)
			}
		}
		Need(gone > 0, "Redis has no key of the lock to lose")
		w.show(e)
	})
}

// LoseKeys removes all keys that the cell's commands have named, as if Redis had restarted without
// them.
func (w *World) LoseKeys(format string, args ...any) {
	w.alone(func() {
		e := w.Trace("", Fault, format, args...)
		err := w.Side.Del(w.ctx, w.spaces[0].known()...).Err()
		Need(err == nil, "the key could not be removed: %v", err)
		w.show(e)
	})
}

// JumpClocks lets the leases on n servers expire as if their clocks had jumped ahead by the ttl. The
// reply to TIME does not jump: miniredis's clock would stand still once it was set.
func (w *World) JumpClocks(n int) {
	w.alone(func() {
		e := w.Trace("", Fault, "the clock of %s"+JumpsAhead+"%s", w.ServerNames(n), About(w.TTL))
		for _, keeper := range w.keepers()[:n] {
			keeper.server.mini.FastForward(w.TTL)
		}
		w.show(e)
	})
}

// SetClocksBack sets the clocks of all servers back by d. The clocks then stand still until the
// next call.
func (w *World) SetClocksBack(d time.Duration) {
	w.alone(func() {
		e := w.Trace("", Fault, "the clock of %s is set back by %s", w.ServerNames(w.Servers()), About(d))
		for _, keeper := range w.keepers() {
			keeper.server.mini.Exists("") // removes the expired keys
			keeper.server.mini.SetTime(time.Now().Add(-d))
		}
		w.show(e)
	})
}

// PersistLock removes the ttl of the lock, so that it does not expire.
func (w *World) PersistLock() {
	if w.Subject.InRedis() {
		for _, keeper := range w.keepers() {
			_ = keeper.side.Persist(w.ctx, w.redisKey()).Err()
		}
		w.Note("", "the lock is kept without a ttl")
	}
}

var errNoServers = errors.New("the servers of its lock are not given")

// open connects to the servers of the subjects that run in real time, and stores them in r.servers.
func (r *run) open(ctx context.Context) (stops []func(), err error) {
	redis := inMemory()
	if r.cfg.Redis != Embedded {
		if redis, err = at(r.cfg.Redis); err != nil {
			return nil, err
		}
		conn, err := redis.dial(ctx)
		if err != nil {
			return nil, fmt.Errorf("dialling Redis: %w", err)
		}
		conn.Close()
	}
	stops = append(stops, redis.close)
	r.servers = make(map[string]*server)
	for _, c := range r.cfg.Subjects {
		if r.virtual(c) {
			continue
		}
		on := *redis // connect adds the other servers of its lock
		on.ttl = r.ttl(c)
		if err := r.connect(ctx, c, &on); err != nil {
			return stops, fmt.Errorf("%s: %w", c.Name, err)
		}
		if on.service != nil {
			stops = append(stops, on.service.Close)
			if on.ttl, err = on.service.Granted(ctx, on.ttl); err != nil {
				return stops, err
			}
		}
		r.servers[c.Name] = &on
	}
	return stops, nil
}

// connect connects to the servers that a subject's lock needs in addition to, or instead of, the
// one Redis.
func (r *run) connect(ctx context.Context, c Subject, on *server) (err error) {
	switch {
	case c.InService():
		connect, ok := r.cfg.Services[c.Needs]
		if !ok {
			return errNoServers
		}
		on.mini = nil
		on.service, err = connect(ctx)
	case c.Needs == catalog.NeedsNodes:
		if len(r.cfg.Nodes) == 0 {
			return errNoServers
		}
		on.mini = nil
		for _, url := range r.cfg.Nodes {
			node, err := at(url)
			if err != nil {
				return err
			}
			on.nodes = append(on.nodes, node)
		}
	}
	return err
}
