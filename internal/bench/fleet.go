package bench

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"oversell/internal/locks"
)

// fleet is the instances of a bench.
type fleet struct {
	command func() (*exec.Cmd, error) // makes the command that runs an instance
	setup   setup
	members []*instance

	means

	started int // instances ever, for their names
}

// fill starts instances until n of them run. The first of all starts alone,
// since it makes the tables.
func (f *fleet) fill(ctx context.Context, n int) error {
	if err := f.fallen(0); err != nil {
		return err
	}
	f.bury()
	if f.started == 0 {
		if err := f.add(ctx, 1); err != nil {
			return err
		}
	}
	return f.add(ctx, n-len(f.members))
}

// bury removes the instances that have ended.
func (f *fleet) bury() {
	f.members = slices.DeleteFunc(f.members, func(i *instance) bool {
		ended := !i.alive()
		if ended {
			i.gauge.close()
		}
		return ended
	})
}

// add starts n instances. Those that did start are members also when one did
// not, so that stop ends them.
func (f *fleet) add(ctx context.Context, n int) error {
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	for range n {
		f.started++
		s := f.setup
		s.Name = fmt.Sprintf("%s-%d", f.setup.Name, f.started)
		g.Go(func() error {
			cmd, err := f.command()
			if err != nil {
				return err
			}
			i, err := start(ctx, cmd, s, f.means)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			f.members = append(f.members, i)
			return nil
		})
	}
	return g.Wait()
}

// follow gives all instances the plan for the next row.
func (f *fleet) follow(ctx context.Context, p plan) error {
	var g errgroup.Group
	for _, i := range f.members {
		g.Go(func() error { return i.follow(ctx, p) })
	}
	return g.Wait()
}

// fallen returns the error for an instance that ended by itself. Connections
// are cut off before it is known that their process has ended, so it looks
// again and again for as long as grace.
func (f *fleet) fallen(grace time.Duration) error {
	for end := time.Now().Add(grace); ; time.Sleep(grace / 20) {
		for _, i := range f.members {
			if !i.alive() && !i.killed.Load() {
				return i.died()
			}
		}
		if !time.Now().Before(end) {
			return nil
		}
	}
}

// survivor is an instance that runs; nil if there is none.
func (f *fleet) survivor() *instance {
	for _, i := range f.members {
		if i.alive() {
			return i
		}
	}
	return nil
}

// inside is how many are inside at one moment in all instances, but for those that
// were killed; false: there was no such moment. The gauges must be legible.
func (f *fleet) inside() (n int64, ok bool) {
	var read []*instance
	var gauges []*gauge
	for _, i := range f.members {
		if i.running() {
			read, gauges = append(read, i), append(gauges, i.gauge)
		}
	}
	n, ok = inside(gauges)
	// Of one that was killed meanwhile the gauge still has who was inside.
	return n, ok && !slices.ContainsFunc(read, func(i *instance) bool { return !i.running() })
}

// stalled is for how long one of the instances stood still in this row, but for
// what was done to it on purpose.
func (f *fleet) stalled() time.Duration {
	var longest time.Duration
	for _, i := range f.members {
		if !i.paused.Load() {
			longest = max(longest, i.stalls.Get())
		}
	}
	return longest
}

func (f *fleet) urls() []string {
	urls := make([]string, len(f.members))
	for n, i := range f.members {
		urls[n] = i.url
	}
	return urls
}

// stop ends all instances, those by force that take longer than the grace.
func (f *fleet) stop(grace time.Duration) {
	var wg sync.WaitGroup
	for _, i := range f.members {
		wg.Go(func() { i.stop(grace) })
	}
	wg.Wait()
	f.members = nil
}

// errNotStruck means that a row's condition did not come about.
var errNotStruck = errors.New("no holder came as far as to be struck")

// strike has the first holder that parks struck, by hit with its instance. A
// holder that parks in another process meanwhile is let go on. It returns when
// ctx ends, which is when the row is over.
func (f *fleet) strike(ctx context.Context, hit func(i *instance) error) error {
	first := make(chan struct{}, 1)
	var g errgroup.Group
	for _, i := range f.members {
		g.Go(func() error {
			select {
			case <-i.parked:
			case <-ctx.Done():
				return nil
			}
			select {
			case first <- struct{}{}:
				return hit(i)
			default:
				return i.tell(order{GoOn: true})
			}
		})
	}
	err := g.Wait()
	if len(first) == 0 {
		err = errors.Join(err, errNotStruck)
	}
	return err
}

// watch waits for slow and late holders until ctx ends, which is when the row
// is over. It calls tell for the first, with the time until which it is slow or
// late.
func (f *fleet) watch(ctx context.Context, tell func(until time.Time) error) error {
	var struck atomic.Bool
	var g errgroup.Group
	for _, i := range f.members {
		g.Go(func() error {
			select {
			case until := <-i.struck:
				if struck.Swap(true) {
					return nil
				}
				return tell(until)
			case <-ctx.Done():
				return nil
			}
		})
	}
	err := g.Wait()
	if !struck.Load() {
		err = errors.Join(err, errNotStruck)
	}
	return err
}

// stay keeps the holders that come in from now on inside until then, in all
// instances.
func (f *fleet) stay(until time.Time) error {
	for _, i := range f.members {
		if err := i.tell(order{Until: &until}); err != nil {
			return err
		}
	}
	return nil
}

// hit strikes one process: with Crash it is killed, with Pause it is stopped for
// the given time and goes on. Its parked holder finds the order to go on when the
// process does, so that it writes before anything else in the process has had
// time to look around.
func (i *instance) hit(ctx context.Context, c locks.Condition, pause time.Duration) error {
	if c == locks.Crash {
		i.kill()
		return nil
	}
	i.paused.Store(true)
	if err := i.proc.Pause(); err != nil {
		return err
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return errors.Join(i.tell(order{GoOn: true}), i.proc.Continue())
}
