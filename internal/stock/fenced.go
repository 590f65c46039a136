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

// ErrFenced means that a holder came with an older fencing token than one that
// the stock has seen: it has lost its lock, and another has been at work since.
// Nothing was read or written for it.
var ErrFenced = errors.New("a later holder was at the stock")

// fenceKey is where the largest token is kept that the stock at key has seen.
func fenceKey(key string) string { return key + ":fence" }

// fence is a fencing token, and of which lock it is. Tokens of different locks
// cannot be compared. While two locks are in use at once, which keep nobody of the
// other's out, the one that read last is let write.
type fence struct {
	of    string
	token int64
}

// fencedCounter reads and writes with the fencing token of a lock's holder, and
// each is one step with the look at the token.
//
// The read needs it as much as the write. If only writes showed their token, a
// late holder could still write between the next one's read and its write.
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
