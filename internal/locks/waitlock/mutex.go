// Package waitlock is stage 6 with WAIT: a lock counts as taken once so many
// replicas have acknowledged it.
//
// A primary answers before its replicas have heard, so that a lock is lost with a
// primary that fails at the wrong moment. WAIT asks how many replicas have heard
// by now, which is the remedy that is named most often. Its documentation says
// what it is not: it "does not make Redis a strongly consistent store", for a
// replica that has not heard may be promoted all the same
// (https://redis.io/docs/latest/commands/wait/, "Consistency and WAIT").
//
// Holds:
//   - all that stage 6 holds, of which this is a wrapping
//   - nobody is told that he has the lock before that many replicas have it:
//     TestOneIsSaidByTheBystander, TestTooFewIsAnError,
//     TestReplicaThatStandsStillHasNothing
//   - a lock that too few have is given back, and nobody else's, or the error says
//     why not: TestTooFewIsAnError, TestGivesBackNoOtherLock,
//     TestLostWaitGivesBack, TestFailedGivingBackIsTold
//   - a lock that all replicas have outlives a failover:
//     TestLockThatAllHaveOutlivesAFailover
//
// Breaks:
//   - some of the replicas are not all: who is promoted may be one of the others,
//     and then there are two holders: TestAcknowledgedByTheWrongReplica
//   - all of the replicas are too many: while a single one is away nobody has the
//     lock: TestTooFewIsAnError
//   - what is acknowledged is the taking. That the lock was given back, or
//     renewed, the replica may not have heard
//   - what stage 6 breaks under a paused process
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
// lock in time. It has been given back then, unless the error says why it could not
// be: see TryLock.
var ErrNotReplicated = errors.New("lock: too few replicas have it")

// ErrNotHeld is what Unlock returns when there was nothing to give back.
var ErrNotHeld = v6.ErrNotHeld

// errNoOwner is a slip of the program, not something to wait out or to match.
var errNoOwner = errors.New("lock: no owner in the context: see WithOwner")

// patience is how long replicas have time to acknowledge, at most: they take about
// as long as a round trip, and a busy machine more. Nobody else is let in meanwhile.
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

// New returns a handle on the lock that lives at key, and is not taken before so
// many replicas have it. Its ttl is that of stage 6.
func New(rdb redis.UniversalClient, key string, ttl time.Duration, replicas int) *Mutex {
	return &Mutex{Mutex: v6.New(rdb, key, ttl), rdb: rdb, key: key, ttl: ttl, replicas: replicas}
}

// TryLock takes the lock as stage 6 does, and waits until the replicas have it,
// for a fifth of a second at most, and no longer than a quarter of the ttl. False
// means that it is held by another.
//
// The error wraps ErrNotReplicated when too few of them had it in time, and the
// error of Unlock too where the lock could not be given back. After that, or any
// other error, nothing is known, as in stage 6: the lock may still be there, and
// Unlock gives it back then. Nothing renews it.
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
	// Also of a lock that is another's by now: the renewal has to end.
	if undone := m.Unlock(ctx); undone != nil && !errors.Is(undone, ErrNotHeld) {
		if err == nil {
			return false, fmt.Errorf("lock: give it back: %w", undone)
		}
		return false, fmt.Errorf("%w; give it back: %w", err, undone)
	}
	return false, err
}

// replicated waits until enough replicas have the lock. It returns false where the
// lock is another's by now, or nobody's.
//
// WAIT is about what was written through its own connection. So it comes with a
// write, which is behind the taking of the lock in the one stream that all
// replicas read: who has the one has the other.
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

// patience is how long to wait, in whole milliseconds: none would mean for ever.
func (m *Mutex) patience() time.Duration {
	return max(time.Millisecond, min(patience, m.ttl/4))
}

// primary returns the client of the server that has the lock: in a cluster a WAIT,
// which has no key, would go to any.
func (m *Mutex) primary(ctx context.Context) (redis.UniversalClient, error) {
	if cluster, ok := m.rdb.(interface {
		MasterForKey(ctx context.Context, key string) (*redis.Client, error)
	}); ok {
		return cluster.MasterForKey(ctx, m.key)
	}
	return m.rdb, nil
}

// ownerKey is the type of the context key, so that no other package has it.
type ownerKey struct{}

// WithOwner returns a copy of ctx that takes and gives back locks as owner, who is
// told apart as in stage 6.
func WithOwner(ctx context.Context, owner string) context.Context {
	return context.WithValue(v6.WithOwner(ctx, owner), ownerKey{}, owner)
}
