package lab

import (
	"context"
	"errors"
	"time"

	"oversell/internal/locks"
)

// localLock is a handle on a mutex in the process, which by itself only runs
// sections: the section waits until Unlock.
type localLock struct {
	mutex *locks.Local
	key   string
	life  context.Context

	leave chan struct{}
	left  chan struct{}
}

func newLocalLock(p *Process, key string) locks.Lock {
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
		_, err = l.mutex.Do(ctx, locks.Entry{Key: l.key, Wait: ctx}, func(context.Context) error {
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
