package lockbench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"oversell/internal/locks"
)

// rueidislocks are rueidislock on one server, used as its README does: one
// Locker a process, WithContext, and the function that it returns to unlock.
// The counter goes through go-redis, as everybody's.
func rueidislocks() Catalog {
	return Catalog{
		{
			Name:  "rueidislock",
			Waits: "asks when it is told of a change",
			About: "every default: client-side caching, a lease of 5 s, 20 ms for a try; and KeyMajority 1, " +
				"which its README wants where there is one server.",
			Tracking: true,
			Make:     madeOfRueidislock(rueidislock.LockerOption{}),
		},
		{
			Name:  "rueidislock:best",
			Waits: "asks when it is told of a change",
			About: "TryNextAfter as long as the lease: of the tries of thousands that set out together many take " +
				"longer than its 20 ms, fail, and are sent again, until nobody gets in at all. NoLoopTracking, " +
				"which its README recommends from Redis 7.0.5 on: three commands less a deduct.",
			Tracking: true,
			Make:     madeOfRueidislock(rueidislock.LockerOption{TryNextAfter: 5 * time.Second, NoLoopTracking: true}),
		},
	}
}

func madeOfRueidislock(o rueidislock.LockerOption) func(Process) (locks.Guard, error) {
	return func(p Process) (locks.Guard, error) {
		client, err := rueidisOptions(p.Redis)
		if err != nil {
			return nil, err
		}
		client.DisableCache = o.ClientOption.DisableCache
		o.ClientOption = client
		o.KeyPrefix, o.KeyMajority = p.Key, 1
		locker, err := rueidislock.NewLocker(o)
		if err != nil {
			return nil, fmt.Errorf("rueidislock: %w", err)
		}
		return &rueidisGuard{
			Distributed: locks.Distributed{
				New:    func(string) locks.Lock { return &rueidisLock{locker: locker} },
				Policy: locks.Blocking{},
			},
			locker: locker,
		}, nil
	}
}

// rueidisOptions has rueidis go where the go-redis client goes.
func rueidisOptions(rdb redis.UniversalClient) (rueidis.ClientOption, error) {
	switch c := rdb.(type) {
	case *redis.Client:
		o := c.Options()
		if o.Addr == "FailoverClient" { // its addresses are the sentinels' business
			break
		}
		return rueidis.ClientOption{
			InitAddress: []string{o.Addr}, ForceSingleClient: true,
			Username: o.Username, Password: o.Password, SelectDB: o.DB, TLSConfig: o.TLSConfig,
		}, nil
	case *redis.ClusterClient:
		o := c.Options()
		return rueidis.ClientOption{
			InitAddress: o.Addrs,
			Username:    o.Username, Password: o.Password, TLSConfig: o.TLSConfig,
		}, nil
	}
	return rueidis.ClientOption{}, errors.New("rueidislock: only one server and a cluster are measured, no sentinels")
}

// rueidisGuard is the guard of a process' Locker.
type rueidisGuard struct {
	locks.Distributed
	locker rueidislock.Locker
}

// Close implements io.Closer.
func (g *rueidisGuard) Close() error {
	g.locker.Close()
	return nil
}

// rueidisName is the name of the lock within the Locker's prefix.
const rueidisName = "lock"

// rueidisLock has a Locker wait in its own way.
type rueidisLock struct {
	locker rueidislock.Locker

	held   context.Context
	cancel context.CancelFunc
}

func (l *rueidisLock) TryLock(ctx context.Context) (ok bool, err error) {
	l.held, l.cancel, err = l.locker.TryWithContext(ctx, rueidisName)
	if errors.Is(err, rueidislock.ErrNotLocked) {
		return false, nil
	}
	return err == nil, err
}

// Lock gives the Locker a context that ends with the wait and not with the
// hold: of a context with a deadline it would make the end of the lease, too.
func (l *rueidisLock) Lock(wait context.Context) (err error) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(wait))
	stop := context.AfterFunc(wait, func() { cancel(context.Cause(wait)) })
	l.held, l.cancel, err = l.locker.WithContext(ctx, rueidisName)
	if err != nil {
		cancel(err)
		return err
	}
	stop()
	unlock := l.cancel
	l.cancel = func() {
		unlock()
		cancel(context.Canceled)
	}
	return nil
}

// Unlock calls the function that the Locker gave out. It says nothing of what
// became of it.
func (l *rueidisLock) Unlock(context.Context) error {
	l.cancel()
	return nil
}

// Context returns parent, ended when the Locker ends the hold.
func (l *rueidisLock) Context(parent context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(parent)
	context.AfterFunc(l.held, func() { cancel(context.Cause(l.held)) })
	return ctx
}
