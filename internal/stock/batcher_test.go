package stock

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// callTime is the duration of a call in these tests, in the bubble's time.
const callTime = time.Second

// calls records the calls of a batcher, each of which lasts for callTime.
type calls struct {
	mu   sync.Mutex
	made [][]int
}

func (c *calls) call(items []int) {
	c.mu.Lock()
	c.made = append(c.made, items)
	c.mu.Unlock()
	time.Sleep(callTime)
}

func (c *calls) want(t *testing.T, want ...[]int) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.EqualFunc(c.made, want, slices.Equal) {
		t.Errorf("calls with %v, want %v", c.made, want)
	}
}

// submit passes items to a batcher one after the other, and returns when all are queued.
func submit(t *testing.T, all *sync.WaitGroup, c *batcher[int], wait context.Context, key string, items ...int) {
	for _, item := range items {
		all.Go(func() {
			if _, err := c.do(wait, key, item); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
	}
}

// batching runs f in a bubble, which fails the test if a goroutine is left over.
func batching(t *testing.T, size int, f func(t *testing.T, c *batcher[int], made *calls)) {
	synctest.Test(t, func(t *testing.T) {
		made := new(calls)
		f(t, newBatcher(func() int { return size }, made.call), made)
	})
}

func TestItemsThatArriveDuringACallFormTheNextBatch(t *testing.T) {
	batching(t, 10, func(t *testing.T, c *batcher[int], made *calls) {
		var all sync.WaitGroup
		submit(t, &all, c, t.Context(), "k", 0, 1, 2, 3)
		time.Sleep(callTime + callTime/2)
		submit(t, &all, c, t.Context(), "k", 4)
		all.Wait()
		made.want(t, []int{0}, []int{1, 2, 3}, []int{4})
	})
}

func TestBatchesAreBounded(t *testing.T) {
	batching(t, 3, func(t *testing.T, c *batcher[int], made *calls) {
		var all sync.WaitGroup
		submit(t, &all, c, t.Context(), "k", 0, 1, 2, 3, 4, 5, 6, 7)
		all.Wait()
		made.want(t, []int{0}, []int{1, 2, 3}, []int{4, 5, 6}, []int{7})
	})
}

var errEnough = errors.New("enough")

func TestItemIsWithdrawnBeforeItsCall(t *testing.T) {
	batching(t, 10, func(t *testing.T, c *batcher[int], made *calls) {
		wait, giveUp := context.WithCancelCause(t.Context())
		var all sync.WaitGroup
		submit(t, &all, c, t.Context(), "k", 0, 1)
		all.Go(func() {
			if _, err := c.do(wait, "k", 2); !errors.Is(err, errEnough) {
				t.Errorf("the caller that gave up got %v, want %v", err, errEnough)
			}
		})
		synctest.Wait()
		submit(t, &all, c, t.Context(), "k", 3)
		giveUp(errEnough)
		if _, err := c.do(wait, "k", 4); !errors.Is(err, errEnough) {
			t.Errorf("a caller whose wait was over got %v, want %v", err, errEnough)
		}
		all.Wait()
		made.want(t, []int{0}, []int{1, 3})
	})
}
