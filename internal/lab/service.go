package lab

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"oversell/internal/fault"
	"oversell/internal/guard"
	"oversell/internal/locks/lease"
	"oversell/internal/message"
)

// A Service is a server other than Redis that keeps locks. Its functions may be called
// concurrently.
type Service struct {
	Name string

	// Dial connects a process through its own relays. The lease of its session is ttl.
	Dial func(ctx context.Context, ttl time.Duration) (*Member, error)

	// Granted returns the lease that a process gets if it asks for ttl, because services have a minimum.
	Granted func(ctx context.Context, ttl time.Duration) (time.Duration, error)

	// First returns the entry of the lock's holder, or "". Lose removes an entry without notifying
	// its holder. Faults do not affect First and Lose.
	First func(ctx context.Context, key string) (place string, err error)
	Lose  func(ctx context.Context, place string) error

	Close func() // ends the lab's own connection
}

// Member is a process's session at a service. It is nil if the lock is not at a service.
type Member struct {
	relays []*fault.Relay
	Lock   func(key string) guard.Lock // it must be a *lease.Mutex
	Close  func() error                // ends the session
}

// NewMember starts a relay for each address, and calls dial to connect to the relays.
func NewMember(addresses []string, dial func(m *Member, relayed []string) error) (*Member, error) {
	m := &Member{}
	var relayed []string
	for _, target := range addresses {
		r, err := fault.StartRelay(target)
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

func (m *Member) each(fault func(*fault.Relay)) {
	if m == nil {
		return
	}
	for _, r := range m.relays {
		fault(r)
	}
}

// leave ends the session at the server, if the server can be reached, and closes the relays.
func (m *Member) leave() {
	if m == nil {
		return
	}
	if m.Close != nil {
		_ = m.Close() // the cell is over: a session that stays open expires
	}
	for _, r := range m.relays {
		_ = r.Close()
	}
}

// join connects the process to the service, and opens its session by asking for the lock once, so
// that later failures are due to the scenario. If join gets the lock, it releases the lock again.
func (p *Process) join() {
	m, err := p.w.server.service.Dial(p.w.ctx, p.w.TTL)
	Need(err == nil, "%s could not connect: %v", p.Name, err)
	p.member = m
	first := m.Lock(p.w.lockKey)
	had, err := first.TryLock(p.w.ctx)
	if had {
		err = first.Unlock(p.w.ctx)
	}
	Need(err == nil, "%s could not open its session: %v", p.Name, err)
}

func newServiceLock(p *Process, key string) guard.Lock {
	return recordedLock{p.member.Lock(key).(*lease.Mutex), p, key}
}

// recordedLock adds calls to the lock to the trace. The trace of a lock in Redis contains commands,
// but the protocol of a service is not parsed.
type recordedLock struct {
	*lease.Mutex
	p   *Process
	key string
}

func (l recordedLock) TryLock(ctx context.Context) (ok bool, err error) {
	l.record("TryLock", func() (string, error) {
		ok, err = l.Mutex.TryLock(ctx)
		return strconv.FormatBool(ok), err
	})
	return ok, err
}

func (l recordedLock) Lock(ctx context.Context) error {
	return l.record("Lock", func() (string, error) { return "ok", l.Mutex.Lock(ctx) })
}

func (l recordedLock) Unlock(ctx context.Context) error {
	return l.record("Unlock", func() (string, error) { return "ok", l.Mutex.Unlock(ctx) })
}

// record makes a call, and adds it to the trace with its result or its error.
func (l recordedLock) record(name string, call func() (result string, err error)) error {
	w := l.p.w
	e := w.trace.begin(l.p.Name, w.where()+": "+name+" "+w.names.value(l.key))
	result, err := call()
	if err != nil {
		result = Brief(err).String()
	}
	w.trace.change(e, func(e *Event) { e.Reply, e.Until = result, w.trace.ms() })
	return err
}

func (w *World) where() string {
	switch {
	case w.server.service != nil:
		return w.server.service.Name
	case len(w.server.nodes) > 0:
		return eachNode
	}
	return "Redis"
}

const eachNode = "each node"

// ofServer makes a sentence about the servers that keep the lock. A name can be an argument in every
// language, but the words in eachNode cannot.
func (w *World) ofServer(format string) message.Message {
	if where := w.where(); where != eachNode {
		return message.Newf(format, where)
	}
	return message.Text(fmt.Sprintf(format, eachNode))
}
