package bench

import (
	"context"
	"fmt"
	"strings"
	"time"

	"oversell/internal/guard"
)

// often is the interval of faults that repeat, and of the retries of rootDo.
const often = 100 * time.Millisecond

// redisFault injects a fault into Redis itself, and returns a function that ends it.
func (s *ChaosServers) redisFault(
	ctx context.Context, f chaosFault, sku string,
) (end func(context.Context) error, err error) {
	flush := func(ctx context.Context) error { return s.admin.FlushAll(ctx).Err() }
	if f.kind == redisFlushOften {
		return repeat(ctx, often, flush)
	}
	ctx, cancel := context.WithTimeout(ctx, f.lasts+faultTimeout)
	defer cancel()
	nothing := func(context.Context) error { return nil }
	switch f.kind {
	case redisFlush:
		return nothing, flush(ctx)
	case redisKeysLost:
		return nothing, s.loseKeys(ctx, sku, "")
	case redisStockLost:
		return nothing, s.loseKeys(ctx, sku, ":stock")
	case redisKill:
		s.redis.Kill()
		return s.redis.Restart, nil
	case redisKillEmpty:
		s.redis.Kill()
		return s.redis.Restart, s.redis.Forget("appendonlydir") // its data
	case redisStop:
		return func(context.Context) error { return s.redis.Continue() }, s.redis.Pause()
	case redisReadOnly:
		return s.redisDo("REPLICAOF", "NO", "ONE"), s.redisDo("REPLICAOF", "127.0.0.1", "1")(ctx)
	case redisOOM:
		return s.redisDo("CONFIG", "SET", "maxmemory", "0"), s.redisDo("CONFIG", "SET", "maxmemory", "1")(ctx)
	case redisClientKill:
		return nothing, s.redisDo("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")(ctx)
	case redisClientPause:
		return nothing, s.redisDo("CLIENT", "PAUSE", f.lasts.Milliseconds(), "ALL")(ctx)
	}
	return nil, fmt.Errorf("%s is not a fault of Redis", f.kind)
}

// redisDo returns a function that sends a command.
func (s *ChaosServers) redisDo(command ...any) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, faultTimeout)
		defer cancel()
		if err := s.admin.Do(ctx, command...).Err(); err != nil {
			return fmt.Errorf("%v: %w", command[0], err)
		}
		return nil
	}
}

// loseKeys deletes the item's keys in whose names the given text follows the item's name. If the
// text is "", it deletes all keys of the item.
func (s *ChaosServers) loseKeys(ctx context.Context, sku, what string) error {
	prefix := "oversell:{" + sku + "}" + what
	var keys []string
	found := s.admin.Scan(ctx, 0, prefix+"*", 1000).Iterator()
	for found.Next(ctx) {
		if strings.HasPrefix(found.Val(), prefix) {
			keys = append(keys, found.Val())
		}
	}
	if err := found.Err(); err != nil {
		return fmt.Errorf("looking for the keys of %s: %w", sku, err)
	}
	if len(keys) == 0 {
		return nil // they were already gone, or the stock is in the database
	}
	if err := s.admin.Del(ctx, keys...).Err(); err != nil {
		return fmt.Errorf("deleting the keys of %s: %w", sku, err)
	}
	return nil
}

// repeat calls do, and then in the background at every interval, until do fails, ctx ends or end is
// called. If the first call fails, repeat returns its error; end returns the error of a later one.
func repeat(
	ctx context.Context, every time.Duration, do func(ctx context.Context) error,
) (end func(context.Context) error, err error) {
	if err := do(ctx); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		var err error
		for err == nil && guard.Sleep(ctx, every) == nil {
			err = do(ctx)
		}
		if ctx.Err() != nil {
			err = nil
		}
		done <- err
	}()
	return func(context.Context) error {
		stop()
		return <-done
	}, nil
}
