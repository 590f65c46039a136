package lab

import (
	"context"
	"fmt"
	"time"

	"oversell/internal/guard"
	"oversell/internal/netfault"
)

// A service keeps locks and is not Redis. Its methods may be called concurrently.
type service interface {
	// name is what the service is called.
	name() string

	// dial connects a process, through relays of its own, with a lease of that
	// length.
	dial(ctx context.Context, ttl time.Duration) (*member, error)

	// granted returns the lease that a process gets if it asks for ttl: services have a
	// shortest one.
	granted(ctx context.Context, ttl time.Duration) (time.Duration, error)

	// first returns the entry of the holder of the lock called key, or "".
	first(ctx context.Context, key string) (string, error)

	// lose removes an entry, without its holder.
	lose(ctx context.Context, place string) error

	// watch calls gone with each entry of the lock that is removed, until ctx ends.
	watch(ctx context.Context, key string, gone func(place string))

	// close ends the lab's own connection.
	close()
}

// member is a process's session at a service. It is nil if the lock is not at a service.
type member struct {
	relays []*netfault.Relay
	lock   func(key string) serviceLock
	close  []func() error
}

// serviceLock is what the locks of services have in common.
type serviceLock interface {
	guard.Lock
	guard.Waiter
	Context(parent context.Context) context.Context
	Token() int64
}

// newMember puts relays before the addresses, and has dial connect to them.
func newMember(addresses []string, dial func(m *member, relayed []string) error) (*member, error) {
	m := &member{}
	var relayed []string
	for _, target := range addresses {
		r, err := netfault.Start(target)
		if err != nil {
			m.leave()
			return nil, err
		}
		m.relays, relayed = append(m.relays, r), append(relayed, r.Addr)
	}
	if err := dial(m, relayed); err != nil {
		m.leave()
		return nil, err
	}
	return m, nil
}

// each injects a fault into all relays of the process.
func (m *member) each(fault func(*netfault.Relay)) {
	if m == nil {
		return
	}
	for _, r := range m.relays {
		fault(r)
	}
}

// leave ends the connections. A server that can be reached is told.
func (m *member) leave() {
	if m == nil {
		return
	}
	for _, f := range m.close {
		_ = f() // a cell's end: what is left runs out
	}
	for _, r := range m.relays {
		_ = r.Close()
	}
}

// join connects the process to the service and asks for the lock once, so that there is
// a session, and whatever fails from now on is the scenario's doing. It does not get the
// lock if somebody else holds it.
func (p *Process) join() {
	m, err := p.w.server.service.dial(p.w.ctx, p.w.TTL)
	Need(err == nil, "%s could not connect: %v", p.Name, err)
	p.member = m
	first := m.lock(p.w.lockKey)
	had, err := first.TryLock(p.w.ctx)
	if had {
		err = first.Unlock(p.w.ctx)
	}
	Need(err == nil, "%s could not open its session: %v", p.Name, err)
}

// newServiceLock makes a handle whose calls are on record.
func newServiceLock(p *Process, key string) guard.Lock {
	return recordedLock{p.member.lock(key), p, key}
}

// recordedLock puts its calls into the trace, where a lock in Redis has its
// commands: what its client says to the service cannot be read here.
type recordedLock struct {
	serviceLock
	p   *Process
	key string
}

func (l recordedLock) TryLock(ctx context.Context) (ok bool, err error) {
	defer l.record("TryLock")(func() string { return outcomeOf(fmt.Sprint(ok), err) })
	ok, err = l.serviceLock.TryLock(ctx)
	if ok {
		l.had(ctx)
	}
	return ok, err
}

func (l recordedLock) Lock(ctx context.Context) (err error) {
	defer l.record("Lock")(func() string { return outcomeOf("ok", err) })
	if err = l.serviceLock.Lock(ctx); err == nil {
		l.had(ctx)
	}
	return err
}

func (l recordedLock) Unlock(ctx context.Context) (err error) {
	defer l.record("Unlock")(func() string { return outcomeOf("ok", err) })
	return l.serviceLock.Unlock(ctx)
}

// record begins the record of a call. The function that it returns has to be
// called when the call is over, with what tells its outcome.
func (l recordedLock) record(call string) func(outcome func() string) {
	w := l.p.w
	e := w.trace.begin(l.p.Name, w.where()+": "+call+" "+w.names.value(l.key))
	return func(outcome func() string) {
		if e == nil {
			return
		}
		w.trace.change(e, func(e *Event) { e.Reply, e.Until = outcome(), w.trace.ms() })
	}
}

func outcomeOf(good string, err error) string {
	if err != nil {
		return Brief(err)
	}
	return good
}

// had notes which place in the service is the process'.
func (l recordedLock) had(ctx context.Context) {
	w := l.p.w
	if place, err := w.server.service.first(context.WithoutCancel(ctx), l.key); err == nil && place != "" {
		w.owners.has(l.p.Name, place)
	}
}

// watch notes when the service removes a holder's entry, for whatever reason: from then
// on the next holder can be let in.
func (w *World) watch() {
	s := w.server.service
	if s == nil {
		return
	}
	key := w.lockKey
	w.all.Go(func() {
		s.watch(w.ctx, key, func(place string) {
			if who := w.owners.who(place); who != "?" && w.ctx.Err() == nil {
				w.Note("", "%s lets go of the lock that %s had", s.name(), who)
			}
		})
	})
}

// where names what keeps the lock.
func (w *World) where() string {
	switch {
	case w.server.service != nil:
		return w.server.service.name()
	case len(w.server.nodes) > 0:
		return "each node"
	}
	return "Redis"
}
