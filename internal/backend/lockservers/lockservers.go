// Package lockservers opens the servers that only some locks need: the nodes of Redlock, etcd and
// ZooKeeper. One process starts the servers, when they are first needed. All processes of the
// machine can use their Addresses.
package lockservers

import (
	"context"
	"errors"
	"strings"
	"time"

	"oversell/internal/backend/coordination"
	"oversell/internal/backend/local"
	"oversell/internal/catalog"
)

// Specs are the values of -redlock, -etcd and -zookeeper. Those that are not
// needed may be empty.
type Specs struct {
	Redlock   string // embedded or local, which start DefaultNodes nodes, or addresses of the user's own nodes
	Etcd      string // local, or the user's own
	ZooKeeper string // local, or the user's own
}

const (
	embedded = "embedded"
	own      = "local"
)

// Needs returns the needs whose spec is not empty.
func (s Specs) Needs() []catalog.Need {
	var needs []catalog.Need
	for need, spec := range map[catalog.Need]string{
		catalog.NeedsNodes: s.Redlock, catalog.NeedsEtcd: s.Etcd, catalog.NeedsZooKeeper: s.ZooKeeper,
	} {
		if spec != "" {
			needs = append(needs, need)
		}
	}
	return needs
}

// starts reports whether a server is started for the need. It returns an error if that
// server is not installed.
func (s Specs) starts(need catalog.Need) (bool, error) {
	switch {
	case need == catalog.NeedsNodes && s.Redlock == own:
		_, err := local.RedisPath()
		return true, err
	case need == catalog.NeedsZooKeeper && s.ZooKeeper == own:
		return true, coordination.FindZooKeeper()
	case need == catalog.NeedsEtcd && s.Etcd == own:
		return true, coordination.FindEtcd()
	}
	return need == catalog.NeedsNodes && s.Redlock == embedded, nil
}

// server is the server for one need, or the nodes of Redlock.
type server struct {
	addresses []string
	name      string       // for the first lines of a report
	ended     func() error // returns an error if the server has ended
	stop      func() error
}

// Close stops the server if it was started here.
func (s *server) Close() error { return s.stop() }

// serve opens the server for a need.
func (s Specs) serve(ctx context.Context, need catalog.Need) (*server, error) {
	open, spec := coordination.ServeEtcd, s.Etcd
	switch need {
	case catalog.NeedsNodes:
		return serveNodes(ctx, s.Redlock)
	case catalog.NeedsZooKeeper:
		open, spec = coordination.ServeZooKeeper, s.ZooKeeper
	}
	there, err := open(ctx, spec)
	if err != nil {
		return nil, err
	}
	name := spec
	if spec != own {
		name = strings.Join(there.Addresses, ", ")
	}
	return &server{there.Addresses, string(need) + ": " + name, there.Err, there.Close}, nil
}

// Addresses has the addresses of running servers, by need. They may contain passwords.
type Addresses map[catalog.Need][]string

// Servers are the servers of a process: the user's own, and those that start when they are first
// needed. They are safe for concurrent use. A nil *Servers has none.
type Servers struct{ of map[catalog.Need]source }

// source opens a server.
type source struct {
	*onDemand[*server]
	late bool // it is opened when it is first needed
}

// New resolves the values of flags, and starts nothing yet: it checks the addresses of the user's
// own servers, and that the servers that "local" starts are installed. Needs without servers are
// skipped. The caller must call Close. Errors wrap backend.ErrSpec, coordination.ErrSpec, or the
// reason why a server cannot be used.
func New(ctx context.Context, specs Specs, needs ...catalog.Need) (*Servers, error) {
	s := &Servers{of: make(map[catalog.Need]source)}
	for _, need := range needs {
		if !need.OfServers() {
			continue
		}
		late, err := specs.starts(need)
		if err == nil {
			opened := newOnDemand(func(ctx context.Context) (*server, error) { return specs.serve(ctx, need) })
			s.of[need] = source{opened, late}
			if !late {
				_, err = opened.get(ctx)
			}
		}
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

// Running returns Servers that run already. There is nothing to close.
func Running(a Addresses) *Servers {
	s := &Servers{of: make(map[catalog.Need]source)}
	nothing := func() error { return nil }
	for need, addresses := range a {
		there := &server{addresses: addresses, ended: nothing, stop: nothing}
		s.of[need] = source{newOnDemand(func(context.Context) (*server, error) { return there, nil }), false}
	}
	return s
}

// Has reports whether servers for a need exist or can be started.
func (s *Servers) Has(need catalog.Need) bool {
	return s != nil && s.of[need].onDemand != nil
}

// Open returns the addresses of the servers for the needs, and their names for the first
// lines of a report. It starts those that do not run yet, and waits for them until ctx
// ends; a start in progress then continues. A failed start is retried by the next caller,
// but not within a second. Needs without servers are skipped.
func (s *Servers) Open(ctx context.Context, needs ...catalog.Need) (a Addresses, names []string, err error) {
	a = make(Addresses)
	for _, need := range needs {
		if !s.Has(need) {
			continue
		}
		there, err := s.server(ctx, need)
		if err != nil {
			return nil, nil, err
		}
		a[need] = there.addresses
		names = append(names, there.name)
	}
	return a, names, nil
}

// server returns the server for a need that s has. It also returns an error if the server
// has failed since its start. Such a server is not replaced: a new etcd in its place
// would let a second holder in, and restart the numbering of its tokens.
func (s *Servers) server(ctx context.Context, need catalog.Need) (*server, error) {
	there, err := s.of[need].get(ctx)
	if err == nil {
		err = there.ended()
	}
	return there, err
}

// Dial connects to the servers that already run, and returns Clients that connect to the
// others when a guard is first used, for locks with the given lease. The Clients must be
// closed before s, after all locks are released.
func (s *Servers) Dial(ctx context.Context, ttl time.Duration) (*Clients, error) {
	c := &Clients{later: make(map[catalog.Need]catalog.Later)}
	if s == nil {
		return c, nil
	}
	for need, from := range s.of {
		if from.late {
			c.dialLater(s, need, ttl)
			continue
		}
		there, err := s.server(ctx, need)
		if err == nil {
			err = c.dial(ctx, need, there.addresses, ttl)
		}
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	return c, nil
}

// Close stops the servers that were started, and prevents further starts. It waits for the
// end of a start in progress. It may be called more than once.
func (s *Servers) Close() error {
	if s == nil {
		return nil
	}
	var errs []error
	for _, from := range s.of {
		errs = append(errs, from.Close())
	}
	return errors.Join(errs...)
}
