package stock

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"oversell/internal/fence"
)

// ErrFenced means that the stock has seen a larger fencing token than the holder's: the
// holder has lost its lock, and another has been at work since. Nothing was read or
// written.
var ErrFenced = errors.New("a later holder was at the stock")

// fenceKey is the key of the largest token that the stock at key has seen.
func fenceKey(key string) string { return key + ":fence" }

// shown is a fencing token and the name of its lock. Tokens of different locks cannot be
// compared. If two locks are in use at once, the holder that has read last may write.
type shown struct {
	of    string
	token int64
}

// fencedCounter reads and writes with the holder's fencing token. The token is checked
// in the same step.
type fencedCounter struct {
	rdb redis.UniversalClient
	key string
	shown
}

func (c fencedCounter) value() fence.Value {
	return fence.Value{Client: c.rdb, Key: c.key, Fence: fenceKey(c.key), Lock: c.of}
}

func (c fencedCounter) Get(ctx context.Context) (int64, error) {
	value, err := c.value().Get(ctx, c.token)
	if err != nil {
		return 0, c.failed("reading", err)
	}
	left, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("reading the stock: %w", err)
	}
	return left, nil
}

func (c fencedCounter) Set(ctx context.Context, left int64) error {
	if err := c.value().Set(ctx, c.token, left); err != nil {
		return c.failed("writing", err)
	}
	return nil
}

// failed returns an error of this package for one of package fence.
func (c fencedCounter) failed(doing string, err error) error {
	switch {
	case errors.Is(err, fence.ErrStaleToken):
		return fmt.Errorf("%s the stock with token %d: %w", doing, c.token, ErrFenced)
	case errors.Is(err, fence.ErrMissing):
		return fmt.Errorf("%s the stock: the key is gone: %w", doing, errOtherSale)
	}
	return fmt.Errorf("%s the stock: %w", doing, err)
}
