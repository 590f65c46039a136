package stock

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed fencedget.lua
	fencedGetSource string
	fencedGetScript = redis.NewScript(fencedGetSource)

	//go:embed fencedset.lua
	fencedSetSource string
	fencedSetScript = redis.NewScript(fencedSetSource)
)

// ErrFenced means that the stock has seen a larger fencing token than the holder's: the
// holder has lost its lock, and another has been at work since. Nothing was read or
// written.
var ErrFenced = errors.New("a later holder was at the stock")

// fenceKey is the key of the largest token that the stock at key has seen.
func fenceKey(key string) string { return key + ":fence" }

// fence is a fencing token and the name of its lock. Tokens of different locks cannot be
// compared. If two locks are in use at once, the holder that has read last may write.
type fence struct {
	of    string
	token int64
}

// fencedCounter reads and writes with the holder's fencing token. The token is checked
// in the same step.
//
// The read needs the token as much as the write. If only writes showed it, a late holder
// could still write between the next holder's read and its write.
type fencedCounter struct {
	rdb redis.UniversalClient
	key string
	fence
}

func (c fencedCounter) keys() []string { return []string{c.key, fenceKey(c.key)} }

func (c fencedCounter) Get(ctx context.Context) (int64, error) {
	reply := fencedGetScript.Run(ctx, c.rdb, c.keys(), c.of, c.token)
	if text, _ := reply.Text(); text == "fenced" {
		return 0, fmt.Errorf("reading the stock with token %d: %w", c.token, ErrFenced)
	}
	left, err := reply.Int64()
	if errors.Is(err, redis.Nil) {
		return 0, fmt.Errorf("reading the stock: the key is gone: %w", errOtherSale)
	}
	if err != nil {
		return 0, fmt.Errorf("reading the stock: %w", err)
	}
	return left, nil
}

func (c fencedCounter) Set(ctx context.Context, left int64) error {
	written, err := fencedSetScript.Run(ctx, c.rdb, c.keys(), c.of, c.token, left).Int()
	if err != nil {
		return fmt.Errorf("writing the stock: %w", err)
	}
	if written < 0 {
		return fmt.Errorf("writing the stock: the key is gone: %w", errOtherSale)
	}
	if written == 0 {
		return fmt.Errorf("writing the stock with token %d: %w", c.token, ErrFenced)
	}
	return nil
}
