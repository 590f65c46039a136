package guard

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
)

func TestFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m KeyedMutex
		first := m.TryLock("a")
		var order []int
		for i := range 5 {
			go func() {
				hold, err := m.Lock(t.Context(), "a")
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, i)
				hold.Unlock()
			}()
			synctest.Wait()
		}
		if other := m.TryLock("b"); other == nil {
			t.Error("another key does not have its own mutex")
		} else {
			other.Unlock()
		}
		if m.TryLock("a") != nil || m.Users("a") != 6 || len(order) != 0 {
			t.Errorf("%d users, %v served before the first unlocked", m.Users("a"), order)
		}
		first.Unlock()
		synctest.Wait()
		if !slices.Equal(order, []int{0, 1, 2, 3, 4}) || m.Users("a") != 0 {
			t.Errorf("served %v, and %d users are left", order, m.Users("a"))
		}
	})
}

func TestWaiterThatGivesUpLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m KeyedMutex
		enough := errors.New("enough")
		first := m.TryLock("a")
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := make(chan error, 1)
		go func() {
			_, err := m.Lock(ctx, "a")
			gone <- err
		}()
		synctest.Wait()
		cancel(enough)
		if err := <-gone; !errors.Is(err, enough) || m.Users("a") != 1 {
			t.Errorf("left with %v, %d users", err, m.Users("a"))
		}
		first.Unlock()
		if hold := m.TryLock("a"); hold == nil {
			t.Error("the mutex is free, but cannot be locked")
		} else {
			hold.Unlock()
		}
	})
}
