package lab

import (
	"context"
	"crypto/tls"
	"errors"
	"net"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"oversell/internal/locks"
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

func newRueidislock(p *Process, key string) locks.Lock {
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
