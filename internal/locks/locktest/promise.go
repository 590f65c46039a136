package locktest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Mutex is the handle of one holder.
//
// If it also has a method Context(context.Context) context.Context, that is the context of the
// work under the lock; a holder can be told of a loss in no other way. If it has Token() int64,
// exactly that, it is its fencing token. If it has Lock(context.Context) error, that waits for
// the lock until the context ends. Each of these methods makes promises of its own.
//
// The goroutines of a lock must end soon after Unlock, and soon after its client was closed:
// within two ttl. A testing/synctest bubble fails the test if one is left.
type Mutex interface {
	// TryLock acquires the lock if it is free. It returns false if another holder has it.
	TryLock(ctx context.Context) (bool, error)
	// Unlock releases the lock, even if ctx is already cancelled.
	Unlock(ctx context.Context) error
}

// A Lock describes a lock to Run.
type Lock struct {
	// New returns the handle of one holder. The lock expires ttl after its holder is gone.
	New func(rdb redis.UniversalClient, key string, ttl time.Duration) Mutex

	NotHeld error // the error of Unlock when there is nothing to release, for errors.Is
	Lost    error // the cause of the Context of a lost hold, for errors.Is; nil for any

	// WithOwner puts the holder's name into ctx; nil for a lock that needs no name.
	WithOwner func(ctx context.Context, owner string) context.Context

	// Queue is what is added to the key for the list in which waiters queue up; empty for a
	// lock without such a queue.
	Queue string

	// Breaks names the promises that the lock is known to break. Run fails if it keeps one of
	// them after all, so that the list stays true.
	Breaks []string
}

// A promise is something that a lock may promise.
type promise struct {
	name     string // a sentence
	applies  func(lock Lock) bool
	scenario func(w *World)
}

// promises returns all promises. Each assumes that the ones before it hold, as far as it needs
// them.
func promises() []promise {
	return slices.Concat(ofAll(), ofOwners(), ofLeases(), ofTokens(), ofWaiters(), ofQueues())
}

// Promises returns the names of all promises.
func Promises() (names []string) {
	for _, p := range promises() {
		names = append(names, p.name)
	}
	return names
}

// applying returns promises that are made by the locks for which applies is true.
func applying(applies func(Lock) bool, all []promise) []promise {
	for i := range all {
		all[i].applies = applies
	}
	return all
}

// handle returns a handle that is not used, to see which methods it has.
func (l Lock) handle() Mutex {
	rdb := redis.NewClient(&redis.Options{})
	defer func() { _ = rdb.Close() }()
	return l.New(rdb, "unused", TTL)
}

// Run checks every promise that the lock makes, each in a subtest. Each is a scenario with
// faults, on a Redis in memory, in virtual time. A process that is stopped for longer than the
// ttl loses every lock that expires: the answer to that is a fencing token.
func Run(t *testing.T, lock Lock) {
	t.Helper()
	for _, name := range lock.Breaks {
		if !slices.Contains(Promises(), name) {
			t.Fatalf("there is no promise %q", name)
		}
	}
	for _, p := range promises() {
		if !p.applies(lock) {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			if failure := p.verdict(t, lock); failure != "" {
				t.Error(failure)
			}
		})
	}
}

// verdict returns why the subtest of Run fails, and "" if it passes.
func (p promise) verdict(t *testing.T, lock Lock) string {
	broken, err := play(t, lock, p.scenario)
	listed := slices.Contains(lock.Breaks, p.name)
	switch {
	case err != nil:
		return "the scenario could not be run: " + err.Error()
	case broken == "" && listed:
		return "kept, although the list says that it is broken"
	case broken != "" && !listed:
		return broken
	}
	return ""
}
