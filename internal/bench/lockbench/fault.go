package lockbench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"oversell/internal/fleet"
	"oversell/internal/guard"
)

// Fault is a fault that is injected into random processes in the middle of a row.
type Fault struct {
	// Kill kills one process with SIGKILL.
	Kill bool

	// Stop stops one process with SIGSTOP for so long. With Kill, it is another one, as
	// soon as the first is dead. Zero: none.
	Stop time.Duration

	// After is the share of the contenders that are served first. Default a quarter.
	After float64

	// Inside injects it while the process holds the lock and has not read the counter yet.
	// Otherwise the process may be anywhere.
	Inside bool
}

// DefaultAfter is the share of contenders that are served before a fault.
const DefaultAfter = 0.25

func (d Fault) any() bool { return d.Kill || d.Stop != 0 }

func (d Fault) check(processes int) error {
	switch {
	case !d.any():
		return nil
	case !fleet.LiveWords:
		return fmt.Errorf("%w: %w", ErrConfig, fleet.ErrUnsupported)
	case d.Stop != 0 && (d.Stop < 2*settle || d.Stop > maxDuration):
		return fmt.Errorf("%w: a stop of %v; allowed: %v to %v", ErrConfig, d.Stop, 2*settle, maxDuration)
	case d.After <= 0 || d.After >= 1:
		return fmt.Errorf("%w: a fault after %v of the contenders; allowed: between 0 and 1", ErrConfig, d.After)
	case processes < 2:
		return fmt.Errorf("%w: a fault needs another process that goes on: at least 2", ErrConfig)
	}
	return nil
}

// hit is a fault that was injected, and when.
type hit struct {
	member *member
	from   time.Time // it was killed, or sent SIGSTOP
	still  time.Time // it had surely stopped; zero if it was killed
	to     time.Time // it was sent SIGCONT; zero if it was killed
}

func (h hit) killed() bool { return h.to.IsZero() }

// settle is longer than it takes until SIGSTOP has stopped all threads of a process.
const settle = 100 * time.Millisecond

// errNotHit means that the fault was not injected.
var errNotHit = errors.New("the row was over before the fault could be injected")

// inject injects the fault as soon as enough contenders are served, and returns when it is
// over or ctx ends.
func (d Fault) inject(ctx context.Context, e *ended, all int) ([]hit, error) {
	due := func() bool {
		var served int64
		for _, m := range e.members {
			served += m.slots.served()
		}
		return float64(served) >= d.After*float64(all)
	}
	if !until(ctx, due) {
		return nil, errNotHit
	}
	var hits []hit
	if d.Kill {
		m, err := d.victim(ctx, e)
		if err != nil {
			return hits, err
		}
		m.Kill()
		hits = append(hits, hit{member: m, from: time.Now()})
	}
	if d.Stop != 0 {
		m, err := d.victim(ctx, e)
		if err != nil {
			return hits, err
		}
		h, err := d.stop(ctx, m)
		if err != nil {
			return hits, err
		}
		hits = append(hits, h)
	}
	return hits, nil
}

// victim picks a process that still has waiters. With Inside it waits until the process
// holds the lock; after another one was killed inside, until that one's lease has expired.
func (d Fault) victim(ctx context.Context, e *ended) (*member, error) {
	for _, i := range rand.Perm(len(e.members)) {
		m := e.members[i]
		if !m.Killed.Load() && !m.over() && (!d.Inside || e.holds(ctx, m)) {
			return m, nil
		}
	}
	return nil, errNotHit
}

// holds waits until a contender of a process holds the lock, which it then does until
// Member.Resume, or until all outcomes of the process are known.
func (e *ended) holds(ctx context.Context, m *member) bool {
	waiting, over := context.WithCancel(ctx)
	defer over()
	if err := m.Arm(ctx, fleet.Arm{At: []fleet.Seam{inside}}); err != nil {
		return false
	}
	go func() {
		until(waiting, m.over)
		over()
	}()
	_, err := e.fleet.Next(waiting)
	return err == nil
}

// over reports whether all outcomes of the process are known.
func (m *member) over() bool { return m.slots.over() == int64(m.contenders) }

// stop stops the process until its time is over or ctx ends.
func (d Fault) stop(ctx context.Context, m *member) (hit, error) {
	h := hit{member: m, from: time.Now()}
	if err := m.Pause(); err != nil {
		return hit{}, err
	}
	h.still = h.from.Add(settle)
	_ = guard.Sleep(ctx, d.Stop)
	err := m.Resume() // one that is stopped inside
	h.to = time.Now()
	return h, errors.Join(err, m.Continue())
}

// glance is the time between two looks at the outcomes.
const glance = time.Millisecond

// until polls for a condition, and reports whether it became true before ctx ended.
func until(ctx context.Context, is func() bool) bool {
	ticker := time.NewTicker(glance)
	defer ticker.Stop()
	for !is() {
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C:
		}
	}
	return true
}
