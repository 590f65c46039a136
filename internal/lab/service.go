package lab

import (
	"context"
	"fmt"
	"time"

	"oversell/internal/locks"
	"oversell/internal/netfault"
)

// A service is what keeps locks and is no Redis. Its methods may be called
// concurrently.
type service interface {
	// name is what the service is called.
	name() string

	// dial connects a process, through relays of its own, with a lease of that
	// length.
	dial(ctx context.Context, ttl time.Duration) (*member, error)

	// granted returns the lease that is had by who asks for ttl: services have a
	// least one.
	granted(ctx context.Context, ttl time.Duration) (time.Duration, error)

	// first returns the place of whoever holds the lock called key, or "".
	first(ctx context.Context, key string) (string, error)

	// lose removes a place, past its holder.
	lose(ctx context.Context, place string) error

	// watch calls gone with each place of the lock that goes, until ctx ends.
	watch(ctx context.Context, key string, gone func(place string))

	// close ends the lab's own connection.
	close()
}

// member is a process as a service knows it. A nil one is a process that has to do
// with none.
type member struct {
	relays []*netfault.Relay
	lock   func(key string) serviceLock
	close  []func() error
}

// serviceLock is what the locks of services have in common.
type serviceLock interface {
	locks.Lock
	locks.Waiter
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

// each does something to all relays of the process.
func (m *member) each(fault func(*netfault.Relay)) {
	if m == nil {
		return
	}
	for _, r := range m.relays {
		fault(r)
	}
}

// leave ends the connections. What can be reached is told, and what was in a hole
// is lost.
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

// join connects the process to the service, and asks for the lock once: then there is
// a session, and a place to queue at, and whatever fails from now on is what the
// scenario has done. It cannot have the lock if another has it already.
func (p *Process) join() {
	m, err := p.w.server.service.dial(p.w.ctx, p.w.TTL)
	need(err == nil, "%s could not connect: %v", p.name, err)
	p.member = m
	first := m.lock(p.w.lockKey)
	had, err := first.TryLock(p.w.ctx)
	if had {
		err = first.Unlock(p.w.ctx)
	}
	need(err == nil, "%s could not open its session: %v", p.name, err)
}

// newServiceLock makes a handle whose calls are on record.
func newServiceLock(p *Process, key string) locks.Lock {
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
	e := w.trace.begin(l.p.name, w.where()+": "+call+" "+w.names.value(l.key))
	return func(outcome func() string) {
		if e == nil {
			return
		}
		w.trace.change(e, func(e *Event) { e.Reply, e.Until = outcome(), w.trace.ms() })
	}
}

func outcomeOf(good string, err error) string {
	if err != nil {
		return brief(err)
	}
	return good
}

// had notes which place in the service is the process'.
func (l recordedLock) had(ctx context.Context) {
	w := l.p.w
	if place, err := w.server.service.first(context.WithoutCancel(ctx), l.key); err == nil && place != "" {
		w.owners.has(l.p.name, place)
	}
}

// watch has it told when the service lets go of a holder's place, for whatever
// reason: that is the moment from which on the next one can come in.
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

// where is what keeps the lock, as it is told.
func (w *World) where() string {
	switch {
	case w.server.service != nil:
		return w.server.service.name()
	case len(w.server.nodes) > 0:
		return "each node"
	}
	return "Redis"
}
