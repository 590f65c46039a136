package lab

import (
	"cmp"
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"oversell/internal/lab/turnstile"
	"oversell/internal/lab/wire"
)

// A gate holds every command of one buyer's process before Redis sees it, until it is
// let through. It is safe for concurrent use.
type gate struct {
	s *staging
	p *Process

	turns *turnstile.Turnstile // at which the client's commands wait before they have a connection

	mu      sync.Mutex
	held    []*held
	waiting *held // waits in Redis, which answers when there is something to tell
	inside  bool  // the buyer is in its section
	seen    []exchange
	keeping exchange // of a watchdog, the last one
	kept    int      // commands of a watchdog that were let go during the last move
}

// held is a command at a gate.
type held struct {
	cmd      wire.Command
	text     string
	script   string      // its source
	fresh    bool        // it is not known yet whose it is
	watchdog bool        // the buyer's own line of work does not wait for it
	givenUp  atomic.Bool // nobody waits for its reply any more; it may arrive all the same
	since    float64     // when it left its process
	sent     float64     // when Redis got it
	lost     bool        // its reply gets lost
	open     chan struct{}
}

// order puts commands that were sent at the same moment in an order that does not depend
// on who has run a script before.
func (h *held) order() string { return strings.Replace(h.text, "EVALSHA", "EVAL", 1) }

// exchange is a command and what the buyer was told.
type exchange struct{ text, reply string }

// client makes a client whose connections all go through the gate. It has no short
// timeouts, because the schedule decides how long a command takes.
func (g *gate) client() *redis.Client {
	w := g.p.w
	o := w.server.options(g.dial)
	o.ReadTimeout, o.WriteTimeout = 2*MaxSchedule, 2*MaxSchedule
	o.DialTimeout = 2 * MaxSchedule
	client := redis.NewClient(o)
	client.AddHook(g.turns)
	return client
}

func (g *gate) dial(ctx context.Context) (net.Conn, error) {
	if err := g.p.life.Err(); err != nil {
		return nil, err
	}
	redisSide, err := g.p.w.server.dial(ctx)
	if err != nil {
		return nil, err
	}
	mine, theirs := wire.Pipe()
	g.p.w.all.Go(func() { wire.Relay(g.p.life, theirs, redisSide, g.handle) })
	return mine, nil
}

// handle has a command wait at the gate and sends it. The reply waits for as long as the
// process is stopped.
func (g *gate) handle(ctx context.Context, cmd wire.Command, send func() (wire.Value, error)) (wire.Value, error) {
	if cmd.SetUp() {
		if err := g.p.passage(ctx); err != nil {
			return nil, err
		}
		return send()
	}
	source, known := g.s.source(cmd)
	if !known {
		return wire.ErrorReply("NOSCRIPT No matching script. Please use EVAL."), nil
	}
	h := g.hold(cmd, source)
	if err := g.wait(ctx, h); err != nil {
		return nil, err
	}
	return g.perform(ctx, h, send)
}

// hold stops a command at the gate.
func (g *gate) hold(cmd wire.Command, source string) *held {
	w := g.p.w
	h := &held{cmd: cmd, script: source, text: w.names.text(g.p.Name, cmd), since: w.trace.ms(), fresh: true, open: make(chan struct{})}
	g.mu.Lock()
	g.held = append(g.held, h)
	g.mu.Unlock()
	g.s.notice()
	return h
}

// CompareBool orders false before true.
func CompareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// wait returns when the gate opens for h, or with an error when its process is dead. A
// client that gives up cannot take back what it has sent.
func (g *gate) wait(ctx context.Context, h *held) error {
	hungUp := ctx.Done()
	for {
		select {
		case <-h.open:
			return nil
		case <-g.p.life.Done():
			g.forget(h)
			return errDropped
		case <-hungUp:
			hungUp = nil
			h.givenUp.Store(true)
		}
	}
}

func (g *gate) forget(h *held) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held = slices.DeleteFunc(g.held, func(other *held) bool { return other == h })
}

// let opens the gate for h.
func (g *gate) let(h *held) {
	g.forget(h)
	if h.watchdog {
		g.kept++
	}
	close(h.open)
}

// perform sends a command to Redis, and records the result.
func (g *gate) perform(ctx context.Context, h *held, send func() (wire.Value, error)) (wire.Value, error) {
	h.sent = g.p.w.trace.ms()
	if h.lost {
		g.p.Inject(func(cmd wire.Command) bool { return &cmd.Args[0] == &h.cmd.Args[0] }, 1, "the connection breaks before the reply arrives", loseReply)
	}
	if h.cmd.Blocks() {
		g.block(h)
		defer g.block(nil)
	}
	before := g.s.lock(h.cmd)
	reply, err := g.p.w.command(ctx, g.p.links[0], h.cmd, send)
	g.s.changed(g.p.Name, before, g.s.lock(h.cmd))
	g.mu.Lock()
	if e := (exchange{h.text, g.p.w.names.value(reply.String())}); h.watchdog {
		g.keeping = e
	} else {
		g.seen = append(g.seen, e)
	}
	g.mu.Unlock()
	if cut := g.p.passage(ctx); err == nil {
		err = cut
	}
	return reply, err
}

func (g *gate) block(h *held) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = h
}

// enter notes that the buyer is in its section, or no longer.
func (g *gate) enter(inside bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside = inside
}

// commands returns what is held, the buyer's own commands first. It may be called only
// when all goroutines wait, because only then is it certain who sends what. A buyer in
// its section asks only for the stock, so any other command is one that renews the lock.
func (g *gate) commands() []*held {
	w := g.p.w
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, h := range g.held {
		if h.fresh {
			h.fresh, h.watchdog = false, g.inside && w.Subject.Renewed() && !h.cmd.Mentions(w.StockKey())
		}
	}
	slices.SortStableFunc(g.held, func(a, b *held) int {
		return cmp.Or(CompareBool(a.watchdog, b.watchdog), cmp.Compare(a.since, b.since), strings.Compare(a.order(), b.order()))
	})
	return slices.Clone(g.held)
}

// watchdog returns the first command that keeps a lock, or nil.
func (g *gate) watchdog() *held {
	for _, h := range g.commands() {
		if h.watchdog && !h.givenUp.Load() {
			return h
		}
	}
	return nil
}

// sources knows the scripts that were sent in full, by their hash.
type sources struct {
	mu sync.Mutex
	of map[string]string
}

// source returns the source of the script that a command runs, if any. It is unknown if
// nobody has sent the script in full yet: Redis would say NOSCRIPT. A script that is
// sent in full is loaded at once, so that a script never takes two steps.
func (s *staging) source(cmd wire.Command) (source string, known bool) {
	if !cmd.Script() || len(cmd.Args) < 2 {
		return "", true
	}
	s.scripts.mu.Lock()
	defer s.scripts.mu.Unlock()
	if cmd.Is("EVALSHA", "EVALSHA_RO") {
		source, known = s.scripts.of[strings.ToLower(cmd.Args[1])]
		return source, known
	}
	source = cmd.Args[1]
	sha, err := s.w.Side.ScriptLoad(s.w.ctx, source).Result()
	if err == nil {
		s.scripts.of[sha] = source
	}
	return source, true
}
