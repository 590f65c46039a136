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
// It may have three more methods, and Run checks further promises for each of them.
// Context(context.Context) context.Context returns the context of the work under the lock; it is
// the only way to notify a holder of a loss. Token() int64 returns the fencing token.
// Lock(context.Context) error waits for the lock until the context ends.
//
// The goroutines of a lock must end within two ttls after Unlock, and within two ttls after its
// client is closed. If a goroutine is left, the testing/synctest bubble fails the test.
type Mutex interface {
	// TryLock acquires the lock if it is free. It returns false if another holder has it.
	TryLock(ctx context.Context) (bool, error)
	// Unlock releases the lock, even if ctx is already cancelled.
	Unlock(ctx context.Context) error
}

// A Lock describes the lock that Run checks.
type Lock struct {
	// New returns the handle of one holder. The lock must expire within ttl after its holder has died.
	New func(rdb redis.UniversalClient, key string, ttl time.Duration) Mutex

	NotHeld error // matches the error of Unlock if there is nothing to release
	Lost    error // matches the cause of the Context of a lost hold; nil matches any cause

	// WithOwner puts the holder's name into ctx. It is nil for a lock that needs no name.
	WithOwner func(ctx context.Context, owner string) context.Context

	// Queue is the suffix of the key of the list in which waiters queue up. It is empty for a lock
	// without such a list.
	Queue string

	// Breaks names the promises that the lock is known to break. Run fails if it keeps one of them,
	// so that the list stays correct.
	Breaks []string
}

// A promise is a property that a lock may promise, and the scenario that checks it.
type promise struct {
	name     string // the promise, as a sentence
	applies  func(lock Lock) bool
	scenario func(w *World)
}

// promises returns all promises. The scenario of a promise may rely on earlier promises in the list.
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

// applying returns the promises with a condition that says to which locks they apply.
func applying(applies func(Lock) bool, all []promise) []promise {
	for i := range all {
		all[i].applies = applies
	}
	return all
}

// handle returns a handle that shows which methods the lock has. The methods must not be called,
// because the client is closed.
func (l Lock) handle() Mutex {
	rdb := redis.NewClient(&redis.Options{})
	defer func() { _ = rdb.Close() }()
	return l.New(rdb, "unused", TTL)
}

// Run checks every promise that applies to the lock, each in a subtest. A subtest is a scenario
// with faults, on a Redis in memory, in virtual time. A process that is stopped for longer than the
// ttl loses any lock that expires. Only a fencing token protects against that.
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

// verdict returns why the subtest of Run fails, or "" if it passes.
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
