package lab

import (
	"context"
	"time"

	"oversell/internal/locks"
)

// waiter is a lock that waits in its own way.
type waiter interface {
	Lock(ctx context.Context) error
}

// ownGuard runs sections under a lock that waits in its own way, as
// locks.Distributed does under one that has to be waited for.
type ownGuard struct {
	column Column
	new    func(key string) locks.Lock
}

func (g *ownGuard) Do(ctx context.Context, e locks.Entry, section func(context.Context) error) (locks.Stats, error) {
	lock := g.new(e.Key)
	s := locks.Stats{Attempts: 1}
	start := time.Now()
	err := lock.(waiter).Lock(g.column.withOwner(e.Wait, e.Owner))
	s.Waited = time.Since(start)
	if err != nil {
		return s, err
	}
	defer func() { s.Release = lock.Unlock(g.column.withOwner(ctx, e.Owner)) }()
	work := context.WithoutCancel(ctx)
	if l, ok := lock.(contextual); ok {
		work = l.Context(work)
	}
	return s, section(work)
}
