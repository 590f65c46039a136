package lab

import (
	"cmp"
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"oversell/internal/fault"
	"oversell/internal/guard"
	"oversell/internal/locks/redlock"
	"oversell/internal/locks/thirdparty"
	"oversell/internal/message"
)

// Process is an actor. To Redis it looks like a separate process: it has its own connections, into
// which faults are injected.
type Process struct {
	w    *World
	Name string
	life context.Context // ends when it is killed
	kill context.CancelFunc

	rdb     *redis.Client
	rueidis *thirdparty.Rueidislock
	mutex   *guard.Local // in memory; shared by all actors in one instance
	gate    *Shopper     // holds its commands back and lets them through one by one; nil: commands are sent at once
	links   []*link      // the link to the one Redis, then one to each of redlock's nodes
	member  *Member      // its session at the service that keeps the lock; may be nil

	mu      sync.Mutex
	frozen  chan struct{} // closed by Thaw; nil while it runs
	cut     bool          // everything that it sends is lost
	refused bool          // Redis refuses its connections
	killed  bool
	conns   map[net.Conn]struct{}
	holders []*Holder
	planned []*Planned // faults for the one Redis also match SQL statements
}

// link is a process's connection to one server.
type link struct {
	p      *Process
	node   int // redlock's nodes are numbered from 1; 0 is the one Redis
	server *server
	rdb    *redis.Client
	asked  atomic.Int64 // commands that were sent, whether or not they arrived
}

// Redis returns the process's Redis client.
func (p *Process) Redis() redis.UniversalClient { return p.rdb }

// Nodes returns the process's clients of redlock's nodes.
func (p *Process) Nodes() []redis.Cmdable {
	var nodes []redis.Cmdable
	for _, l := range p.links[1:] {
		nodes = append(nodes, l.rdb)
	}
	return nodes
}

// TTL returns the length of a lease on the process's locks.
func (p *Process) TTL() time.Duration { return p.w.TTL }

// Life returns a context that ends when the process is killed or the cell is over.
func (p *Process) Life() context.Context { return p.life }

// Start starts a process.
func (w *World) Start(name string) *Process {
	return w.start(&Process{Name: name, mutex: new(guard.Local)})
}

// Another starts an actor in the same instance as p, so that both share a mutex. The actor has its
// own client, so that faults affect it alone. A lock that keeps its waiters in memory per client
// treats it as another instance.
func (p *Process) Another(name string) *Process {
	return p.w.start(&Process{Name: name, mutex: p.mutex})
}

func (w *World) start(p *Process) *Process {
	p.w, p.conns = w, make(map[net.Conn]struct{})
	p.life, p.kill = context.WithCancel(w.ctx)
	for node, server := range append([]*server{w.server}, w.server.nodes...) {
		p.links = append(p.links, p.link(node, server))
	}
	p.rdb = p.links[0].rdb
	p.rueidis = w.rueidis(p.rdb)
	w.mu.Lock()
	w.processes = append(w.processes, p)
	w.mu.Unlock()
	if w.server.service != nil {
		p.join()
	}
	return p
}

func (p *Process) link(node int, server *server) *link {
	l := &link{p: p, node: node, server: server}
	o := server.options(l.dial)
	o.ReadTimeout, o.WriteTimeout, o.DialTimeout = 4*p.w.TTL, 4*p.w.TTL, p.w.TTL
	if p.gate != nil {
		const long = 2 * MaxSchedule // the schedule decides how long a command takes
		o.ReadTimeout, o.WriteTimeout, o.DialTimeout = long, long, long
	}
	l.rdb = redis.NewClient(o)
	return l
}

// dial connects a client to its server, through the relay.
func (l *link) dial(ctx context.Context) (net.Conn, error) {
	p := l.p
	p.mu.Lock()
	refused := p.refused
	p.mu.Unlock()
	if refused || p.life.Err() != nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	redisSide, err := l.server.dial(ctx)
	if err != nil {
		return nil, err
	}
	mine, theirs := fault.Pipe()
	p.mu.Lock()
	p.conns[theirs] = struct{}{}
	p.mu.Unlock()
	handle, over := l.handle, func() {}
	if p.gate != nil {
		var c *gatedConn
		c, over = p.gate.connection()
		handle = c.handle
	}
	p.w.all.Go(func() {
		fault.RelayRedis(p.life, theirs, redisSide, handle)
		over()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, theirs)
	})
	return mine, nil
}

func (l *link) handle(ctx context.Context, cmd fault.Command, send func() (fault.Value, error)) (fault.Value, error) {
	p := l.p
	if err := p.passage(ctx); err != nil {
		return nil, err
	}
	if cmd.SetUp() {
		return send()
	}
	l.asked.Add(1)
	reply, err := p.w.command(l, cmd, send)
	if err != nil {
		return nil, err
	}
	return reply, p.passage(ctx)
}

var errCut = errors.New("lost on the way")

// passage waits while the process is frozen. If the process is cut off, passage waits until the
// client gives up.
func (p *Process) passage(ctx context.Context) error {
	for {
		p.mu.Lock()
		frozen, cut := p.frozen, p.cut
		p.mu.Unlock()
		if cut {
			<-ctx.Done()
			return errCut
		}
		if frozen == nil {
			return cmp.Or(p.life.Err(), ctx.Err()) // a goroutine that waits for life may continue before ctx ends
		}
		select {
		case <-frozen:
		case <-ctx.Done():
			return errCut
		}
	}
}

// suffer records a fault, changes the process, and calls relays for each of its connections to a
// service.
func (p *Process) suffer(what message.Message, change func(), relays func(*fault.Relay)) {
	p.w.trace.add(p.Name, Fault, what)
	p.mu.Lock()
	change()
	p.mu.Unlock()
	p.member.each(relays)
}

// Freeze freezes the process: it sends and receives nothing until it thaws, and only then learns
// that its lock is lost. Commands already on their way arrive. The other timers of the process keep
// running. Freezing a frozen process has no effect.
func (p *Process) Freeze() {
	if p.isFrozen() {
		return
	}
	p.suffer(message.Text("stopped"), func() { p.frozen = make(chan struct{}) }, (*fault.Relay).Hole)
}

// Thaw resumes the process if it is frozen.
func (p *Process) Thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frozen == nil {
		return
	}
	p.w.Trace(p.Name, Fault, "goes on")
	close(p.frozen)
	p.frozen = nil
	p.member.each((*fault.Relay).Restore)
}

func (p *Process) isKilled() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.killed
}

func (p *Process) isFrozen() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.frozen != nil
}

// running waits while the process is frozen. It returns false if the process is killed in the
// meantime.
func (p *Process) running() bool {
	p.mu.Lock()
	frozen := p.frozen
	p.mu.Unlock()
	if frozen == nil {
		return true
	}
	select {
	case <-frozen:
		return true
	case <-p.life.Done():
		return false
	}
}

// Cut drops everything that the process sends from now on. The process sees no error.
func (p *Process) Cut() {
	p.suffer(p.w.ofServer("cut off from %s: nothing arrives, nothing comes back"),
		func() { p.cut = true }, (*fault.Relay).Hole)
}

// Refuse breaks the connections of the process and refuses new ones, as if the server were down.
func (p *Process) Refuse() {
	p.suffer(p.w.ofServer("%s is away: connections are refused"), func() {
		p.refused = true
		for conn := range p.conns {
			conn.Close()
		}
	}, (*fault.Relay).Cut)
}

// Kill kills the process immediately, so that it cannot clean up.
func (p *Process) Kill() {
	var holders []*Holder
	p.suffer(message.Text(Killed), func() {
		p.kill()
		p.killed, holders = true, p.holders
	}, (*fault.Relay).Cut)
	for _, h := range holders {
		h.end()
	}
}

// Asked returns the number of commands that the process has sent to one server: the server to which
// it sent most. Commands that set up a connection do not count.
func (p *Process) Asked() int {
	var most int64
	for _, l := range p.links {
		most = max(most, l.asked.Load())
	}
	return int(most)
}

func (p *Process) close() {
	p.kill()
	_ = p.rueidis.Close() // always nil
	for _, l := range p.links {
		_ = l.rdb.Close()
	}
}

// leave ends the process's session at a service. It must be called when no goroutine uses the
// session any more.
func (p *Process) leave() {
	p.mu.Lock()
	lost := p.killed || p.cut || p.refused
	p.mu.Unlock()
	if lost {
		p.member.each((*fault.Relay).Cut) // the server cannot be reached, so do not wait for it
	}
	p.member.leave()
}

// command sends a process's command to a server, unless a fault prevents that, and records the
// result.
func (w *World) command(l *link, cmd fault.Command, send func() (fault.Value, error)) (fault.Value, error) {
	p := l.p
	text := w.spaces[l.node].node + w.names.text(p.Name, cmd)
	w.touched(l, cmd)
	planned := p.fault(l.node, cmd)
	var told *Event
	if planned != nil && planned.text != "" {
		told = w.Trace(p.Name, Fault, "%s: %s", message.Text(planned.text), text)
	}
	e := w.trace.begin(p.Name, text)
	execute := func() (fault.Value, error) { return w.execute(l, e, cmd, send) }
	start := time.Now()
	reply, err := planned.apply(p.life, execute)
	if l.node > 0 && planned == nil && time.Since(start) > redlock.NodeLimit(w.TTL)/2 {
		w.late.Store(true) // no fault was injected: redlock believes that the node is down because this machine is slow
	}
	if isNoScript(reply) {
		// Nothing was executed: the client sends the script again, in full.
		p.giveBack(planned, l.node)
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

// execute sends the command while no other command is running, and reads the keys before and after.
// A command that waits in Redis does not block other commands.
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
	if e == nil && w.changed == nil {
		return send()
	}
	defer w.within(0)()
	ours := w.Subject.InRedis() && cmd.Mentions(w.redisKey())
	var before lockState
	var unread error
	if ours && len(w.server.nodes) == 0 { // with redlock, the token alone tells whose lock it is
		before, unread = w.tryLook()
		w.unread(unread)
	}
	reply, err := send()
	if isNoScript(reply) {
		return reply, err // nothing was executed
	}
	after, ok := w.see(e, w.spaces[l.node])
	if !ok {
		return reply, err
	}
	if ours && unread == nil && after.held && (!before.held || before.value != after.value) {
		w.names.holds(p.Name, after.value)
	}
	if ours && unread == nil && w.changed != nil {
		w.changed(p.Name, before, after)
	}
	w.stands(e, after)
	return reply, err
}

// takes reports whether a blocking command can be answered at once because one of its keys exists.
// (If that key expires before the command arrives, the cell is late.) If no key exists, the command
// is about to wait, and takes adds its keys to the event.
func (w *World) takes(l *link, e *Event, at float64, cmd fault.Command) bool {
	if e == nil || w.keyless {
		return false
	}
	space := w.spaces[l.node]
	states, err := space.read(w.ctx, cmd.Takes())
	if err != nil {
		w.unread(err)
		return false
	}
	for _, state := range states {
		if state.there() {
			return true
		}
	}
	changed := w.changes(space, at, states)
	w.trace.change(e, func(e *Event) { e.Keys = changed })
	return false
}
