package turns

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
)

func TestFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Lines
		first := s.Try("a")
		var order []int
		for i := range 5 {
			go func() {
				turn, err := s.Wait(t.Context(), "a")
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, i)
				turn.Pass()
			}()
			synctest.Wait()
		}
		if other := s.Try("b"); other == nil {
			t.Error("another key has no turn of its own")
		} else {
			other.Pass()
		}
		if s.Try("a") != nil || s.Users("a") != 6 || len(order) != 0 {
			t.Errorf("%d users, %v served before their turn", s.Users("a"), order)
		}
		first.Pass()
		synctest.Wait()
		if !slices.Equal(order, []int{0, 1, 2, 3, 4}) || s.Keys() != 0 {
			t.Errorf("served %v, and %d keys are remembered", order, s.Keys())
		}
	})
}

func TestWhoGivesUpLeavesTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Lines
		enough := errors.New("enough")
		first := s.Try("a")
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := make(chan error, 1)
		go func() {
			_, err := s.Wait(ctx, "a")
			gone <- err
		}()
		synctest.Wait()
		cancel(enough)
		if err := <-gone; !errors.Is(err, enough) || s.Users("a") != 1 {
			t.Errorf("left with %v, %d users", err, s.Users("a"))
		}
		first.Pass()
		if turn := s.Try("a"); turn == nil {
			t.Error("nobody has the turn, and it is not to be had")
		} else {
			turn.Pass()
		}
	})
}
