// Package waitlock is stage 6 with WAIT: a lock counts as acquired once a given number
// of replicas have acknowledged it.
//
// A primary answers before its replicas have the write, so a primary that fails at the
// wrong moment loses the lock. The remedy named most often is WAIT, which returns how
// many replicas have acknowledged the write. Its documentation states the limit: it
// "does not make Redis a strongly consistent store", because a replica without the
// write may still be promoted
// (https://redis.io/docs/latest/commands/wait/, "Consistency and WAIT").
//
// Holds:
//   - everything that stage 6 holds, which this lock wraps
//   - nobody is told that they have the lock before that many replicas have it:
//     TestOneIsSaidByTheBystander, TestTooFewIsAnError,
//     TestReplicaThatStandsStillHasNothing
//   - a lock that too few have is released, and nobody else's is, or the error says
//     why not: TestTooFewIsAnError, TestGivesBackNoOtherLock,
//     TestLostWaitGivesBack, TestFailedGivingBackIsTold
//   - a lock that all replicas have outlives a failover:
//     TestLockThatAllHaveOutlivesAFailover
//
// Breaks:
//   - if it waits for some of the replicas, one of the others may be promoted, and
//     then there are two holders: TestAcknowledgedByTheWrongReplica
//   - if it waits for all of them, nobody gets the lock while a single one is down:
//     TestTooFewIsAnError
//   - only the acquisition is acknowledged. A replica may have missed a release or a
//     renewal
//   - a paused process breaks it as it breaks stage 6
package waitlock

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	v6 "oversell/internal/locks/v6_watchdog"
)

// ErrNotReplicated is what TryLock returns, wrapped, when too few replicas had the
// lock in time. Then the lock has been released, unless the error says why it could not
// be: see TryLock.
var ErrNotReplicated = errors.New("lock: too few replicas have it")

// ErrNotHeld is what Unlock returns when there was nothing to release.
var ErrNotHeld = v6.ErrNotHeld

// errNoOwner is a bug in the calling program, so nobody needs to match it.
var errNoOwner = errors.New("lock: no owner in the context: see WithOwner")

// patience limits how long replicas may take to acknowledge: usually a round trip, and
// more on a busy machine. Nobody else gets the lock meanwhile.
const patience = 200 * time.Millisecond

var (
	//go:embed touch.lua
	touchSource string
	touchScript = redis.NewScript(touchSource)
)

// A Mutex is one holder's handle on the lock: every holder makes its own. It must
// not be used by several goroutines at once. Unlock, Context and Renewals are
// those of stage 6.
type Mutex struct {
	*v6.Mutex

	rdb      redis.UniversalClient
	key      string
	ttl      time.Duration
	replicas int
}

// New returns a handle on the lock stored at key, which counts as acquired once that
// many replicas have it. Its ttl is that of stage 6.
func New(rdb redis.UniversalClient, key string, ttl time.Duration, replicas int) *Mutex {
	return &Mutex{Mutex: v6.New(rdb, key, ttl), rdb: rdb, key: key, ttl: ttl, replicas: replicas}
}

// TryLock acquires the lock as stage 6 does, and waits until the replicas have it, for
// at most a fifth of a second and no longer than a quarter of the ttl. False means that
// it is held by another.
//
// The error wraps ErrNotReplicated when too few replicas had it in time, and also the
// error of Unlock if the lock could not be released. After that, or any other error,
// the outcome is unknown, as in stage 6: the lock may still be held, and then Unlock
// releases it. Nothing renews it.
func (m *Mutex) TryLock(ctx context.Context) (bool, error) {
	owner, _ := ctx.Value(ownerKey{}).(string)
	if owner == "" {
		return false, errNoOwner
	}
	ok, err := m.Mutex.TryLock(ctx)
	if !ok || err != nil {
		return false, err
	}
	held, err := m.replicated(ctx, owner)
	if held && err == nil {
		return true, nil
	}
	// Even if the lock is another's by now: the renewal must end.
	if undone := m.Unlock(ctx); undone != nil && !errors.Is(undone, ErrNotHeld) {
		if err == nil {
			return false, fmt.Errorf("lock: release it: %w", undone)
		}
		return false, fmt.Errorf("%w; release it: %w", err, undone)
	}
	return false, err
}

// replicated waits until enough replicas have the lock. It returns false if the lock
// has expired, or is another's by now.
//
// WAIT covers only writes made through its own connection. So it is sent with a write,
// which comes after the lock's in the replication stream: a replica that has this write
// has the lock too.
func (m *Mutex) replicated(ctx context.Context, owner string) (held bool, err error) {
	rdb, err := m.primary(ctx)
	if err != nil {
		return false, fmt.Errorf("lock: find its primary: %w", err)
	}
	var touched, waited *redis.Cmd
	_, err = rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		touched = touchScript.Eval(ctx, p, []string{m.key}, owner, m.ttl.Milliseconds())
		waited = p.Do(ctx, "WAIT", m.replicas, m.patience().Milliseconds())
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("lock: wait for the replicas: %w", err)
	}
	if mine, err := touched.Int(); mine == 0 || err != nil {
		return false, err
	}
	had, err := waited.Int()
	if err != nil {
		return false, err
	}
	if had < m.replicas {
		return false, fmt.Errorf("%w: %d of %d", ErrNotReplicated, had, m.replicas)
	}
	return true, nil
}

// patience returns how long to wait, at least 1 ms: WAIT takes 0 to mean for ever.
func (m *Mutex) patience() time.Duration {
	return max(time.Millisecond, min(patience, m.ttl/4))
}

// primary returns the client of the server that has the lock: in a cluster WAIT, which
// has no key, would go to any node.
func (m *Mutex) primary(ctx context.Context) (redis.UniversalClient, error) {
	if cluster, ok := m.rdb.(interface {
		MasterForKey(ctx context.Context, key string) (*redis.Client, error)
	}); ok {
		return cluster.MasterForKey(ctx, m.key)
	}
	return m.rdb, nil
}

// ownerKey is the type of the context key, so that no other package can set it.
type ownerKey struct{}

// WithOwner returns a copy of ctx that acquires and releases locks as owner, as in
// stage 6.
func WithOwner(ctx context.Context, owner string) context.Context {
	return context.WithValue(v6.WithOwner(ctx, owner), ownerKey{}, owner)
}
