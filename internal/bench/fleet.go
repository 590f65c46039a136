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

	"oversell/internal/proc"
)

// fleet is the instances of a bench.
type fleet struct {
	command func() (*exec.Cmd, error) // runs an instance
	setup   setup
	members []*instance

	means

	started int // instances ever, for their names
}

// fill starts instances until n of them run. The very first starts alone, because it
// creates the tables.
func (f *fleet) fill(ctx context.Context, n int) error {
	if err := f.crashed(0); err != nil {
		return err
	}
	f.reap()
	if f.started == 0 {
		if err := f.add(ctx, 1); err != nil {
			return err
		}
	}
	return f.add(ctx, n-len(f.members))
}

// reap removes the instances that have ended.
func (f *fleet) reap() {
	f.members = slices.DeleteFunc(f.members, func(i *instance) bool {
		ended := !i.alive()
		if ended {
			i.gauge.close()
		}
		return ended
	})
}

// add starts n instances. Those that started are members even if another did not, so
// that stop ends them.
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

// crashed returns the error of an instance that ended by itself. The connections of a
// process break before its end is known, so it keeps checking for the grace time.
func (f *fleet) crashed(grace time.Duration) error {
	for end := time.Now().Add(grace); ; time.Sleep(grace / 20) {
		for _, i := range f.members {
			if !i.alive() && !i.killed.Load() {
				return i.Died()
			}
		}
		if !time.Now().Before(end) {
			return nil
		}
	}
}

// survivor is an instance that runs, or nil.
func (f *fleet) survivor() *instance {
	for _, i := range f.members {
		if i.alive() {
			return i
		}
	}
	return nil
}

// inside is how many holders all instances have at one moment, except those that were
// killed; false if there was no such moment. The gauges must be legible.
func (f *fleet) inside() (n int64, ok bool) {
	var read []*instance
	var gauges []*gauge
	for _, i := range f.members {
		if i.running() {
			read, gauges = append(read, i), append(gauges, i.gauge)
		}
	}
	n, ok = inside(gauges)
	// The gauge of one that was killed meanwhile still counts its holders.
	return n, ok && !slices.ContainsFunc(read, func(i *instance) bool { return !i.running() })
}

// entered is how many holders have entered in this row, except in the instance without; -1
// without gauges.
func (f *fleet) entered(without *instance) (n int64) {
	if !f.legible() {
		return -1
	}
	for _, i := range f.members {
		if i != without {
			came, _ := i.gauge.read()
			n += came
		}
	}
	return n
}

// succeeded waits until another holder has entered than the one in a stopped instance, for at
// most so long, or until ctx ends. Before is how many had entered when it was stopped.
func (f *fleet) succeeded(ctx context.Context, stopped *instance, before int64, most time.Duration) {
	for end := time.Now().Add(most); before >= 0 && f.entered(stopped) == before && time.Now().Before(end); {
		if !proc.Sleep(ctx, glancePause) {
			return
		}
	}
}

// held is for how long connections to the database were out of the pools of all instances in
// this row, those that were killed included; false if it was not measured.
func (f *fleet) held() (sum time.Duration, ok bool) {
	for _, i := range f.members {
		if i.gauge == nil {
			return 0, false
		}
		sum += i.gauge.held()
	}
	return sum, true
}

// stalled is the longest stall of an instance in this row that was not injected.
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

// stop ends all instances, and kills those that take longer than the grace time.
func (f *fleet) stop(grace time.Duration) {
	var wg sync.WaitGroup
	for _, i := range f.members {
		wg.Go(func() { i.stop(grace) })
	}
	wg.Wait()
	f.members = nil
}

// errNotInjected means that the fault of a row was not injected.
var errNotInjected = errors.New("no holder reached the critical section")

// inject calls fault with the instance of the first holder that parks. A holder that
// parks in another process meanwhile goes on. It returns when ctx ends, which is when
// the row is over.
func (f *fleet) inject(ctx context.Context, fault func(i *instance) error) error {
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
				return fault(i)
			default:
				return i.Send(command{Resume: true})
			}
		})
	}
	err := g.Wait()
	if len(first) == 0 {
		err = errors.Join(err, errNotInjected)
	}
	return err
}

// overstayed waits for slow and late holders until ctx ends, which is when the row is
// over. It calls each with the time until which one is slow or late, and for the first it
// calls then. Both are called from several goroutines.
func (f *fleet) overstayed(ctx context.Context, each func(until time.Time), then func(until time.Time) error) error {
	var found atomic.Bool
	var g errgroup.Group
	for _, i := range f.members {
		g.Go(func() error {
			select {
			case until := <-i.overstays:
				each(until)
				if found.Swap(true) {
					return nil
				}
				return then(until)
			case <-ctx.Done():
				return nil
			}
		})
	}
	err := g.Wait()
	if !found.Load() {
		err = errors.Join(err, errNotInjected)
	}
	return err
}

// stay keeps the holders that enter from now on inside until then, in all instances.
func (f *fleet) stay(until time.Time) error {
	for _, i := range f.members {
		if err := i.Send(command{Until: &until}); err != nil {
			return err
		}
	}
	return nil
}
