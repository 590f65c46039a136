package lockbench

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"oversell/internal/catalog"
	"oversell/internal/guard"
)

// fault is a fault that is injected into random processes in the middle of a row, once a quarter of
// the contenders are served.
type fault struct {
	kill bool // a process is killed
	stop bool // a process is stopped for a while; if kill is set, another one, once the first is dead
}

// stopTime returns the time for which a process is stopped: long enough for others to enter once a
// lease of the given ttl has expired.
func stopTime(ttl time.Duration) time.Duration { return max(3*time.Second, ttl*13/10) }

// faults returns the fault of each condition.
func faults() map[catalog.Condition]fault {
	return map[catalog.Condition]fault{
		catalog.Calm:  {},
		catalog.Crash: {kill: true},
		catalog.Pause: {stop: true},
		"crash+pause": {kill: true, stop: true},
	}
}

func (f fault) any() bool { return f.kill || f.stop }

// hit is an injected fault with its times.
type hit struct {
	member *member
	from   time.Time // when it was killed, or sent SIGSTOP
	to     time.Time // when it was sent SIGCONT; zero if it was killed
}

func (h hit) killed() bool { return h.to.IsZero() }

// settle is longer than SIGSTOP takes to stop all threads of a process.
const settle = 100 * time.Millisecond

// errNotHit means that the fault was not injected.
var errNotHit = errors.New("the row was over before the fault could be injected")

// inject injects the fault as soon as enough contenders are served, and returns when the fault is
// over or ctx ends. A process is stopped for the time stop.
func (f fault) inject(ctx context.Context, e *ended, all int, stop time.Duration) ([]hit, error) {
	due := func() bool {
		var served int64
		for _, m := range e.members {
			served += m.slots.served()
		}
		return 4*served >= int64(all)
	}
	for !due() {
		if guard.Sleep(ctx, glance) != nil {
			return nil, errNotHit
		}
	}
	var hits []hit
	if f.kill {
		m, err := e.victim()
		if err != nil {
			return hits, err
		}
		m.Kill()
		hits = append(hits, hit{member: m, from: time.Now()})
	}
	if f.stop {
		m, err := e.victim()
		if err != nil {
			return hits, err
		}
		h := hit{member: m, from: time.Now()}
		if err := m.Pause(); err != nil {
			return hits, err
		}
		_ = guard.Sleep(ctx, stop)
		h.to = time.Now()
		if err := m.Continue(); err != nil {
			return hits, err
		}
		hits = append(hits, h)
	}
	return hits, nil
}

// victim picks a process that still has waiters.
func (e *ended) victim() (*member, error) {
	for _, i := range rand.Perm(len(e.members)) {
		if m := e.members[i]; !m.Killed.Load() && m.slots.over() < int64(m.contenders) {
			return m, nil
		}
	}
	return nil, errNotHit
}

// glance is the time between two checks of the outcomes.
const glance = time.Millisecond
