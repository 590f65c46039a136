package lab

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"oversell/internal/guard"
)

// rueidisPrefix keeps the library's keys inside those of the project.
const rueidisPrefix = "oversell:lock"

func rueidisKey(key string) string { return rueidisPrefix + ":0:" + key }

// rueidisLock is rueidislock as its README uses it: one Locker a process,
// WithContext, the returned context for the work, the returned function to
// unlock. One server, so a majority of one. DisableCache, a documented option,
// makes it poll: the embedded Redis has no client tracking, and with one
// behaviour on every server the tables can be compared.
type rueidisLock struct {
	locker rueidislock.Locker
	err    error // why there is no locker
	name   string

	held   context.Context
	cancel context.CancelFunc
}

func newRueidislock(p *Process, key string) guard.Lock {
	locker, err := p.rueidis()
	return &rueidisLock{locker: locker, err: err, name: key}
}

// rueidis returns the process' Locker, made when it is first asked for.
func (p *Process) rueidis() (rueidislock.Locker, error) {
	p.mu.Lock()
	locker := p.locker
	p.mu.Unlock()
	if locker != nil {
		return locker, nil
	}
	s := p.w.server
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		KeyPrefix:    rueidisPrefix,
		KeyValidity:  p.w.TTL,
		KeyMajority:  1,
		TryNextAfter: p.w.TTL / 20, // a try that takes longer fails
		ClientOption: rueidis.ClientOption{
			InitAddress: []string{address},
			DialCtxFn: func(ctx context.Context, _ string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
				return p.dial(ctx)
			},
			Username: s.username, Password: s.password, SelectDB: s.db,
			ForceSingleClient: true,
			DisableCache:      true,
			ClientSetInfo:     rueidis.DisableClientSetInfo,
		},
	})
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.locker = locker
	return locker, nil
}

func (l *rueidisLock) TryLock(ctx context.Context) (bool, error) {
	if l.err != nil {
		return false, l.err
	}
	held, cancel, err := l.locker.TryWithContext(ctx, l.name)
	if errors.Is(err, rueidislock.ErrNotLocked) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	l.held, l.cancel = held, cancel
	return true, nil
}

func (l *rueidisLock) Lock(ctx context.Context) error {
	if l.err != nil {
		return l.err
	}
	held, cancel, err := l.locker.WithContext(ctx, l.name)
	if err != nil {
		return err
	}
	l.held, l.cancel = held, cancel
	return nil
}

// Unlock calls the function that the Locker gave out. It says nothing of what
// became of it.
func (l *rueidisLock) Unlock(context.Context) error {
	if l.cancel == nil {
		return errNothingToUnlock
	}
	l.cancel()
	l.cancel = nil
	return nil
}

var errNothingToUnlock = errors.New("rueidislock: only a holder has a function to unlock with")

// Context returns parent, ended when the Locker ends the hold.
func (l *rueidisLock) Context(parent context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(parent)
	context.AfterFunc(l.held, func() { cancel(context.Cause(l.held)) })
	return ctx
}

// redsyncLock is redsync as its README uses it: one pool, NewMutex for each
// holder, Lock, Unlock. The expiry is the lab's ttl, and the delay between two
// tries that of everybody else; the number of tries is redsync's own. A lease
// that has to last longer is the caller's to extend, which the README does not.
type redsyncLock struct{ *redsync.Mutex }

func newRedsync(p *Process, key string) guard.Lock {
	rs := redsync.New(goredis.NewPool(p.rdb))
	return redsyncLock{rs.NewMutex(key, redsync.WithExpiry(p.w.TTL), redsync.WithRetryDelay(p.w.Delay), redsyncPatience(p.w.TTL))}
}

// redsyncPatience is how long redsync waits for one reply. Its own twentieth
// of the expiry is kept, as long as that is not too short for a busy machine.
func redsyncPatience(ttl time.Duration) redsync.Option {
	if ttl >= 2*time.Second {
		return redsync.OptionFunc(func(*redsync.Mutex) {})
	}
	return redsync.WithTimeoutFactor(0.2)
}

// errRedsyncNotHeld wraps what UnlockContext says of a lock that is gone, or
// another's.
var errRedsyncNotHeld = errors.New("not held")

func (l redsyncLock) TryLock(ctx context.Context) (bool, error) {
	err := l.TryLockContext(ctx)
	var taken *redsync.ErrTaken
	if errors.As(err, &taken) {
		return false, nil
	}
	return err == nil, err
}

func (l redsyncLock) Lock(ctx context.Context) error { return l.LockContext(ctx) }

func (l redsyncLock) Unlock(ctx context.Context) error {
	ok, err := l.UnlockContext(ctx)
	var taken *redsync.ErrTaken
	if errors.As(err, &taken) || errors.Is(err, redsync.ErrLockAlreadyExpired) {
		return fmt.Errorf("%w: %w", errRedsyncNotHeld, err)
	}
	if err == nil && !ok {
		return errors.New("redsync: unlock says false")
	}
	return err
}

// redislockLock is bsm/redislock as its README uses it: Obtain, Release.
// Waiting is its LinearBackoff. A lease that has to last longer is the
// caller's to Refresh, which the README does not do by itself.
type redislockLock struct {
	client *redislock.Client
	key    string
	ttl    time.Duration
	delay  time.Duration

	held *redislock.Lock // what Obtain gave out
}

func newRedislock(p *Process, key string) guard.Lock {
	return &redislockLock{client: redislock.New(p.rdb), key: key, ttl: p.w.TTL, delay: p.w.Delay}
}

func (l *redislockLock) TryLock(ctx context.Context) (bool, error) {
	err := l.obtain(ctx, nil)
	if errors.Is(err, redislock.ErrNotObtained) {
		return false, nil
	}
	return err == nil, err
}

func (l *redislockLock) Lock(ctx context.Context) error {
	return l.obtain(ctx, &redislock.Options{RetryStrategy: redislock.LinearBackoff(l.delay)})
}

func (l *redislockLock) obtain(ctx context.Context, o *redislock.Options) error {
	held, err := l.client.Obtain(ctx, l.key, l.ttl, o)
	if err != nil {
		return err
	}
	l.held = held
	return nil
}

// Unlock releases what Obtain gave out. A nil Lock says that it is not held.
func (l *redislockLock) Unlock(ctx context.Context) error { return l.held.Release(ctx) }

// localLock is a handle on a mutex in the process, which by itself only runs
// sections: the section waits until Unlock.
type localLock struct {
	mutex *guard.Local
	key   string
	life  context.Context

	leave chan struct{}
	left  chan struct{}
}

func newLocalLock(p *Process, key string) guard.Lock {
	return &localLock{mutex: p.mutex, key: key, life: p.life}
}

// errNotTaken is what Unlock says to who has not locked.
var errNotTaken = errors.New("lab: the mutex was not locked by this caller")

// TryLock takes the mutex if it is free. The mutex cannot be asked without
// waiting, so this waits, but not for long.
func (l *localLock) TryLock(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, tryFor)
	defer cancel()
	err := l.Lock(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return false, nil
	}
	return err == nil, err
}

// tryFor is how long a try waits: much less than any ttl.
const tryFor = 2 * time.Millisecond

func (l *localLock) Lock(ctx context.Context) error {
	entered, leave, left := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var err error
	go func() {
		defer close(left)
		_, err = l.mutex.Do(ctx, guard.Entry{Key: l.key}, func(context.Context) error {
			close(entered)
			select {
			case <-leave:
			case <-l.life.Done(): // the mutex dies with its process
			}
			return nil
		})
	}()
	select {
	case <-entered:
		l.leave, l.left = leave, left
		return nil
	case <-left:
		return err
	}
}

func (l *localLock) Unlock(context.Context) error {
	if l.leave == nil {
		return errNotTaken
	}
	close(l.leave)
	<-l.left
	l.leave = nil
	return nil
}
