package locks

import (
	"context"
	"time"
)

// None guards nothing: every section runs at once.
type None struct{}

// Do runs section.
func (None) Do(ctx context.Context, _ Entry, section func(context.Context) error) (Stats, error) {
	start := time.Now()
	err := section(context.WithoutCancel(ctx))
	return Stats{Attempts: 1, Held: time.Since(start)}, err
}

// Local is a mutex for each key in this process: what is safe as long as there
// is one process. The zero value is ready.
type Local struct{ line turnstile }

// Do runs section when no other section of this process for e.Key runs.
func (l *Local) Do(ctx context.Context, e Entry, section func(context.Context) error) (Stats, error) {
	start := time.Now()
	g := l.line.at(e.Key)
	defer l.line.leave(e.Key, g)
	err := g.enter(e.Wait)
	s := Stats{Attempts: 1, Waited: time.Since(start)}
	if err != nil {
		return s, err
	}
	defer g.exit()
	entered := time.Now()
	err = section(context.WithoutCancel(ctx))
	s.Held = time.Since(entered)
	return s, err
}
