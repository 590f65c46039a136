package locktest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	lock "oversell/internal/locks/v8_fenced"
)

// changed returns the lock of stage 8, with change applied to each handle.
func changed(change func(m *lock.Mutex, rdb redis.UniversalClient) Mutex) Lock {
	return Lock{
		NotHeld: lock.ErrNotHeld, Lost: lock.ErrLost, WithOwner: lock.WithOwner,
		New: func(rdb redis.UniversalClient, key string, ttl time.Duration) Mutex {
			return change(lock.New(rdb, key, ttl), rdb)
		},
	}
}

// constant gives every holder the same token.
type constant struct{ *lock.Mutex }

func (constant) Token() int64 { return 7 }

// trusting waits for some time, and then behaves as if it had the lock.
type trusting struct {
	*lock.Mutex

	tired time.Duration
}

func (m trusting) Lock(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(m.tired):
		return nil
	}
}

// polling waits for the lock by calling TryLock at an interval.
type polling struct {
	*lock.Mutex

	every time.Duration
}

func (m polling) Lock(ctx context.Context) error {
	for {
		if ok, err := m.TryLock(ctx); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(m.every):
		}
	}
}

// lent is a lock that, once a caller has it, all other callers of the same process get too.
type lent struct {
	*lock.Mutex

	process redis.UniversalClient
	holds   *sync.Map // the number of callers that have the lock, by process
}

func (m lent) TryLock(ctx context.Context) (bool, error) {
	if n, ok := m.holds.Load(m.process); ok {
		m.holds.Store(m.process, n.(int)+1)
		return true, nil
	}
	ok, err := m.Mutex.TryLock(ctx)
	if ok && err == nil {
		m.holds.Store(m.process, 1)
	}
	return ok, err
}

func (m lent) Unlock(ctx context.Context) error {
	if n, ok := m.holds.Load(m.process); ok && n.(int) > 1 {
		m.holds.Store(m.process, n.(int)-1)
		return nil
	}
	m.holds.Delete(m.process)
	return m.Mutex.Unlock(ctx)
}

// The second and the third of these promises find the mistakes of the broken locks, and the first does
// not. Polling at another interval than a stage does is not a mistake. A lock whose list Breaks is wrong
// fails too.
func TestBrokenLocksBreakTheirPromise(t *testing.T) {
	const (
		exclusive = "one holder at a time"
		together  = "holders of one process exclude each other, and their tokens grow"
		waits     = "Lock waits until the holder releases the lock, and returns soon after"
	)
	type client = redis.UniversalClient
	var holds sync.Map
	for name, test := range map[string]struct {
		change func(m *lock.Mutex, rdb client) Mutex
		breaks []string
	}{
		"unchanged":      {func(m *lock.Mutex, _ client) Mutex { return m }, nil},
		"the same token": {func(m *lock.Mutex, _ client) Mutex { return constant{m} }, []string{together}},
		"lent within":    {func(m *lock.Mutex, rdb client) Mutex { return lent{m, rdb, &holds} }, []string{together}},
		"waits a little": {func(m *lock.Mutex, _ client) Mutex { return trusting{m, TTL / 30} },
			[]string{together, waits}},
		"enters anyway": {func(m *lock.Mutex, _ client) Mutex { return trusting{m, TTL * 3 / 5} },
			[]string{together, waits}},
		"waits forever": {func(m *lock.Mutex, _ client) Mutex { return trusting{m, 100 * TTL} },
			[]string{together, waits}},
		"asks seldom": {func(m *lock.Mutex, _ client) Mutex { return polling{m, 2 * TTL} },
			[]string{together, waits}},
		"asks often": {func(m *lock.Mutex, _ client) Mutex { return polling{m, TTL / 10} }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			for _, p := range promises() {
				if !slices.Contains([]string{exclusive, together, waits}, p.name) {
					continue
				}
				lock := changed(test.change)
				listed := slices.Contains(test.breaks, p.name)
				if failure := p.verdict(t, lock); (failure != "") != listed {
					t.Errorf("%s: %q, want a failure: %v", p.name, failure, listed)
				}
				lock.Breaks = []string{p.name}
				if failure := p.verdict(t, lock); (failure == "") != listed {
					t.Errorf("%s, listed as broken: %q, want a failure: %v", p.name, failure, !listed)
				}
			}
		})
	}
}

// fake is a lock whose methods always return the same results.
type fake struct{ err error }

var errFake = errors.New("no lock today")

func (f fake) TryLock(context.Context) (bool, error) { return f.err == nil, f.err }
func (f fake) Unlock(context.Context) error          { return f.err }

// kept is a lock that is never released.
type kept struct{ *lock.Mutex }

func (kept) Unlock(context.Context) error { return lock.ErrNotHeld }

// play reports an implementation that does not lock at all, or never unlocks.
func TestNoLockKeepsNoPromise(t *testing.T) {
	for name, m := range map[string]func(m *lock.Mutex, _ redis.UniversalClient) Mutex{
		"always grants":  func(*lock.Mutex, redis.UniversalClient) Mutex { return fake{} },
		"always fails":   func(*lock.Mutex, redis.UniversalClient) Mutex { return fake{errFake} },
		"never released": func(m *lock.Mutex, _ redis.UniversalClient) Mutex { return kept{m} },
	} {
		if broken, err := play(t, changed(m), func(*World) {}); broken == "" && err == nil {
			t.Errorf("a lock that is %s counts as a lock", name)
		}
	}
}
