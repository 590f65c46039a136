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

// Local is a mutex for each key in this process. The zero value is ready; it is safe only
// with one process.
type Local struct {
	Inner Guard // also guards the sections, for example among processes; nil: nothing else does
	Mutex keymutex.Mutex
}

// Do waits until no other section of this process runs for e.Key, and runs section.
func (l *Local) Do(ctx context.Context, e Entry, section func(context.Context) error) (Stats, error) {
	start := time.Now()
	hold, err := l.Mutex.Lock(ctx, e.Key)
	waited := time.Since(start)
	if err != nil {
		return Stats{Attempts: 1, Waited: waited}, err
	}
	defer hold.Unlock()
	inner := l.Inner
	if inner == nil {
		inner = None{}
	}
	s, err := inner.Do(ctx, e, section)
	s.Waited += waited
	return s, err
}
