package main

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"net"
	"os"

	"github.com/redis/go-redis/v9"
)

// breakers break a lock from outside, by what they do to one of its scripts on
// the way to Redis.
var breakers = map[string]redis.Hook{
	"v4": rewrite{"v4_lua/unlock.lua", func(ctx context.Context, cmd *redis.Cmd, next redis.ProcessHook) error {
		key := cmd.Args()[3] // after EVALSHA, the hash and the number of keys
		del := redis.NewIntCmd(ctx, "del", key)
		err := next(ctx, del)
		cmd.SetVal(del.Val())
		return err
	}},
	"v6": rewrite{"v6_watchdog/renew.lua", func(_ context.Context, cmd *redis.Cmd, _ redis.ProcessHook) error {
		cmd.SetVal(int64(1)) // "renewed"
		return nil
	}},
}

// rewrite is a hook that does something else in place of one script.
type rewrite struct {
	script string
	do     func(ctx context.Context, cmd *redis.Cmd, next redis.ProcessHook) error
}

func (r rewrite) hash() string {
	text, err := os.ReadFile("../internal/locks/" + r.script)
	if err != nil {
		panic(err)
	}
	sum := sha1.Sum(text) // Redis names scripts so
	return hex.EncodeToString(sum[:])
}

// ProcessHook implements redis.Hook.
func (r rewrite) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	hash := r.hash()
	return func(ctx context.Context, cmd redis.Cmder) error {
		if script, ok := cmd.(*redis.Cmd); ok && cmd.Name() == "evalsha" && cmd.Args()[1] == hash {
			return r.do(ctx, script, next)
		}
		return next(ctx, cmd)
	}
}

// DialHook implements redis.Hook.
func (rewrite) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessPipelineHook implements redis.Hook.
func (rewrite) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
