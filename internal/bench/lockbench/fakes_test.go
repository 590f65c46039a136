package lockbench_test

import (
	"context"
	"errors"
	"os"

	"oversell/internal/guard"
)

// The locks of these tests that do not do their part, beside guard.None.

// deaf lets nobody in, and says nothing.
type deaf struct{}

func (deaf) Do(ctx context.Context, _ guard.Entry, _ func(context.Context) error) (guard.Stats, error) {
	<-ctx.Done()
	return guard.Stats{}, context.Cause(ctx)
}

// rude lets nobody in, and does not come back at the end of the wait.
type rude struct{}

func (rude) Do(context.Context, guard.Entry, func(context.Context) error) (guard.Stats, error) {
	select {}
}

// liar lets nobody in, and says so.
type liar struct{}

func (liar) Do(context.Context, guard.Entry, func(context.Context) error) (guard.Stats, error) {
	return guard.Stats{}, errors.New("no room")
}

// dies ends its process.
type dies struct{}

func (dies) Do(context.Context, guard.Entry, func(context.Context) error) (guard.Stats, error) {
	os.Exit(7)
	return guard.Stats{}, nil
}

var errUnable = errors.New("out of order")
