package waitlock

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"oversell/internal/backend/backendtest"
	"oversell/internal/backend/local"
	"oversell/internal/locks/locktest"
)

// ttl is so long that no renewal is due before even a slow failover has ended.
const ttl = 10 * time.Minute

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func as(t *testing.T, owner string) context.Context { return WithOwner(t.Context(), owner) }

// mustLock acquires a free lock. On a busy machine it may take some attempts until
// the replicas acknowledge in time.
func mustLock(t *testing.T, owner string, m *Mutex) {
	t.Helper()
	if !retry(t, owner, m, func(err error) bool { return errors.Is(err, ErrNotReplicated) }) {
		t.Fatal("TryLock = false of a lock that is free")
	}
}

// retry calls TryLock until it succeeds or returns an error for which passes is
// false.
func retry(t *testing.T, owner string, m *Mutex, passes func(error) bool) bool {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		ok, err := m.TryLock(as(t, owner))
		if err == nil {
			return ok
		}
		if !passes(err) || time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

func unlock(t *testing.T, owner string, m *Mutex) {
	t.Helper()
	if err := m.Unlock(as(t, owner)); err != nil {
		t.Error("Unlock:", err)
	}
}

// startSet runs a primary with an heir and a bystander, and three sentinels.
func startSet(t *testing.T) (*local.Sentinels, redis.UniversalClient) {
	t.Helper()
	s := backendtest.Failovers(t)
	return s, backendtest.DialRedis(t, s.URL())
}

// cut keeps all further writes from the heir.
func cut(t *testing.T, s *local.Sentinels) {
	t.Helper()
	if _, err := s.Cut(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func failOver(t *testing.T, s *local.Sentinels) {
	t.Helper()
	if err := s.Failover(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// settled calls TryLock until it returns no error: right after a failover, the
// client or the bystander may not have noticed it yet.
func settled(t *testing.T, owner string, m *Mutex) bool {
	t.Helper()
	return retry(t, owner, m, func(error) bool { return true })
}

func TestOneIsSaidByTheBystander(t *testing.T) {
	t.Parallel()
	s, rdb := startSet(t)
	cut(t, s)
	m := New(rdb, locktest.Key(t), ttl, 1)
	mustLock(t, "a", m)
	if m.Context(t.Context()).Err() != nil {
		t.Error("the hold is lost")
	}
	unlock(t, "a", m)
}

func TestTooFewIsAnError(t *testing.T) {
	t.Parallel()
	s, rdb := startSet(t)
	key := locktest.Key(t)
	all := New(rdb, key, ttl, 2)
	mustLock(t, "a", all)
	unlock(t, "a", all)

	cut(t, s)
	if ok, err := all.TryLock(as(t, "a")); ok || !errors.Is(err, ErrNotReplicated) {
		t.Errorf("TryLock = %v, %v; want false, %v", ok, err, ErrNotReplicated)
	}
	if rdb.Exists(t.Context(), key).Val() != 0 {
		t.Error("the lock is left behind")
	}
	one := New(rdb, key, ttl, 1)
	mustLock(t, "b", one)
	if ok, err := all.TryLock(as(t, "a")); ok || err != nil {
		t.Errorf("TryLock = %v, %v of a lock that is held; want false", ok, err)
	}
	unlock(t, "b", one)
}

// A flaw: one replica has acknowledged, and the other one is promoted.
func TestAcknowledgedByTheWrongReplica(t *testing.T) {
	t.Parallel()
	s, rdb := startSet(t)
	key := locktest.Key(t)
	a, b := New(rdb, key, ttl, 1), New(rdb, key, ttl, 1)
	cut(t, s)
	mustLock(t, "a", a)
	held := a.Context(t.Context())
	failOver(t, s)
	if !settled(t, "b", b) {
		t.Error("the lock outlives the failover")
	}
	if held.Err() != nil {
		t.Error("the first holder was told before the second came in:", context.Cause(held))
	}
	unlock(t, "b", b)
	if err := a.Unlock(as(t, "a")); !errors.Is(err, ErrNotHeld) {
		t.Errorf("the first holder's Unlock = %v; want %v", err, ErrNotHeld)
	}
}

func TestLockThatAllHaveOutlivesAFailover(t *testing.T) {
	t.Parallel()
	s, rdb := startSet(t)
	key := locktest.Key(t)
	a, b := New(rdb, key, ttl, 2), New(rdb, key, ttl, 1)
	mustLock(t, "a", a)
	failOver(t, s)
	if settled(t, "b", b) {
		t.Error("a second holder is let in")
	}
	unlock(t, "a", a)
	if !settled(t, "b", b) {
		t.Error("the lock is not free after Unlock")
	}
	unlock(t, "b", b)
}

// Between TryLock's write and its release, the lock becomes another holder's.
func TestGivesBackNoOtherLock(t *testing.T) {
	tests := map[string]struct {
		when func(lose func(), send func() error) error
		want error
	}{
		"before WAIT": {func(lose func(), send func() error) error { lose(); return send() }, nil},
		"after WAIT":  {func(lose func(), send func() error) error { err := send(); lose(); return err }, ErrNotReplicated},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := locktest.Start(t)
			key := locktest.Key(t)
			next := New(s.Client, key, ttl, 0)
			lose := func() {
				s.Del(key)
				mustLock(t, "b", next)
			}
			s.Hook.On(locktest.Command("wait"), 1, func(_ context.Context, send func() error) error {
				return test.when(lose, send)
			})
			if ok, err := New(s.Client, key, ttl, 1).TryLock(as(t, "a")); ok || !errors.Is(err, test.want) {
				t.Errorf("TryLock = %v, %v; want false, %v", ok, err, test.want)
			}
			unlock(t, "b", next)
		})
	}
}

func TestLostWaitGivesBack(t *testing.T) {
	for name, fault := range map[string]locktest.Action{
		"never sent": locktest.Fail(locktest.ErrCut),
		"lost reply": locktest.LoseReply(locktest.ErrCut),
	} {
		t.Run(name, func(t *testing.T) {
			s := locktest.Start(t)
			key := locktest.Key(t)
			s.Hook.On(locktest.Command("wait"), 1, fault)
			if ok, err := New(s.Client, key, ttl, 0).TryLock(as(t, "a")); ok || !errors.Is(err, locktest.ErrCut) {
				t.Errorf("TryLock = %v, %v; want false, %v", ok, err, locktest.ErrCut)
			}
			if s.Exists(key) {
				t.Error("the lock is left behind")
			}
		})
	}
}

// The release after a failed WAIT fails as well, whatever WAIT has shown.
func TestFailedGivingBackIsTold(t *testing.T) {
	for name, lost := range map[string]bool{"too few have it": false, "it is another's": true} {
		t.Run(name, func(t *testing.T) {
			s := locktest.Start(t)
			key := locktest.Key(t)
			s.Hook.On(locktest.Command("wait"), 1, func(_ context.Context, send func() error) error {
				if lost {
					s.Del(key)
				}
				err := send()
				s.Hook.On(locktest.Any, 1, locktest.Fail(locktest.ErrCut))
				return err
			})
			m := New(s.Client, key, ttl, 1)
			ok, err := m.TryLock(as(t, "a"))
			if ok || !errors.Is(err, locktest.ErrCut) || errors.Is(err, ErrNotReplicated) == lost {
				t.Errorf("TryLock = %v, %v; want what kept it from giving the lock back", ok, err)
			}
			if s.Exists(key) == lost {
				t.Errorf("the lock is there: %v", !lost)
			}
			if err := m.Unlock(as(t, "a")); errors.Is(err, ErrNotHeld) != lost || err != nil && !lost {
				t.Errorf("Unlock = %v", err)
			}
			if s.Exists(key) {
				t.Error("Unlock does not give it back")
			}
		})
	}
}

func TestReentryThatTooFewHaveLeavesTheOuterHold(t *testing.T) {
	s := locktest.Start(t)
	key := locktest.Key(t)
	outer, inner := New(s.Client, key, ttl, 0), New(s.Client, key, ttl, 1)
	mustLock(t, "a", outer)
	if _, err := inner.TryLock(as(t, "a")); !errors.Is(err, ErrNotReplicated) {
		t.Errorf("TryLock: %v; want %v", err, ErrNotReplicated)
	}
	if !s.Exists(key) {
		t.Error("the outer hold is gone")
	}
	unlock(t, "a", outer)
}

// cluster is a client that knows which node has a key.
type cluster struct {
	redis.UniversalClient
	node *redis.Client
}

func (c cluster) MasterForKey(context.Context, string) (*redis.Client, error) { return c.node, nil }

func TestClusterIsAskedWhereTheKeyIs(t *testing.T) {
	s := locktest.Start(t)
	node, hook := s.NewClient()
	defer node.Close()
	anywhere, there := s.Hook.Count(locktest.Command("wait")), hook.Count(locktest.Command("wait"))
	m := New(cluster{s.Client, node}, locktest.Key(t), ttl, 0)
	mustLock(t, "a", m)
	unlock(t, "a", m)
	if anywhere.Hits() != 0 || there.Hits() != 1 {
		t.Errorf("WAIT was sent %d times to any node, %d times to that of the key; want 0 and 1", anywhere.Hits(), there.Hits())
	}
}

func TestNoOwner(t *testing.T) {
	s := locktest.Start(t)
	key := locktest.Key(t)
	if ok, err := New(s.Client, key, ttl, 0).TryLock(t.Context()); ok || !errors.Is(err, errNoOwner) || s.Exists(key) {
		t.Errorf("TryLock = %v, %v; want false, %v", ok, err, errNoOwner)
	}
}
