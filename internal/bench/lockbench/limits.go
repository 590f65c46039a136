package lockbench

import (
	"time"

	"oversell/internal/guard"
	v4 "oversell/internal/locks/v4_lua"
)

// Bare is the contender without a lock in Redis: with several processes it guards nothing.
const Bare = "mutex+bare"

// limits are upper bounds for locks across processes.
func limits() Catalog {
	return Catalog{
		{
			Name:  "mutex+setnx",
			Waits: "a mutex in the process, whose holder asks every 1 ms",
			About: "a mutex in the process around SET NX PX with a token and the release by a script: the " +
				"contenders of a process never compete in Redis, but each turn takes the lock in Redis anew.",
			Make: func(p Process) (guard.Guard, error) {
				return &guard.Local{Inner: &guard.Distributed{
					New:    func(key string) guard.Lock { return v4.New(p.Redis, key, p.TTL) },
					Policy: guard.Fixed{Delay: time.Millisecond}, NotHeld: []error{v4.ErrNotHeld}, Undo: true,
				}}, nil
			},
		},
		{
			Name:  Bare,
			Waits: "a mutex in the process",
			About: "a mutex in the process around the GET and the SET, and no lock in Redis: " +
				"the cost of the deduct itself. With several processes it guards nothing.",
			Make: func(Process) (guard.Guard, error) {
				return new(guard.Local), nil
			},
		},
	}
}
