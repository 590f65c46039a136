package fault

import (
	"context"
	"net"

	"github.com/redis/go-redis/v9"
)

// Redis is a redis.Hook that calls a function before and a function after the commands of
// a client. A nil function is not called.
type Redis struct {
	Before func(ctx context.Context, commands []redis.Cmder) // one command, or all commands of a pipeline
	After  func(ctx context.Context, commands []redis.Cmder) // the same commands, with their replies
}

// DialHook implements redis.Hook.
func (Redis) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook implements redis.Hook.
func (r Redis) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return r.see(ctx, []redis.Cmder{cmd}, func() error { return next(ctx, cmd) })
	}
}

// ProcessPipelineHook implements redis.Hook.
func (r Redis) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		return r.see(ctx, commands, func() error { return next(ctx, commands) })
	}
}

func (r Redis) see(ctx context.Context, commands []redis.Cmder, send func() error) error {
	if r.Before != nil {
		r.Before(ctx, commands)
	}
	err := send()
	if r.After != nil {
		r.After(ctx, commands)
	}
	return err
}
