// Package lockservers opens the servers that only some locks need: the nodes of
// Redlock, etcd and ZooKeeper. It takes two steps, as package backend does: Serve
// turns the values of flags into addresses, and Dial connects to them from any
// process of the machine. Lazy takes both when a server is first needed.
package lockservers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"oversell/internal/backend"
	"oversell/internal/backend/coordination"
	"oversell/internal/catalog"
	"oversell/internal/guard"
	"oversell/internal/locks/etcdlock"
	"oversell/internal/locks/zklock"
)

// Specs are the values of -redlock, -etcd and -zookeeper. Those that are not
// needed may be empty.
type Specs struct {
	Redlock   string // embedded or local, which start DefaultNodes nodes, or the addresses of the user's own
	Etcd      string // local, or the user's own
	ZooKeeper string // local, or the user's own
}

const (
	// DefaultNodes is how many nodes "embedded" and "local" start for Redlock:
	// the number in the examples of its author.
	DefaultNodes = 5

	// MinNodes is the smallest number of nodes with a majority that survives
	// the loss of one.
	MinNodes = 3

	embedded = "embedded"
	own      = "local"
)

// Addresses are what Dial takes. They may hold passwords. An empty field means
// that there is no such server.
type Addresses struct {
	Redlock   []string `json:"redlock,omitempty"`
	Etcd      []string `json:"etcd,omitempty"`
	ZooKeeper []string `json:"zookeeper,omitempty"`
}

// Servers are the servers that Serve started, and the user's own.
type Servers struct {
	Addresses
	Names []string // for the first lines of a report

	ended func() error // says whether a server that must not be replaced has ended; may be nil
	stops []func() error
}

// Err returns coordination.ErrEnded if an etcd that was started here has ended, or nil.
func (s *Servers) Err() error {
	if s.ended == nil {
		return nil
	}
	return s.ended()
}

// Serve opens the servers for the needs. The caller must call Close. Errors
// wrap backend.ErrSpec, coordination.ErrSpec, or the reason why a server did
// not start.
func Serve(ctx context.Context, specs Specs, needs ...catalog.Need) (s *Servers, err error) {
	s = &Servers{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
			s = nil
		}
	}()
	for _, need := range needs {
		switch need {
		case catalog.NeedsNodes:
			err = s.serveNodes(ctx, specs.Redlock)
		case catalog.NeedsEtcd:
			err = s.serveEtcd(ctx, specs.Etcd)
		case catalog.NeedsZooKeeper:
			err = s.serveZooKeeper(ctx, specs.ZooKeeper)
		}
		if err != nil {
			return s, err
		}
	}
	return s, nil
}

// serveNodes starts nodes that are independent of each other.
func (s *Servers) serveNodes(ctx context.Context, spec string) error {
	specs, name := nodes(spec)
	if err := checkNodes(spec, specs); err != nil {
		return err
	}
	if one := twice(specs); spec != embedded && spec != own && one > 0 {
		return fmt.Errorf("%w of -redlock: node %d is named before; each must be a server of its own",
			backend.ErrSpec, one)
	}
	if len(specs) < MinNodes {
		return fmt.Errorf("%w of -redlock: it names %s, and must name %d at least, separated by commas; "+
			"allowed as well: %s, %s", backend.ErrSpec, counted(len(specs)), MinNodes, embedded, own)
	}
	started := make([]*backend.RedisServer, len(specs))
	var g errgroup.Group
	for i, one := range specs {
		g.Go(func() (err error) {
			started[i], err = backend.ServeRedis(ctx, one)
			return err
		})
	}
	err := g.Wait()
	for _, node := range started {
		if node != nil {
			s.stops = append(s.stops, node.Close)
			s.Redlock = append(s.Redlock, node.URL)
		}
	}
	if err == nil {
		err = reachable(ctx, s.Redlock)
	}
	if err != nil {
		return fmt.Errorf("opening the nodes of -redlock: %w", err)
	}
	s.Names = append(s.Names, fmt.Sprintf("redlock: %d nodes%s", len(specs), name))
	return nil
}

// reachable returns an error unless a majority of the nodes answers.
func reachable(ctx context.Context, nodes []string) error {
	errs := make([]error, len(nodes))
	var g errgroup.Group
	for i, url := range nodes {
		g.Go(func() error {
			rdb, err := backend.DialRedis(ctx, url, 1)
			if err == nil {
				err = rdb.Close()
			}
			errs[i] = err
			return nil
		})
	}
	_ = g.Wait() // always nil: each node has its own error
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(errs) <= (len(nodes)-1)/2 {
		return nil
	}
	return fmt.Errorf("%d of %d do not answer, and a majority must: %w", len(errs), len(nodes), errs[0])
}

// nodes returns a value of -redis for each node, and a description of the nodes
// as a whole.
func nodes(spec string) (specs []string, name string) {
	if spec == embedded || spec == own {
		for range DefaultNodes {
			specs = append(specs, spec)
		}
		return specs, " (" + spec + ")"
	}
	for node := range strings.SplitSeq(spec, ",") {
		if node = strings.TrimSpace(node); node == "" {
			continue
		}
		if !strings.Contains(node, "://") {
			node = "redis://" + node
		}
		specs = append(specs, node)
	}
	return specs, ""
}

func counted(nodes int) string {
	if nodes == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", nodes)
}

// checkNodes returns an error for the first address that is not a Redis. It does
// not wrap the errors of SingleAddr, because they list what -redis accepts, which
// is a different flag.
func checkNodes(spec string, specs []string) error {
	if spec == embedded || spec == own {
		return nil
	}
	for i, one := range specs {
		if word := strings.TrimPrefix(one, "redis://"); word == embedded || word == own {
			return fmt.Errorf("%w of -redlock: node %d is %s, which must be the only value", backend.ErrSpec, i+1, word)
		}
		if _, err := backend.SingleAddr(one); errors.Is(err, backend.ErrSpec) {
			return fmt.Errorf("%w of -redlock: node %d is no address of a Redis; "+
				"allowed: HOST:PORT, redis://…, rediss://…, and alone: %s, %s", backend.ErrSpec, i+1, embedded, own)
		}
	}
	return nil
}

// twice returns the number, counted from 1, of the first spec that repeats an
// earlier one, or 0.
func twice(specs []string) int {
	for i, one := range specs {
		if slices.Contains(specs[:i], one) {
			return i + 1
		}
	}
	return 0
}

func (s *Servers) serveEtcd(ctx context.Context, spec string) error {
	etcd, err := coordination.ServeEtcd(ctx, spec)
	if err != nil {
		return err
	}
	s.ended = etcd.Err
	s.stops, s.Etcd = append(s.stops, etcd.Close), etcd.Endpoints
	s.Names = append(s.Names, named("etcd", spec, own, etcd.Endpoints))
	return nil
}

func (s *Servers) serveZooKeeper(ctx context.Context, spec string) error {
	servers, stop, err := coordination.ServeZooKeeper(ctx, spec)
	if err != nil {
		return err
	}
	s.stops, s.ZooKeeper = append(s.stops, stop), servers
	s.Names = append(s.Names, named("zookeeper", spec, own, servers))
	return nil
}

func named(what, spec, started string, addresses []string) string {
	if spec == started {
		return what + ": " + started
	}
	return what + ": " + strings.Join(addresses, ", ")
}

// Close stops the servers that Serve started. It may be called more than once.
func (s *Servers) Close() error {
	var errs []error
	for _, stop := range s.stops {
		errs = append(errs, stop())
	}
	s.stops = nil
	return errors.Join(errs...)
}

// Clients are the connections of one process.
type Clients struct {
	nodes     []redis.UniversalClient
	etcd      func(key string) guard.Lock
	zooKeeper func(key string) guard.Lock
	later     map[catalog.Need]catalog.Later // servers that are dialled at their first use

	closers []func() error
}

// nodePool is how many connections a process has to each of Redlock's nodes.
const nodePool = 16

// Dial connects to the servers at the given addresses, for locks with the given
// lease. The caller must call Close, after all locks are released.
func Dial(ctx context.Context, a Addresses, ttl time.Duration) (c *Clients, err error) {
	c = &Clients{}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
			c = nil
		}
	}()
	for _, url := range a.Redlock {
		// Redlock must work although some nodes are down.
		rdb, err := backend.NewRedis(url, nodePool)
		if err != nil {
			return c, err
		}
		c.nodes, c.closers = append(c.nodes, rdb), append(c.closers, rdb.Close)
	}
	if len(a.Etcd) > 0 {
		client, err := coordination.DialEtcd(ctx, a.Etcd)
		if err != nil {
			return c, err
		}
		source := etcdlock.NewSource(client, ttl)
		c.etcd = func(key string) guard.Lock { return etcdlock.New(source, key) }
		c.closers = append(c.closers, client.Close, source.Close)
	}
	if len(a.ZooKeeper) > 0 {
		conn, err := coordination.DialZooKeeper(ctx, a.ZooKeeper, ttl)
		if err != nil {
			return c, err
		}
		source := zklock.NewSource(conn.Conn, conn.Timeout)
		c.zooKeeper = func(key string) guard.Lock { return zklock.New(source, key) }
		c.closers = append(c.closers, func() error { conn.Close(); return nil }, source.Close)
	}
	return c, nil
}

// Add adds these connections to the options of a guard.
func (c *Clients) Add(o catalog.Options) catalog.Options {
	o.Nodes, o.Etcd, o.ZooKeeper, o.Later = c.nodes, c.etcd, c.zooKeeper, c.later
	return o
}

// Close ends the connections. It may be called more than once.
func (c *Clients) Close() error {
	var errs []error
	for i := len(c.closers) - 1; i >= 0; i-- {
		errs = append(errs, c.closers[i]())
	}
	c.closers = nil
	return errors.Join(errs...)
}
