package lab

import (
	"context"
	"errors"
	"sync"

	"oversell/internal/lab/wire"
	"oversell/internal/netfault"
)

// A Match tells which commands a fault is meant for.
type Match func(wire.Command) bool

// anyCommand matches every command.
func anyCommand(wire.Command) bool { return true }

// release matches the command by which a lock is given back.
func release(cmd wire.Command) bool { return cmd.Is("DEL", "UNLINK") || cmd.Script() }

// named matches the commands with these names.
func named(names ...string) Match {
	return func(cmd wire.Command) bool { return cmd.Is(names...) }
}

// on matches the commands with these names that have key among their arguments.
func on(key string, names ...string) Match {
	return func(cmd wire.Command) bool { return cmd.Is(names...) && cmd.Mentions(key) }
}

// fencedWrite matches the script that writes the stock at key with a fencing
// token: unlike the one that reads it, it brings a value as well.
func fencedWrite(key string) Match {
	return func(cmd wire.Command) bool {
		return cmd.Script() && cmd.Mentions(key) && len(cmd.Args) == 8 // EVALSHA sha 2 stock fence of token left
	}
}

// either matches what one of the given matches.
func either(matches ...Match) Match {
	return func(cmd wire.Command) bool {
		for _, match := range matches {
			if match(cmd) {
				return true
			}
		}
		return false
	}
}

// An action is what happens to a command: send has Redis execute it. Ctx ends
// with the cell, or with the life of the process whose command it is.
type action func(ctx context.Context, send func() (wire.Value, error)) (wire.Value, error)

// What becomes of a command, as the trace has it.
var (
	errReplyLost = errors.New("executed; the reply is lost")
	errDropped   = errors.New("never arrived")
)

// loseReply has Redis execute the command, and breaks the connection.
func loseReply(_ context.Context, send func() (wire.Value, error)) (wire.Value, error) {
	if reply, err := send(); err != nil || isNoScript(reply) {
		return reply, err // nothing was executed yet: the EVAL that follows is meant
	}
	return nil, errReplyLost
}

// drop breaks the connection before Redis sees the command.
func drop(context.Context, func() (wire.Value, error)) (wire.Value, error) { return nil, errDropped }

// answer answers in the place of Redis, which never sees the command.
func answer(reply wire.Value) action {
	return func(context.Context, func() (wire.Value, error)) (wire.Value, error) { return reply, nil }
}

// loseReply breaks the connection before the reply to the next command that matches
// is there; where the lock is no matter of commands, before the next reply.
func (p *Process) loseReply(match Match) {
	if p.member == nil {
		p.Fault(match, 1, "the connection breaks before the reply is there", loseReply)
		return
	}
	p.w.fault(p, "the connection is to break before the next reply is there")
	p.member.each((*netfault.Relay).LoseReply)
}

// loseQuestion breaks the connection before the next question has arrived, until the
// connection is mended. It is a spare fault where the process may have no question.
func (p *Process) loseQuestion(spare bool) (mend func()) {
	if p.member == nil {
		p.Fault(anyCommand, 1, "the connection breaks before Redis sees it", drop).spare = spare
		return func() {}
	}
	p.w.fault(p, "the connection breaks before the next question has arrived")
	p.member.each((*netfault.Relay).Cut)
	return func() { p.member.each((*netfault.Relay).Restore) }
}

// delay holds up the answer to the next question; where the lock is no matter of
// commands, the question too, which arrives when it is let go. Under is closed when
// something is held up.
func (p *Process) delay() (under <-chan struct{}, letGo func()) {
	if p.member == nil {
		late := newPause()
		p.Fault(anyCommand, 1, "its reply is held up", late.after)
		return late.parked, late.release
	}
	p.w.fault(p, "what it sends and is sent is held up")
	p.member.each((*netfault.Relay).Hole)
	now := make(chan struct{})
	close(now)
	return now, func() { p.member.each((*netfault.Relay).Restore) }
}

// A pause parks a command until it is released.
type pause struct {
	once     sync.Once
	parked   chan struct{}
	released chan struct{}
}

func newPause() *pause {
	return &pause{parked: make(chan struct{}), released: make(chan struct{})}
}

// before parks the command before Redis sees it. It goes on its way in the end
// even if its caller has given up by then, as a packet does.
func (p *pause) before(ctx context.Context, send func() (wire.Value, error)) (wire.Value, error) {
	if err := p.park(ctx); err != nil {
		return nil, errDropped
	}
	return send()
}

// after parks the reply.
func (p *pause) after(ctx context.Context, send func() (wire.Value, error)) (wire.Value, error) {
	reply, err := send()
	if err != nil || isNoScript(reply) {
		return reply, err
	}
	if err := p.park(ctx); err != nil {
		return nil, errReplyLost
	}
	return reply, nil
}

func (p *pause) park(ctx context.Context) error {
	p.once.Do(func() { close(p.parked) })
	select {
	case <-p.released:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// release lets the command go on. It must be called once.
func (p *pause) release() { close(p.released) }

// rules are the faults that wait for their commands.
type rules struct {
	mu  sync.Mutex
	all []*rule
}

type rule struct {
	match Match
	act   action
	left  int
	text  string   // what the trace says
	of    *planned // the fault that it is a part of: each server has a rule
}

// add puts up a fault for the next n commands that match.
func (r *rules) add(of *planned, match Match, n int, text string, act action) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, &rule{match: match, act: act, left: n, text: text, of: of})
}

// take returns the first rule that is meant for cmd, used up by one, or nil.
func (r *rules) take(cmd wire.Command) *rule {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rule := range r.all {
		if rule.left > 0 && rule.match(cmd) {
			rule.left--
			rule.of.struck.Store(true)
			return rule
		}
	}
	return nil
}

// apply does what the rule says, or just sends the command if there is none.
func (r *rule) apply(ctx context.Context, send func() (wire.Value, error)) (wire.Value, error) {
	if r == nil {
		return send()
	}
	return r.act(ctx, send)
}

// giveBack undoes take.
func (r *rules) giveBack(rule *rule) {
	if rule == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	rule.left++
}

func isNoScript(reply wire.Value) bool {
	const prefix = "NOSCRIPT"
	text := reply.Err()
	return len(text) >= len(prefix) && text[:len(prefix)] == prefix
}
