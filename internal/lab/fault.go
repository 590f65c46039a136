package lab

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"oversell/internal/fault"
)

// A Match selects the commands that a fault is injected into: Redis commands or SQL statements (see
// SQL).
type Match func(fault.Command) bool

// AnyCommand matches every command to Redis.
func AnyCommand(cmd fault.Command) bool { return SQL(cmd) == "" }

// An Effect decides what happens to a command. It calls send to have Redis execute the command. Ctx
// ends when the cell is over, or when the process that sent the command is killed.
type Effect func(ctx context.Context, send func() (fault.Value, error)) (fault.Value, error)

// The reasons why a command has no reply. The trace shows these texts.
var (
	errReplyLost = errors.New("executed; the reply is lost")
	errDropped   = errors.New("never arrived")
)

// loseReply lets Redis execute the command, and breaks the connection before the reply arrives.
func loseReply(_ context.Context, send func() (fault.Value, error)) (fault.Value, error) {
	if reply, err := send(); err != nil || isNoScript(reply) {
		return reply, err // nothing was executed; the fault applies to the EVAL that follows
	}
	return nil, errReplyLost
}

// Drop breaks the connection before Redis sees the command.
func Drop(context.Context, func() (fault.Value, error)) (fault.Value, error) { return nil, errDropped }

// Answer returns an Effect that replies in place of Redis, which never sees the command.
func Answer(reply fault.Value) Effect {
	return func(context.Context, func() (fault.Value, error)) (fault.Value, error) { return reply, nil }
}

// LoseReply breaks the connection before the reply to the next matching command arrives. If the
// lock is not in Redis, it breaks the connection before the next reply.
func (p *Process) LoseReply(match Match) {
	if p.member == nil {
		p.Inject(match, 1, "the connection breaks before the reply arrives", loseReply)
		return
	}
	p.w.Trace(p.Name, Fault, "the connection breaks before the next reply arrives")
	p.member.each((*fault.Relay).LoseReply)
}

// LoseQuestion breaks the connection before the next request arrives. If the lock is not in Redis,
// the connection stays broken until mend is called. If spare is set, the outcome of the cell does
// not become Unknown if the process sends no request.
func (p *Process) LoseQuestion(spare bool) (mend func()) {
	if p.member == nil {
		p.Inject(AnyCommand, 1, "the connection breaks before Redis sees it", Drop).Spare = spare
		return func() {}
	}
	p.w.Trace(p.Name, Fault, "the connection breaks before the next request arrives")
	p.member.each((*fault.Relay).Cut)
	return func() { p.member.each((*fault.Relay).Restore) }
}

// Delay delays the reply to the next request until letGo is called. If the lock is not in Redis, it
// delays everything that the process sends and receives. The returned channel is closed when the
// delay begins.
func (p *Process) Delay() (under <-chan struct{}, letGo func()) {
	if p.member == nil {
		late := NewPause()
		p.Inject(AnyCommand, 1, "its reply is delayed", late.After)
		return late.Parked, late.Release
	}
	p.w.Trace(p.Name, Fault, "everything that it sends and receives is delayed")
	p.member.each((*fault.Relay).Hole)
	now := make(chan struct{})
	close(now)
	return now, func() { p.member.each((*fault.Relay).Restore) }
}

// A Pause parks a command until it is released.
type Pause struct {
	once     sync.Once
	Parked   chan struct{}
	released chan struct{}
}

func NewPause() *Pause {
	return &Pause{Parked: make(chan struct{}), released: make(chan struct{})}
}

// Before parks the command before Redis sees it. Like a packet on the network, the command still
// arrives even if its caller has given up.
func (p *Pause) Before(ctx context.Context, send func() (fault.Value, error)) (fault.Value, error) {
	if err := p.park(ctx); err != nil {
		return nil, errDropped
	}
	return send()
}

// After parks the reply.
func (p *Pause) After(ctx context.Context, send func() (fault.Value, error)) (fault.Value, error) {
	reply, err := send()
	if err != nil || isNoScript(reply) {
		return reply, err
	}
	if err := p.park(ctx); err != nil {
		return nil, errReplyLost
	}
	return reply, nil
}

func (p *Pause) park(ctx context.Context) error {
	p.once.Do(func() { close(p.Parked) })
	select {
	case <-p.released:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Release lets the command continue. It must not be called twice.
func (p *Pause) Release() { close(p.released) }

// Planned is a fault that is waiting for a matching command.
type Planned struct {
	match    Match
	act      Effect
	text     string // what the trace says
	left     []int  // number of commands that it will still affect, per server
	happened bool   // it has affected a command

	Spare bool // the cell has an outcome even if no command matches
}

// Inject injects a fault into the next n commands that match. If the lock is on several servers, n
// counts for each server. If no command matches, the outcome of the cell is Unknown, unless Spare
// is set.
func (p *Process) Inject(match Match, n int, text string, act Effect) *Planned {
	f := &Planned{match: match, act: act, text: text, left: slices.Repeat([]int{n}, len(p.links))}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.planned = append(p.planned, f)
	return f
}

// Park parks the next matching command before Redis sees it.
func (p *Process) Park(match Match) *Pause {
	stop := NewPause()
	p.Inject(match, 1, HeldUp, stop.Before)
	return stop
}

// fault returns the first planned fault that matches a command to a server, and counts this use of
// it. It returns nil if no fault matches.
func (p *Process) fault(server int, cmd fault.Command) *Planned {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.planned {
		if f.left[server] > 0 && f.match(cmd) {
			f.left[server]--
			f.happened = true
			return f
		}
	}
	return nil
}

// giveBack undoes the counting of one use of a fault. F may be nil.
func (p *Process) giveBack(f *Planned, server int) {
	if f == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	f.left[server]++
}

// apply injects the fault into a command, or only sends the command if f is nil.
func (f *Planned) apply(ctx context.Context, send func() (fault.Value, error)) (fault.Value, error) {
	if f == nil {
		return send()
	}
	return f.act(ctx, send)
}

// missingFault returns the text of a fault that no command matched, or "".
func (p *Process) missingFault() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.planned {
		if !f.Spare && !f.happened {
			return cmp.Or(f.text, HeldUp)
		}
	}
	return ""
}

func isNoScript(reply fault.Value) bool { return strings.HasPrefix(reply.Err(), "NOSCRIPT") }
