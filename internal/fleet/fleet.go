package fleet

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// Fleet is a set of bench processes that do the same work. It is safe for concurrent use.
type Fleet struct {
	program func(n int) (Program, error)
	reached chan Arrival

	started atomic.Int64 // processes, including those that failed to start

	mu      sync.Mutex
	members []*Member
}

// New returns a fleet without processes. It calls program for each process, with the process's
// number; the first is 1. program must be safe for concurrent use.
func New(program func(n int) (Program, error)) *Fleet {
	return &Fleet{program: program, reached: make(chan Arrival, maxParked)}
}

// Of returns a fleet of the given members. A member without a process, of which only the URL is known,
// must not be killed, paused, ended or told anything.
func Of(members ...*Member) *Fleet { return &Fleet{members: members} }

// Fill starts processes until n of them are running, and resets what the members recorded in the
// previous row. The very first process starts alone, because it may create data that all processes
// use.
func (f *Fleet) Fill(ctx context.Context, n int) error {
	if err := f.Crashed(0); err != nil {
		return err
	}
	f.reap()
	if f.started.Load() == 0 {
		if err := f.add(ctx, 1); err != nil {
			return err
		}
	}
	if err := f.add(ctx, n-len(f.Members())); err != nil {
		return err
	}
	for _, m := range f.Members() {
		m.begin()
	}
	for { // LetGo may receive at the same time
		select {
		case a := <-f.reached: // this call is left over from the previous row
			_ = a.Member.Resume() // if the process has ended, the row fails
		default:
			return nil
		}
	}
}

// reap removes the processes that have ended.
func (f *Fleet) reap() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.members = slices.DeleteFunc(f.members, func(m *Member) bool {
		ended := m.ended()
		if ended {
			m.release()
		}
		return ended
	})
}

// Add starts one process.
func (f *Fleet) Add(ctx context.Context) (*Member, error) {
	if err := f.add(ctx, 1); err != nil {
		return nil, err
	}
	all := f.Members()
	return all[len(all)-1], nil
}

// Replace starts a process in place of the i-th member, which must have ended.
func (f *Fleet) Replace(ctx context.Context, i int) (*Member, error) {
	m, err := f.start(ctx, int(f.started.Add(1)))
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.members[i].release()
	f.members[i] = m
	return m, nil
}

func (f *Fleet) start(ctx context.Context, number int) (*Member, error) {
	p, err := f.program(number)
	if err != nil {
		return nil, err
	}
	return run(ctx, p, f.reached)
}

// add starts n processes. The processes that started become members even if another one failed to
// start, so that Stop ends them.
func (f *Fleet) add(ctx context.Context, n int) error {
	more := make([]*Member, max(0, n))
	g, starting := errgroup.WithContext(ctx)
	for i := range more {
		number := int(f.started.Add(1))
		g.Go(func() (err error) {
			more[i], err = f.start(starting, number)
			return err
		})
	}
	err := g.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.members = append(f.members, slices.DeleteFunc(more, func(m *Member) bool { return m == nil })...)
	return err
}

// Members returns the members that have not been replaced, including processes
// that were killed in this row.
func (f *Fleet) Members() []*Member {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.members)
}

// Running returns the members that are running.
func (f *Fleet) Running() []*Member {
	return slices.DeleteFunc(f.Members(), func(m *Member) bool { return !m.Runs() })
}

// Survivor returns a running member, if possible one that is neither stopped nor cut off. It
// returns nil if no member is running.
func (f *Fleet) Survivor() *Member {
	running := f.Running()
	for _, m := range running {
		if !m.Paused.Load() && !m.Cut.Load() {
			return m
		}
	}
	if len(running) == 0 {
		return nil
	}
	return running[0]
}

// Each calls do concurrently for all running members, and returns the first error.
func (f *Fleet) Each(do func(m *Member) error) error {
	var g errgroup.Group
	for _, m := range f.Running() {
		g.Go(func() error { return do(m) })
	}
	return g.Wait()
}

// Arm arms the seams of all running members.
func (f *Fleet) Arm(ctx context.Context, a Arm) error {
	return f.Each(func(m *Member) error { return m.Arm(ctx, a) })
}

// Crashed returns the error of a member that ended by itself. The connections of a process break
// before its exit is known, so Crashed keeps checking until the grace time is over.
func (f *Fleet) Crashed(grace time.Duration) error {
	for end := time.Now().Add(grace); ; time.Sleep(grace / 20) {
		for _, m := range f.Members() {
			if m.ended() && !m.Killed.Load() {
				return m.died()
			}
		}
		if !time.Now().Before(end) {
			return nil
		}
	}
}

// Stalled returns the longest stall in this row. It ignores members that were stopped on purpose.
func (f *Fleet) Stalled() (longest time.Duration) {
	for _, m := range f.Members() {
		if !m.Paused.Load() {
			longest = max(longest, m.Stalls.Get())
		}
	}
	return longest
}

// Stop ends all members, and kills the members that are still running after the grace time.
func (f *Fleet) Stop(grace time.Duration) {
	var all sync.WaitGroup
	for _, m := range f.Members() {
		all.Go(func() {
			m.End(grace)
			m.release()
		})
	}
	all.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.members = nil
}

// ErrNotReached means that no call reached a seam where a fault was to be injected.
var ErrNotReached = errors.New("nobody reached the seam")

// Next returns the next call that waits at a seam, once there is one. If a member ends by itself,
// Next returns the member's error. If ctx ends first, it returns ErrNotReached.
func (f *Fleet) Next(ctx context.Context) (Arrival, error) {
	looks := time.NewTicker(ExitGrace)
	defer looks.Stop()
	for {
		select {
		case a := <-f.reached:
			return a, nil
		case <-ctx.Done():
			return Arrival{}, ErrNotReached
		case <-looks.C:
			if err := f.Crashed(0); err != nil {
				return Arrival{}, err
			}
		}
	}
}

// Catch waits for a call that reaches a seam, and calls fault with the process of that call. While
// fault runs, Catch resumes other calls that reach a seam.
func (f *Fleet) Catch(ctx context.Context, fault func(m *Member) error) error {
	first, err := f.Next(ctx)
	if err != nil {
		return err
	}
	over, end := context.WithCancel(context.WithoutCancel(ctx))
	var others sync.WaitGroup
	others.Go(func() { f.LetGo(over) })
	defer others.Wait()
	defer end()
	return fault(first.Member)
}

// LetGo resumes every call that reaches a seam, until ctx ends.
func (f *Fleet) LetGo(ctx context.Context) {
	for {
		select {
		case a := <-f.reached:
			_ = a.Member.Resume() // if the process has ended, the row fails or has killed the process
		case <-ctx.Done():
			return
		}
	}
}
