package guard

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
)

// users returns the number of callers that hold the mutex of the key or are waiting for it.
func users(m *KeyedMutex, key string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.keys[key]; e != nil {
		return e.users
	}
	return 0
}

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
		if m.TryLock("a") != nil || users(&m, "a") != 6 || len(order) != 0 {
			t.Errorf("%d users, %v served before the first unlocked", users(&m, "a"), order)
		}
		first.Unlock()
		synctest.Wait()
		if !slices.Equal(order, []int{0, 1, 2, 3, 4}) || users(&m, "a") != 0 {
			t.Errorf("served %v, and %d users are left", order, users(&m, "a"))
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
		if err := <-gone; !errors.Is(err, enough) || users(&m, "a") != 1 {
			t.Errorf("left with %v, %d users", err, users(&m, "a"))
		}
		first.Unlock()
		if hold := m.TryLock("a"); hold == nil {
			t.Error("the mutex is free, but cannot be locked")
		} else {
			hold.Unlock()
		}
	})
}
