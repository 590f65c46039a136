package guard

import (
	"context"
	"time"

	"oversell/internal/guard/keymutex"
)

// None guards nothing: all sections run at the same time.
type None struct{}

// Do runs section.
func (None) Do(ctx context.Context, _ Entry, section func(context.Context) error) (Stats, error) {
	start := time.Now()
	err := section(context.WithoutCancel(ctx)) // the end of ctx ends the waiting only, see Guard
	return Stats{Attempts: 1, Held: time.Since(start)}, err
}

// Local is a mutex for each key in this process, so it is safe only with one process. The
// zero value is ready.
type Local struct{ mutex keymutex.Mutex }

// Do waits until no other section of this process runs for e.Key, and runs section.
func (l *Local) Do(ctx context.Context, e Entry, section func(context.Context) error) (Stats, error) {
	start := time.Now()
	hold, err := l.mutex.Lock(ctx, e.Key)
	s := Stats{Attempts: 1, Waited: time.Since(start)}
	if err != nil {
		return s, err
	}
	defer hold.Unlock()
	entered := time.Now()
	err = section(context.WithoutCancel(ctx)) // the end of ctx ends the waiting only, see Guard
	s.Held = time.Since(entered)
	return s, err
}
