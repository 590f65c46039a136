package lockbench_test

import (
	"context"
	"errors"
	"os"

	"oversell/internal/locks"
)

// The locks of these tests that do not do their part, beside locks.None.

// deaf lets nobody in, and says nothing.
type deaf struct{}

func (deaf) Do(_ context.Context, e locks.Entry, _ func(context.Context) error) (locks.Stats, error) {
	<-e.Wait.Done()
	return locks.Stats{}, context.Cause(e.Wait)
}

// rude lets nobody in, and does not come back at the end of the wait.
type rude struct{}

func (rude) Do(context.Context, locks.Entry, func(context.Context) error) (locks.Stats, error) {
	select {}
}

// liar lets nobody in, and says so.
type liar struct{}

func (liar) Do(context.Context, locks.Entry, func(context.Context) error) (locks.Stats, error) {
	return locks.Stats{}, errors.New("no room")
}

// dies ends its process.
type dies struct{}

func (dies) Do(context.Context, locks.Entry, func(context.Context) error) (locks.Stats, error) {
	os.Exit(7)
	return locks.Stats{}, nil
}

var errUnable = errors.New("out of order")
