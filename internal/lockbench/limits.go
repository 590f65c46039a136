package lockbench

import (
	"context"
	"time"

	"oversell/internal/locks"
	v4 "oversell/internal/locks/v4_lua"
)

// Bare is the name of the contender that has no lock in Redis: in several
// processes it guards nothing.
const Bare = "mutex+bare"

// limits are what no lock for several processes can be expected to exceed.
func limits() Catalog {
	return Catalog{
		{
			Name:  "mutex+setnx",
			Waits: "a mutex in the process, its holder asks every 1 ms",
			About: "a mutex in the process around SET NX PX with a token and the release by a script: " +
				"nobody of a process asks in vain. One that has the lock takes it from Redis for each turn anew.",
			Make: func(p Process) (locks.Guard, error) {
				return &limit{place: make(chan struct{}, 1), inner: &locks.Distributed{
					New:    func(key string) locks.Lock { return v4.New(p.Redis, key, p.TTL) },
					Policy: locks.Fixed{Delay: time.Millisecond}, NotHeld: []error{v4.ErrNotHeld}, Undo: true,
				}}, nil
			},
		},
		{
			Name:  Bare,
			Waits: "a mutex in the process",
			About: "a mutex in the process around the GET and the SET, and no lock in Redis: " +
				"what the deduct itself costs. With several processes it guards nothing.",
			Make: func(Process) (locks.Guard, error) {
				return &limit{place: make(chan struct{}, 1), inner: locks.None{}}, nil
			},
		},
	}
}

// limit lets one of a process at a time through to the inner guard.
type limit struct {
	place chan struct{} // full while somebody is inside; waiters come in as they came
	inner locks.Guard
}

// Do implements locks.Guard.
func (l *limit) Do(ctx context.Context, e locks.Entry, section func(context.Context) error) (locks.Stats, error) {
	start := time.Now()
	select {
	case l.place <- struct{}{}:
	case <-e.Wait.Done():
		return locks.Stats{Waited: time.Since(start)}, context.Cause(e.Wait)
	}
	defer func() { <-l.place }()
	return l.inner.Do(ctx, e, section)
}
