package thirdparty

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// scripted is a lock with given results of Extend.
type scripted struct {
	extend func(ctx context.Context) error
}

func (scripted) TryLock(context.Context) (bool, error) { return true, nil }
func (scripted) Lock(context.Context) error            { return nil }
func (scripted) Unlock(context.Context) error          { return nil }
func (s scripted) Extend(ctx context.Context) error    { return s.extend(ctx) }

func TestExtendedTellsOfALoss(t *testing.T) {
	const ttl = 3 * time.Second
	calls := 0
	for name, c := range map[string]struct {
		extend func(ctx context.Context) error
		lost   bool // within the ttl
	}{
		"no reply":    {func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, true},
		"only errors": {func(context.Context) error { return errors.New("Redis is away") }, true},
		"another's":   {func(context.Context) error { return ErrNotHeld }, true},
		"an error in between": {func(context.Context) error {
			if calls++; calls%2 == 1 {
				return errors.New("Redis is away")
			}
			return nil
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := Extend(scripted{c.extend}, ttl, t.Context())
				if ok, err := e.TryLock(t.Context()); !ok || err != nil {
					t.Fatal(ok, err)
				}
				inside := e.Context(t.Context())
				limit := 5 * ttl
				if c.lost {
					limit = ttl - time.Millisecond
				}
				time.Sleep(limit)
				synctest.Wait()
				if got := errors.Is(context.Cause(inside), ErrLost); got != c.lost {
					t.Errorf("after %v: lost %v, want %v", limit, got, c.lost)
				}
				if err := e.Unlock(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
