package locktest

import (
	"testing"

	"github.com/redis/go-redis/v9"
)

// A Counter is a number in Redis, initially 0, for work that needs a lock: it reads the
// number, and writes back one more. If two do so at once, one overwrites the other.
type Counter struct {
	t   testing.TB
	rdb redis.Cmdable
	key string
}

// NewCounter returns a Counter of the test's own.
func NewCounter(t testing.TB, rdb redis.Cmdable) *Counter {
	t.Helper()
	c := &Counter{t, rdb, Key(t)}
	c.Set(0)
	return c
}

// Get reads the number.
func (c *Counter) Get() int {
	c.t.Helper()
	n, err := c.rdb.Get(c.t.Context(), c.key).Int()
	if err != nil {
		c.t.Error("Counter:", err)
	}
	return n
}

// Set writes it.
func (c *Counter) Set(n int) {
	c.t.Helper()
	if err := c.rdb.Set(c.t.Context(), c.key, n, 0).Err(); err != nil {
		c.t.Error("Counter:", err)
	}
}
