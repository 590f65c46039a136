// Package lockservers opens the servers that only some locks need: the nodes of Redlock, etcd and
// ZooKeeper. One process starts a server when it is first needed. All processes on the machine
// can use its Addresses.
package lockservers

import (
	"context"
	"errors"
	"strings"
	"time"

	"oversell/internal/backend/coordination"
	"oversell/internal/backend/local"
	"oversell/internal/catalog"
	"oversell/internal/guard"
)

// Specs contains the values of -redlock, -etcd and -zookeeper. A value that is not needed may be empty.
type Specs struct {
	Redlock   string // embedded or local, which start DefaultNodes nodes, or addresses of the user's own nodes
	Etcd      string // local, or addresses of the user's own servers
	ZooKeeper string // local, or addresses of the user's own servers
}

const (
	embedded = "embedded"
	own      = "local"
)

// Needs returns the needs whose spec is not empty, always in the same order, so that of two wrong
// specs always the same one is reported.
func (s Specs) Needs() []catalog.Need {
	var needs []catalog.Need
	for _, one := range []struct {
		need catalog.Need
		spec string
	}{{catalog.NeedsNodes, s.Redlock}, {catalog.NeedsEtcd, s.Etcd}, {catalog.NeedsZooKeeper, s.ZooKeeper}} {
		if one.spec != "" {
			needs = append(needs, one.need)
		}
	}
	return needs
}

// starts reports whether the spec of a need starts a server. It returns an error if that server
// is not installed.
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

// server is the server for one need. For Redlock it stands for all nodes together.
type server struct {
	addresses []string
	name      string       // for the first lines of a report
	ended     func() error // returns an error if the server has ended
	stop      func() error
}

// Close stops the server, unless it is the user's own.
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

// Addresses contains the addresses of running servers, by need. They may contain passwords.
type Addresses map[catalog.Need][]string

// Servers contains the lock servers that a process can use: the user's own servers, and private servers,
// which start when they are first needed. It is safe for concurrent use. A nil *Servers contains no servers.
type Servers struct {
	of   map[catalog.Need]*onDemand[*server]
	late map[catalog.Need]bool // the server is opened when it is first needed
}

// New resolves the values of flags, but does not start servers yet. It checks the addresses of the
// user's own servers, and checks that the servers that "local" starts are installed. It skips needs
// without servers. The caller must call Close. Errors wrap backend.ErrSpec, or the reason why a server
// cannot be used.
func New(ctx context.Context, specs Specs, needs ...catalog.Need) (*Servers, error) {
	s := &Servers{of: make(map[catalog.Need]*onDemand[*server]), late: make(map[catalog.Need]bool)}
	for _, need := range needs {
		if !need.OfServers() {
			continue
		}
		late, err := specs.starts(need)
		if err == nil {
			opened := newOnDemand(func(ctx context.Context) (*server, error) { return specs.serve(ctx, need) })
			s.of[need], s.late[need] = opened, late
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

// Running returns Servers for the addresses of running servers. It need not be closed.
func Running(a Addresses) *Servers {
	s := &Servers{of: make(map[catalog.Need]*onDemand[*server])}
	nothing := func() error { return nil }
	for need, addresses := range a {
		there := &server{addresses: addresses, ended: nothing, stop: nothing}
		s.of[need] = newOnDemand(func(context.Context) (*server, error) { return there, nil })
	}
	return s
}

// Has reports whether servers for a need exist or can be started.
func (s *Servers) Has(need catalog.Need) bool {
	return s != nil && s.of[need] != nil
}

// Open returns the addresses of the servers for the needs, and their names for the first lines of a
// report. It starts servers that are not running yet, and waits for them until ctx ends. A start
// that is in progress when ctx ends continues. After a failed start, a caller starts the server
// again, but not within a second. Open skips needs without servers.
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

// server returns the server for a need that s has. If the server has ended since its start, it
// returns an error. Such a server is not replaced: a new etcd would let a second holder in, and its
// tokens would begin again.
func (s *Servers) server(ctx context.Context, need catalog.Need) (*server, error) {
	there, err := s.of[need].get(ctx)
	if err == nil {
		err = there.ended()
	}
	return there, err
}

// Dial connects to the servers that are already running, and returns Clients that connect to the
// other servers when a guard is first used. ttl is the lease of the locks. Close the Clients before
// s, after all locks are released.
func (s *Servers) Dial(ctx context.Context, ttl time.Duration) (*Clients, error) {
	c := &Clients{locks: make(map[catalog.Need]catalog.Connect)}
	if s == nil {
		return c, nil
	}
	for need := range s.of {
		dialled := newOnDemand(func(ctx context.Context) (*connection, error) {
			there, err := s.server(ctx, need)
			if err != nil {
				return nil, err
			}
			return dial(ctx, need, there.addresses, ttl)
		})
		connect := func(ctx context.Context) (func(key string) guard.Lock, error) {
			if _, err := s.server(ctx, need); err != nil { // the server may have ended in the meantime
				return nil, err
			}
			there, err := dialled.get(ctx)
			if err != nil {
				return nil, err
			}
			return there.lock, nil
		}
		c.locks[need], c.all = connect, append(c.all, dialled)
		if s.late[need] {
			continue
		}
		if _, err := connect(ctx); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	return c, nil
}

// Close stops the servers that were started, and prevents further starts. It cancels a start in
// progress and waits for it to return. It may be called more than once.
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
