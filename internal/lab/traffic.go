package lab

import (
	"time"

	"oversell/internal/fault"
	"oversell/internal/locks/redlock"
)

// command sends a command of a process to a server, unless a fault prevents it, and
// records the result.
func (w *World) command(l *link, cmd fault.Command, send func() (fault.Value, error)) (fault.Value, error) {
	p := l.p
	text := w.names.text(p.Name, cmd)
	if l.node > 0 {
		text = nodeName(l.node-1) + text
	}
	w.touched(l, cmd)
	rule := l.rules.take(cmd)
	var told *Event
	if rule != nil && rule.text != "" {
		told = w.trace.add(p.Name, Fault, rule.text+": "+text)
	}
	e := w.trace.begin(p.Name, text)
	execute := func() (fault.Value, error) { return w.execute(l, e, cmd, send) }
	start := time.Now()
	reply, err := rule.apply(p.life, execute)
	if l.node > 0 && rule == nil && time.Since(start) > redlock.NodeLimit(w.TTL)/2 {
		w.late.Store(true) // with no fault: to redlock the node is away, and it is this machine that is slow
	}
	if isNoScript(reply) {
		// Nothing was executed: the client sends the script again, in full.
		l.rules.giveBack(rule)
		w.trace.drop(told)
		w.trace.drop(e)
		return reply, err
	}
	w.trace.change(e, func(e *Event) {
		if err != nil {
			e.Reply = "(" + err.Error() + ")"
			return
		}
		e.Reply, e.Until = w.names.value(reply.String()), w.trace.ms()
	})
	return reply, err
}

// execute sends the command while no other is running, and reads the keys before and
// after. A command that waits in Redis does not block the others.
func (w *World) execute(l *link, e *Event, cmd fault.Command, send func() (fault.Value, error)) (fault.Value, error) {
	p := l.p
	select {
	case w.turn <- struct{}{}:
	case <-p.life.Done():
		return nil, errDropped
	}
	at := w.trace.now(e)
	if cmd.Blocks() && !w.takes(l, e, at, cmd) {
		over := w.spaces[l.node].await(cmd.Takes())
		<-w.turn
		defer over()
		return send()
	}
	defer func() { <-w.turn }()
	if e == nil {
		return send()
	}
	defer w.within(0)()
	ours := w.Subject.InRedis() && cmd.Mentions(w.redisKey())
	var before lockState
	var unread error
	if ours && len(w.server.nodes) == 0 { // redlock's tokens say by themselves whose they are
		before, unread = w.tryLook()
		w.unread(unread)
	}
	reply, err := send()
	if isNoScript(reply) {
		return reply, err // nothing was executed
	}
	after, keys, ok := w.survey(at, l.node)
	if !ok {
		return reply, err
	}
	if ours && unread == nil && after.held && (!before.held || before.value != after.value) {
		w.owners.has(w.names.user(after.value, p.Name), after.value)
	}
	w.stands(e, after, keys)
	return reply, err
}

// takes reports whether one of the keys from which a command takes has something for
// it, so that it has its reply at once, as any other; should that run out on the way, the
// cell is late. If none has, the command is about to wait.
func (w *World) takes(l *link, e *Event, at float64, cmd fault.Command) bool {
	if e == nil || w.keyless {
		return false
	}
	states, err := w.spaces[l.node].read(w.ctx, cmd.Takes())
	if err != nil {
		w.unread(err)
		return false
	}
	for _, state := range states {
		if state.there() {
			return true
		}
	}
	changed := w.changes(l.node, at, states)
	w.trace.change(e, func(e *Event) { e.Keys = changed })
	return false
}
