package chaos

import (
	"context"
	"errors"
	"fmt"
	"time"

	"oversell/internal/backend"
	"oversell/internal/fault"
	"oversell/internal/fleet"
	"oversell/internal/guard"
)

// The names of a shop's links to its servers: see fleet.Member.
const (
	ToRedis    = "redis"
	ToDatabase = "database"
)

// StartRedisRelay starts a relay to the Redis at a URL, and returns the URL through it.
func StartRedisRelay(url string) (r *fault.Relay, through string, err error) {
	return relay(url, backend.SingleAddr, backend.WithAddr)
}

// StartDatabaseRelay starts a relay to the database at a URL, and returns the URL through it. The
// error wraps backend.ErrNotRelayed if the database is not reached over TCP.
func StartDatabaseRelay(url string) (r *fault.Relay, through string, err error) {
	return relay(url, backend.DatabaseAddr, backend.WithDatabaseAddr)
}

func relay(
	url string, addrOf func(url string) (string, error), with func(url, addr string) (string, error),
) (r *fault.Relay, through string, err error) {
	addr, err := addrOf(url)
	if err != nil {
		return nil, "", err
	}
	if r, err = fault.StartRelay(addr); err != nil {
		return nil, "", err
	}
	if through, err = with(url, r.Addr); err != nil {
		return nil, "", errors.Join(err, r.Close())
	}
	return r, through, nil
}

// World is everything that faults are injected into.
type World struct {
	Servers *Servers
	Shops   []*fleet.Member
	SKU     string // of the item that is sold

	// Start replaces a shop whose process has ended.
	Start func(ctx context.Context, shop int) error
}

// stopTimeout limits the shutdown of a shop.
const stopTimeout = 6 * time.Second

// Begin injects a fault, and returns a function that ends it, which must be called even
// after an error.
func (w World) Begin(ctx context.Context, f Fault) (end func(context.Context) error, err error) {
	t, known := traitOf(f.Kind)
	if !known {
		return nil, fmt.Errorf("%q is not a fault", f.Kind)
	}
	switch t.part {
	case shop:
		return w.shopFault(f)
	case redisServer:
		return w.Servers.redisFault(ctx, f, w.SKU)
	case dbServer:
		return w.Servers.dbFault(ctx, f)
	}
	return w.linkFault(ctx, f, t.part)
}

func (w World) shopFault(f Fault) (end func(context.Context) error, err error) {
	victim := w.Shops[f.Victim]
	switch f.Kind {
	case ShopKill:
		victim.Kill()
		return w.restart(f.Victim), nil
	case ShopStop:
		return func(context.Context) error { return victim.Continue() }, victim.Pause()
	case ShopRestart:
		victim.End(stopTimeout)
		return w.restart(f.Victim), nil
	}
	return nil, fmt.Errorf("%s is not a fault of a shop", f.Kind)
}

// restart returns a function that starts a shop. Like a process supervisor, it retries if
// the shop does not come up.
func (w World) restart(shop int) func(context.Context) error {
	return func(ctx context.Context) (err error) {
		for range 5 {
			if err = w.Start(ctx, shop); err == nil || ctx.Err() != nil {
				return err
			}
			_ = guard.Sleep(ctx, 200*time.Millisecond)
		}
		return err
	}
}

// lossEvery is the interval at which replies are lost.
const lossEvery = 20 * time.Millisecond

func (w World) linkFault(ctx context.Context, f Fault, p part) (end func(context.Context) error, err error) {
	shops, link := w.Shops, ToRedis
	if f.Victim != all {
		shops = shops[f.Victim : f.Victim+1]
	}
	if p == dbLink {
		link = ToDatabase
	}
	each := func(do func(*fault.Relay)) {
		for _, m := range shops {
			do(m.Links[link])
		}
	}
	restore := func(context.Context) error {
		each((*fault.Relay).Restore)
		return nil
	}
	switch f.Kind {
	case RedisBlackHole, DBBlackHole:
		each((*fault.Relay).Hole)
	case RedisDisconnected, DBDisconnected:
		each((*fault.Relay).Cut)
	case RedisRepliesLate, DBRepliesLate:
		each(func(r *fault.Relay) { r.Late(f.Amount) })
	case RedisRepliesLost, DBRepliesLost:
		each((*fault.Relay).LoseReply)
		return repeat(ctx, lossEvery, func(context.Context) error {
			each((*fault.Relay).LoseReply)
			return nil
		}), nil
	default:
		return nil, fmt.Errorf("%s is not a fault of the network", f.Kind)
	}
	return restore, nil
}
