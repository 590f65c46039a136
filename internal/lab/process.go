package lab

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis/rueidislock"

	"oversell/internal/lab/wire"
	"oversell/internal/locks"
)

// Process is an actor. As far as Redis can tell it is a process of its own: it
// has its own connections, which faults are done to.
type Process struct {
	w    *World
	name string
	life context.Context // ends when it is killed
	kill context.CancelFunc

	rdb   *redis.Client
	mutex *locks.Local // in memory: what all of one instance share
	rules rules
	asked atomic.Int64 // commands that Redis was sent, or was to be sent

	mu      sync.Mutex
	frozen  chan struct{} // closed when it thaws; nil while it runs
	cut     bool          // what it sends gets lost
	refused bool          // Redis refuses its connections
	conns   map[net.Conn]struct{}
	locker  rueidislock.Locker
	holders []*Holder
}

// Redis is the process' client.
func (p *Process) Redis() redis.UniversalClient { return p.rdb }

// TTL is the lease that its locks are to take.
func (p *Process) TTL() time.Duration { return p.w.TTL }

// Life ends when the process is killed, or the cell is over.
func (p *Process) Life() context.Context { return p.life }

// Start starts a process.
func (w *World) Start(name string) *Process {
	return w.start(name, new(locks.Local))
}

// Another starts an actor in the same instance as p: it shares its mutex. Its
// client is its own, so that faults are done to it alone: a lock that keeps its
// waiters in memory, by their client, takes it for another instance.
func (p *Process) Another(name string) *Process {
	return p.w.start(name, p.mutex)
}

func (w *World) start(name string, mutex *locks.Local) *Process {
	p := &Process{w: w, name: name, mutex: mutex, conns: make(map[net.Conn]struct{})}
	p.life, p.kill = context.WithCancel(w.ctx)
	o := w.server.options(p.dial)
	o.ReadTimeout, o.WriteTimeout = 4*w.TTL, 4*w.TTL
	o.DialTimeout = w.TTL
	p.rdb = redis.NewClient(o)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.processes = append(w.processes, p)
	return p
}

// dial connects a client of this process to Redis, through the relay.
func (p *Process) dial(ctx context.Context) (net.Conn, error) {
	p.mu.Lock()
	refused := p.refused
	p.mu.Unlock()
	if refused || p.life.Err() != nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	redisSide, err := p.w.server.dial(ctx)
	if err != nil {
		return nil, err
	}
	mine, theirs := net.Pipe()
	p.mu.Lock()
	p.conns[theirs] = struct{}{}
	p.mu.Unlock()
	p.w.all.Go(func() {
		wire.Relay(p.life, theirs, redisSide, p.handle)
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, theirs)
	})
	return mine, nil
}

// handle is what becomes of a command of this process.
func (p *Process) handle(ctx context.Context, cmd wire.Command, send func() (wire.Value, error)) (wire.Value, error) {
	if err := p.passage(ctx); err != nil {
		return nil, err
	}
	if cmd.SetUp() {
		return send()
	}
	p.asked.Add(1)
	reply, err := p.w.command(ctx, p, cmd, send)
	if err != nil {
		return nil, err
	}
	return reply, p.passage(ctx)
}

// errCut means that a command or its reply got lost on the way.
var errCut = errors.New("lost on the way")

// passage waits while the process stands still, and for ever once it is cut
// off: until its client gives up.
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
			return ctx.Err()
		}
		select {
		case <-frozen:
		case <-ctx.Done():
			return errCut
		}
	}
}

// Freeze stops the process: nothing leaves it, nothing reaches it. What was on
// its way already goes on. Its timers in this program run on, so it may learn
// of a loss earlier than a stopped process would; never later.
func (p *Process) Freeze() {
	p.mu.Lock()
	p.frozen = make(chan struct{})
	p.mu.Unlock()
	p.w.fault(p, "stopped")
}

// Thaw lets the process go on, if it stands still.
func (p *Process) Thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frozen == nil {
		return
	}
	p.w.fault(p, "goes on")
	close(p.frozen)
	p.frozen = nil
}

// Cut loses all that the process sends from now on, without a word.
func (p *Process) Cut() {
	p.w.fault(p, "cut off from Redis: nothing arrives, nothing comes back")
	p.mu.Lock()
	p.cut = true
	p.mu.Unlock()
}

// Restore ends Cut and Refuse for what is sent from now on.
func (p *Process) Restore() {
	p.w.fault(p, "reaches Redis again")
	p.mu.Lock()
	p.cut, p.refused = false, false
	p.mu.Unlock()
}

// Refuse breaks the connections of the process, and refuses new ones: to it
// Redis is gone.
func (p *Process) Refuse() {
	p.w.fault(p, "Redis is away: connections are refused")
	p.mu.Lock()
	p.refused = true
	for conn := range p.conns {
		conn.Close()
	}
	p.mu.Unlock()
}

// Kill kills the process on the spot.
func (p *Process) Kill() {
	p.w.fault(p, "killed")
	p.kill()
	p.mu.Lock()
	holders := p.holders
	p.mu.Unlock()
	for _, h := range holders {
		h.end()
	}
}

// Fault does something to the next n commands that match.
func (p *Process) Fault(match Match, n int, text string, act action) {
	p.rules.add(match, n, text, act)
}

// park parks the next command that matches, before Redis sees it.
func (p *Process) park(match Match) *pause {
	stop := newPause()
	p.Fault(match, 1, "held up on its way", stop.before)
	return stop
}

// Asked returns how many commands the process has sent. Those that set up a
// connection do not count.
func (p *Process) Asked() int { return int(p.asked.Load()) }

// close ends the process and its clients.
func (p *Process) close() {
	p.kill()
	p.mu.Lock()
	locker, holders := p.locker, p.holders
	p.mu.Unlock()
	for _, h := range holders {
		h.forget()
	}
	if locker != nil {
		locker.Close()
	}
	_ = p.rdb.Close()
}
