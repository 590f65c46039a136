package lockservers

import (
	"context"
	"errors"
	"time"

	"oversell/internal/backend/coordination"
	"oversell/internal/backend/local"
	"oversell/internal/locks"
)

// Lazy are the servers of a process that starts its own when they are first needed. The
// user's are there from the start. It is safe for concurrent use. A nil *Lazy has none.
type Lazy struct {
	running map[locks.Need]*Servers
	starts  map[locks.Need]*onDemand[*Servers]
}

// NewLazy resolves the values of flags as Serve does, but starts nothing yet: it checks
// the addresses of the user's own servers, and that what "local" starts is installed.
// Close must be called in the end.
func NewLazy(ctx context.Context, specs Specs, needs ...locks.Need) (*Lazy, error) {
	l := &Lazy{running: make(map[locks.Need]*Servers), starts: make(map[locks.Need]*onDemand[*Servers])}
	for _, need := range needs {
		started, err := specs.starts(need)
		if err != nil {
			return nil, err
		}
		if started {
			l.starts[need] = newOnDemand(func(ctx context.Context) (*Servers, error) { return Serve(ctx, specs, need) })
			continue
		}
		if l.running[need], err = Serve(ctx, specs, need); err != nil { // it starts nothing that would have to be closed
			return nil, err
		}
	}
	return l, nil
}

// starts reports whether Serve starts a server for the need. The error says that it is not
// installed.
func (s Specs) starts(need locks.Need) (bool, error) {
	switch {
	case need == locks.NeedsNodes && s.Redlock == own:
		_, err := local.RedisPath()
		return true, err
	case need == locks.NeedsZooKeeper && s.ZooKeeper == own:
		return true, coordination.FindZooKeeper()
	}
	return need == locks.NeedsNodes && s.Redlock == embedded || need == locks.NeedsEtcd && s.Etcd == embedded, nil
}

// Running returns servers that run already. There is nothing to close.
func Running(a Addresses) *Lazy {
	l := &Lazy{running: make(map[locks.Need]*Servers)}
	for need, one := range map[locks.Need]Addresses{
		locks.NeedsNodes: {Redlock: a.Redlock}, locks.NeedsEtcd: {Etcd: a.Etcd}, locks.NeedsZooKeeper: {ZooKeeper: a.ZooKeeper},
	} {
		if !one.empty() {
			l.running[need] = &Servers{Addresses: one}
		}
	}
	return l
}

// Has reports whether there are servers for a need, or can be.
func (l *Lazy) Has(need locks.Need) bool {
	return l != nil && (l.running[need] != nil || l.starts[need] != nil)
}

// Open returns the addresses of the servers that are needed, and what they are called in a
// report's first lines. It starts those that do not run yet, and waits for them until ctx
// ends; a start that is under way by then goes on. A start that failed is tried again by
// the next caller, but not within a second. Needs for which there are no servers are
// passed over.
func (l *Lazy) Open(ctx context.Context, needs ...locks.Need) (a Addresses, names []string, err error) {
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

// serve returns the servers for a need, which l has. The error also says that one of them
// has failed since it started: it does so for good, and stays where it is. A new etcd in
// its place would let a second holder in, and number its tokens anew.
func (l *Lazy) serve(ctx context.Context, need locks.Need) (*Servers, error) {
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

// Dial connects to the servers that run already, and returns Clients that connect to the
// others when a guard is first used, for locks with the given lease. The Clients have to
// be closed before l.
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
	c.later = make(map[locks.Need]locks.Later)
	for need := range l.starts {
		connected := newOnDemand(func(ctx context.Context) (*Clients, error) {
			s, err := l.serve(ctx, need)
			if err != nil {
				return nil, err
			}
			return Dial(ctx, s.Addresses, ttl)
		})
		c.closers = append(c.closers, connected.Close)
		c.later[need] = func(ctx context.Context, o locks.Options) (locks.Options, error) {
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

// Close stops the servers that were started, and keeps others from being started. It waits
// for the end of a start that is under way. It may be called more than once.
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
