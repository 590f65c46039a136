package stages_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"oversell/internal/locks/locktest/promises"
	"oversell/internal/locks/locktest/stages"
)

// changed is a stage with one thing changed.
func changed(t *testing.T, name string, change func(m waiter, rdb redis.UniversalClient) promises.Lock) promises.Subject {
	t.Helper()
	all := stages.All()
	i := slices.IndexFunc(all, func(s promises.Subject) bool { return s.Name == name })
	if i < 0 {
		t.Fatalf("there is no stage %s", name)
	}
	stage := all[i]
	whole := stage.New
	stage.New = func(rdb redis.UniversalClient, key string, ttl time.Duration) promises.Lock {
		return change(whole(rdb, key, ttl).(waiter), rdb)
	}
	return stage
}

// waiter is what the stages from v8 on have.
type waiter interface {
	promises.Lock
	Lock(ctx context.Context) error
	Token() int64
}

// constant has the same token for every holder, and falling smaller and smaller ones.
type (
	constant struct{ waiter }
	falling  struct{ waiter }
)

func (constant) Token() int64  { return 7 }
func (f falling) Token() int64 { return -f.waiter.Token() }

// impatient does not wait.
type impatient struct{ waiter }

func (m impatient) Lock(ctx context.Context) error {
	if ok, err := m.TryLock(ctx); ok || err != nil {
		return err
	}
	return errFake
}

// trusting waits for a while, and then believes that it has the lock.
type trusting struct {
	waiter
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

// polling asks for the lock at an interval.
type polling struct {
	waiter
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

// lent is a lock that belongs to a process: every caller of that process gets it, too.
type lent struct {
	waiter
	process redis.UniversalClient
	holds   *sync.Map // the number of holders, by process
}

func (m lent) TryLock(ctx context.Context) (bool, error) {
	if n, ok := m.holds.Load(m.process); ok {
		m.holds.Store(m.process, n.(int)+1)
		return true, nil
	}
	ok, err := m.waiter.TryLock(ctx)
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
	return m.waiter.Unlock(ctx)
}

const ttl = 3 * time.Second

// The promises about waiting find the mistakes that they are there for, and "exclusive" does
// not. A waiter that is slower or faster than a stage's is no mistake.
func TestBrokenWaitersBreakTheirPromise(t *testing.T) {
	type change = func(m waiter, rdb redis.UniversalClient) promises.Lock
	var holds sync.Map
	for name, test := range map[string]struct {
		change change
		breaks []string
	}{
		"unchanged":            {func(m waiter, _ redis.UniversalClient) promises.Lock { return m }, nil},
		"the same token":       {func(m waiter, _ redis.UniversalClient) promises.Lock { return constant{m} }, []string{"together"}},
		"falling tokens":       {func(m waiter, _ redis.UniversalClient) promises.Lock { return falling{m} }, []string{"together"}},
		"lent within":          {func(m waiter, rdb redis.UniversalClient) promises.Lock { return lent{m, rdb, &holds} }, []string{"together"}},
		"no waiting":           {func(m waiter, _ redis.UniversalClient) promises.Lock { return impatient{m} }, []string{"together", "waits"}},
		"waits a little":       {func(m waiter, _ redis.UniversalClient) promises.Lock { return trusting{m, ttl / 30} }, []string{"together", "waits"}},
		"enters after all":     {func(m waiter, _ redis.UniversalClient) promises.Lock { return trusting{m, ttl * 3 / 5} }, []string{"together", "waits"}},
		"waits for ever":       {func(m waiter, _ redis.UniversalClient) promises.Lock { return trusting{m, 100 * ttl} }, []string{"together", "waits"}},
		"asks once in a ttl":   {func(m waiter, _ redis.UniversalClient) promises.Lock { return polling{m, ttl} }, []string{"together", "waits"}},
		"asks ten times a ttl": {func(m waiter, _ redis.UniversalClient) promises.Lock { return polling{m, ttl / 10} }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			subject := changed(t, "v8_fenced", test.change)
			for _, p := range promises.All() {
				if p.Name != "exclusive" && p.Name != "together" && p.Name != "waits" {
					continue
				}
				if failure := p.Verdict(t, subject, slices.Contains(test.breaks, p.Name)); failure != "" {
					t.Errorf("%s: %s", p.Name, failure)
				}
			}
		})
	}
}

// sleeper is a lock whose renewal sleeps for a third of the ttl, and notices only then that the
// lock was released.
type sleeper struct {
	promises.Lock
	rdb  redis.UniversalClient
	key  string
	stop chan struct{}
}

func (m *sleeper) TryLock(ctx context.Context) (bool, error) {
	ok, err := m.Lock.TryLock(ctx)
	if ok && err == nil {
		m.stop = make(chan struct{})
		go m.renew(m.stop)
	}
	return ok, err
}

func (m *sleeper) renew(stop <-chan struct{}) {
	for {
		time.Sleep(ttl / 3)
		select {
		case <-stop:
			return
		default:
		}
		ctx, cancel := context.WithTimeout(context.Background(), ttl/4)
		_ = m.rdb.PExpire(ctx, m.key, ttl).Err()
		cancel()
	}
}

func (m *sleeper) Unlock(ctx context.Context) error {
	if m.stop != nil {
		close(m.stop)
		m.stop = nil
	}
	return m.Lock.Unlock(ctx)
}

// A renewal may end a third of the ttl after its lock was released. Each scenario waits for it;
// otherwise synctest panics, as it does for a goroutine that never ends.
func TestScenariosWaitForRenewals(t *testing.T) {
	subject := stages.All()[3] // v4_lua does not renew
	whole := subject.New
	subject.New = func(rdb redis.UniversalClient, key string, ttl time.Duration) promises.Lock {
		return &sleeper{Lock: whole(rdb, key, ttl), rdb: rdb, key: key}
	}
	for _, p := range promises.All() {
		synctest.Test(t, func(t *testing.T) {
			broken, err := p.Check(t.Context(), subject, ttl)
			if err != nil || p.Name == "slow" && broken != "" {
				t.Errorf("%s: %s, %v", p.Name, broken, err)
			}
		})
	}
}
