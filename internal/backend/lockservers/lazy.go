package lockservers

import (
	"context"
	"errors"
	"time"

	"oversell/internal/backend/coordination"
	"oversell/internal/backend/local"
	"oversell/internal/catalog"
)

// Lazy holds the servers of a process that starts them when they are first needed. The
// user's own servers are there from the start. It is safe for concurrent use. A nil
// *Lazy has no servers.
type Lazy struct {
	running map[catalog.Need]*Servers
	starts  map[catalog.Need]*onDemand[*Servers]
}

// NewLazy resolves the values of flags as Serve does, but starts nothing yet: it checks
// the addresses of the user's own servers, and that what "local" starts is installed.
// The caller must call Close.
func NewLazy(ctx context.Context, specs Specs, needs ...catalog.Need) (*Lazy, error) {
	l := &Lazy{running: make(map[catalog.Need]*Servers), starts: make(map[catalog.Need]*onDemand[*Servers])}
	for _, need := range needs {
		started, err := specs.starts(need)
		if err != nil {
			return nil, err
		}
		if started {
			l.starts[need] = newOnDemand(func(ctx context.Context) (*Servers, error) { return Serve(ctx, specs, need) })
			continue
		}
		if l.running[need], err = Serve(ctx, specs, need); err != nil { // on an error, Serve leaves nothing to close
			return nil, err
		}
	}
	return l, nil
}

// starts reports whether Serve starts a server for the need. It returns an error if that
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

// Running returns a Lazy for servers that already run. There is nothing to
// close.
func Running(a Addresses) *Lazy {
	l := &Lazy{running: make(map[catalog.Need]*Servers)}
	for need, one := range map[catalog.Need]Addresses{
		catalog.NeedsNodes:     {Redlock: a.Redlock},
		catalog.NeedsEtcd:      {Etcd: a.Etcd},
		catalog.NeedsZooKeeper: {ZooKeeper: a.ZooKeeper},
	} {
		if !one.empty() {
			l.running[need] = &Servers{Addresses: one}
		}
	}
	return l
}

// Has reports whether there are servers for a need, or can be started.
func (l *Lazy) Has(need catalog.Need) bool {
	return l != nil && (l.running[need] != nil || l.starts[need] != nil)
}

// Open returns the addresses of the servers for the needs, and their names for the first
// lines of a report. It starts those that do not run yet, and waits for them until ctx
// ends; a start in progress then continues. A failed start is retried by the next caller,
// but not within a second. Needs without servers are skipped.
func (l *Lazy) Open(ctx context.Context, needs ...catalog.Need) (a Addresses, names []string, err error) {
	for _, need := range needs {
		if !l.Has(need) {
			continue
		}
		s, err := l.serve(ctx, need)
		if err != nil {
			return Addresses{}, nil, err
		}
		a.add(s.Addresses)
		names = append(names, s.Names...)
	}
	return a, names, nil
}

// serve returns the servers for a need that l has. It also returns an error if one of
// them has failed since its start. Such a server is not replaced: a new etcd in its place
// would let a second holder in, and restart the numbering of its tokens.
func (l *Lazy) serve(ctx context.Context, need catalog.Need) (*Servers, error) {
	if s := l.running[need]; s != nil {
		return s, nil
	}
	s, err := l.starts[need].get(ctx)
	if err == nil {
		err = s.Err()
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Dial connects to the servers that already run, and returns Clients that connect to the
// others when a guard is first used, for locks with the given lease. The Clients must be
// closed before l.
func (l *Lazy) Dial(ctx context.Context, ttl time.Duration) (*Clients, error) {
	if l == nil {
		return &Clients{}, nil
	}
	var running Addresses
	for _, s := range l.running {
		running.add(s.Addresses)
	}
	c, err := Dial(ctx, running, ttl)
	if err != nil {
		return nil, err
	}
	c.later = make(map[catalog.Need]catalog.Later)
	for need := range l.starts {
		connected := newOnDemand(func(ctx context.Context) (*Clients, error) {
			s, err := l.serve(ctx, need)
			if err != nil {
				return nil, err
			}
			return Dial(ctx, s.Addresses, ttl)
		})
		c.closers = append(c.closers, connected.Close)
		c.later[need] = func(ctx context.Context, o catalog.Options) (catalog.Options, error) {
			if _, err := l.serve(ctx, need); err != nil {
				return o, err
			}
			there, err := connected.get(ctx)
			if err != nil {
				return o, err
			}
			return there.Add(o), nil
		}
	}
	return c, nil
}

// Close stops the servers that were started, and prevents further starts. It waits for the
// end of a start in progress. It may be called more than once.
func (l *Lazy) Close() error {
	var errs []error
	for _, started := range l.starts {
		errs = append(errs, started.Close())
	}
	return errors.Join(errs...)
}

func (a *Addresses) add(b Addresses) {
	a.Redlock = append(a.Redlock, b.Redlock...)
	a.Etcd = append(a.Etcd, b.Etcd...)
	a.ZooKeeper = append(a.ZooKeeper, b.ZooKeeper...)
}

func (a Addresses) empty() bool { return len(a.Redlock)+len(a.Etcd)+len(a.ZooKeeper) == 0 }
