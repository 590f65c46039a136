package lockbench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"oversell/internal/proc"
)

// Disturb is what is done to processes in the middle of a row. Which ones is
// left to chance.
type Disturb struct {
	// Kill ends one process by SIGKILL.
	Kill bool

	// Stop halts one process for so long by SIGSTOP, and lets it go on. With
	// Kill too, it is another one, as soon as the first is dead. Zero: none.
	Stop time.Duration

	// After is the share of the contenders that is to be served first. Default
	// a quarter.
	After float64

	// Inside has it done while the process holds the lock and has not read the
	// counter yet. Otherwise it is done wherever the process happens to be.
	Inside bool
}

// DefaultAfter is the share that is served before a disturbance.
const DefaultAfter = 0.25

func (d Disturb) any() bool { return d.Kill || d.Stop != 0 }

func (d Disturb) check(processes int) error {
	switch {
	case !d.any():
		return nil
	case !proc.LiveWords:
		return fmt.Errorf("%w: %w", ErrConfig, proc.ErrUnsupported)
	case d.Stop != 0 && (d.Stop < 2*settle || d.Stop > maxDuration):
		return fmt.Errorf("%w: a stop of %v; allowed: %v to %v", ErrConfig, d.Stop, 2*settle, maxDuration)
	case d.After <= 0 || d.After >= 1:
		return fmt.Errorf("%w: disturbed after %v of the contenders; allowed: between 0 and 1", ErrConfig, d.After)
	case processes < 2:
		return fmt.Errorf("%w: a disturbance needs a process that it is not done to: at least 2", ErrConfig)
	}
	return nil
}

// hit is what was done to a process, and when.
type hit struct {
	member *member
	from   time.Time // it was killed, or told to stop
	still  time.Time // it surely had stopped; zero for one that was killed
	to     time.Time // it was told to go on; zero for one that was killed
}

func (h hit) killed() bool { return h.to.IsZero() }

// settle is longer than a process runs on after the signal to stop: until each
// of its threads has come to hear of it.
const settle = 100 * time.Millisecond

// errNotHit means that a disturbance did not come about.
var errNotHit = errors.New("the row was over before it was disturbed")

// befall does what d says as soon as enough of all contenders are served, and
// returns when that is over, or when ctx is.
func (d Disturb) befall(ctx context.Context, members []*member, all int) ([]hit, error) {
	due := func() bool {
		var served int64
		for _, m := range members {
			served += m.board.served()
		}
		return float64(served) >= d.After*float64(all)
	}
	if !until(ctx, due) {
		return nil, errNotHit
	}
	var hits []hit
	if d.Kill {
		m, err := d.victim(ctx, members)
		if err != nil {
			return hits, err
		}
		m.kill()
		hits = append(hits, hit{member: m, from: time.Now()})
	}
	if d.Stop != 0 {
		m, err := d.victim(ctx, members)
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

// victim picks a process of which somebody still waits. If that is wanted it
// waits until the process holds the lock; after a kill inside, that may take
// until the lease of the killed one has run out.
func (d Disturb) victim(ctx context.Context, members []*member) (*member, error) {
	for _, i := range rand.Perm(len(members)) {
		m := members[i]
		if m.killed.Load() || m.over() {
			continue
		}
		if !d.Inside {
			return m, nil
		}
		m.board.park()
		if until(ctx, func() bool { return m.board.parked() || m.over() }) && m.board.parked() {
			return m, nil
		}
		m.board.unpark()
	}
	return nil, errNotHit
}

// over reports whether all outcomes of the process are known.
func (m *member) over() bool { return m.board.over() == int64(m.setup.Crowd) }

// stop halts the process and lets it go on when its time has come, or ctx ends.
func (d Disturb) stop(ctx context.Context, m *member) (hit, error) {
	m.stopped.Store(true)
	h := hit{member: m, from: time.Now()}
	if err := m.proc.Pause(); err != nil {
		return hit{}, err
	}
	h.still = h.from.Add(settle)
	timer := time.NewTimer(d.Stop)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	m.board.unpark()
	h.to = time.Now()
	return h, m.proc.Continue()
}

// glance is the time between two looks at what processes write down.
const glance = time.Millisecond

// until waits for a condition, and reports whether it came about before ctx
// ended.
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
