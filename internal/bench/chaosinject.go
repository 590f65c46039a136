package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"oversell/internal/fault"
	"oversell/internal/guard"
)

const (
	// often is the interval of faults that repeat, and of the retries of rootDo.
	often = 100 * time.Millisecond
	// lossEvery is the interval at which replies are lost.
	lossEvery = 20 * time.Millisecond
)

// begin injects a fault, and returns a function that ends it, or nil. The function must be called even
// after an error, but not once ctx has ended.
func (c *chaosRow) begin(ctx context.Context, f chaosFault) (end func(context.Context) error, err error) {
	s, sku := c.cfg.Chaos, c.skus[0]
	nothing := func(context.Context) error { return nil }
	switch f.kind {
	case shopKill:
		c.shops.Members()[f.victim].Kill()
		return c.restart(f.victim), nil
	case shopStop:
		victim := c.shops.Members()[f.victim]
		return func(context.Context) error { return victim.Continue() }, victim.Pause()
	case shopRestart:
		c.shops.Members()[f.victim].End(stopTimeout)
		return c.restart(f.victim), nil

	case redisFlush:
		return nothing, s.redisDo("FLUSHALL")(ctx)
	case redisFlushOften:
		return repeat(ctx, often, s.redisDo("FLUSHALL"))
	case redisKeysLost:
		return nothing, s.loseKeys(ctx, sku, "")
	case redisStockLost:
		return nothing, s.loseKeys(ctx, sku, ":stock")
	case redisKill:
		s.redis.Kill()
		return s.redis.Restart, nil
	case redisKillEmpty:
		s.redis.Kill()
		// Its data. Before Redis 7 it was one file.
		return s.redis.Restart, errors.Join(s.redis.Forget("appendonlydir"), s.redis.Forget("appendonly.aof"))
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

	case dbKill:
		s.db.Kill()
		return s.db.Restart, nil
	case dbStop:
		return func(context.Context) error { return s.db.Continue() }, s.db.Pause()
	case dbClientKill:
		return nothing, s.killConnections(ctx)
	case dbReadOnly:
		return s.rootDo("SET GLOBAL read_only = 0"), s.rootDo("SET GLOBAL read_only = 1")(ctx)
	case dbSlowInserts:
		return s.trigger(ctx, fmt.Sprintf("DO SLEEP(%.3f)", f.delay.Seconds()))
	case dbTableFull:
		return s.trigger(ctx,
			fmt.Sprintf("SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1114, MESSAGE_TEXT = 'The table ''%s'' is full'",
				ordersTable))
	}
	return c.linkFault(ctx, f)
}

// linkFault injects a fault into the connections of the victims to Redis or the database.
func (c *chaosRow) linkFault(ctx context.Context, f chaosFault) (end func(context.Context) error, err error) {
	victims, link := c.shops.Members(), toRedis
	if f.victim != everyShop {
		victims = victims[f.victim : f.victim+1]
	}
	if f.part == dbLink {
		link = toDatabase
	}
	each := func(do func(*fault.Relay)) {
		for _, m := range victims {
			do(m.Links[link])
		}
	}
	stop := func(context.Context) error { return nil }
	switch f.kind {
	case redisBlackHole, dbBlackHole:
		each((*fault.Relay).Hole)
	case redisDisconnected, dbDisconnected:
		each((*fault.Relay).Cut)
	case redisRepliesLate, dbRepliesLate:
		each(func(r *fault.Relay) { r.Late(f.delay) })
	case redisRepliesLost, dbRepliesLost:
		stop, err = repeat(ctx, lossEvery, func(context.Context) error {
			each((*fault.Relay).LoseReply)
			return nil
		})
	default:
		return nil, fmt.Errorf("%s is no fault that the bench can inject", f.kind)
	}
	return func(ctx context.Context) error {
		err := stop(ctx)
		each((*fault.Relay).Restore)
		return err
	}, err
}

// restart returns a function that replaces a shop whose process has ended. Like a process
// supervisor, it retries if the shop does not come up.
func (c *chaosRow) restart(shop int) func(context.Context) error {
	return func(ctx context.Context) (err error) {
		for range 5 {
			if err = c.replace(ctx, shop); err == nil || ctx.Err() != nil {
				return err
			}
			_ = guard.Sleep(ctx, 200*time.Millisecond)
		}
		return err
	}
}

func (c *chaosRow) replace(ctx context.Context, shop int) error {
	m, err := c.shops.Replace(ctx, shop)
	if err != nil {
		return err
	}
	p := c.cfg.plan(c.skus[0], c.cond)
	if err := m.Tell(ctx, order{Plan: &p}, nil, orderTimeout); err != nil {
		m.Kill() // the next attempt replaces it, and only a process that has ended can be replaced
		return err
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
