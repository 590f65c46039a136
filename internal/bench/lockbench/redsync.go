package lockbench

import (
	"math/rand/v2"
	"time"

	"github.com/go-redsync/redsync/v4"

	"oversell/internal/guard"
	"oversell/internal/locks/thirdparty"
)

// redsyncs are redsync on one server, used as in its README: one pool and one Redsync per
// process, NewMutex for each holder, Lock, Unlock.
func redsyncs() Catalog {
	return Catalog{
		{
			Name:  "redsync",
			Waits: "asks every 50 to 250 ms, 32 times",
			About: "every default: a lease of 8 s, 32 tries, a random 50 to 250 ms between two. " +
				"A contender that fails 32 times gets an error.",
			Make: madeOfRedsync(),
		},
		{
			Name:  "redsync:best",
			Waits: "asks every 0.2 to 1 s",
			About: "Tries without end, so that no contender is refused. The delay is longer than the default, " +
				"not shorter: each failed try is a SET and a script, and the tries of thousands delay the " +
				"holder's release.",
			Make: madeOfRedsync(
				redsync.WithTries(1<<30),
				redsync.WithRetryDelayFunc(func(int) time.Duration {
					return 200*time.Millisecond + rand.N(800*time.Millisecond)
				}),
				redsync.WithFailFast(true),
			),
		},
	}
}

func madeOfRedsync(options ...redsync.Option) func(Process) (guard.Guard, error) {
	return func(p Process) (guard.Guard, error) {
		lib := thirdparty.NewRedsync(p.Redis, options...)
		return ofLibrary(func(key string) guard.Lock { return lib.New(key) }), nil
	}
}

// ofLibrary makes the guard of a library's lock, which waits in its own way.
func ofLibrary(lock func(key string) guard.Lock) *guard.Distributed {
	return &guard.Distributed{New: lock, NotHeld: []error{thirdparty.ErrNotHeld}}
}
