package bench

import (
	"context"
	"fmt"
	"time"

	"oversell/internal/fault"
	"oversell/internal/fleet"
	"oversell/internal/guard"
)

// world is everything that faults are injected into.
type world struct {
	servers *ChaosServers
	shops   []*fleet.Member
	sku     string                                    // of the item that is sold
	start   func(ctx context.Context, shop int) error // replaces a shop whose process has ended
}

// begin injects a fault, and returns a function that ends it, which must be called even
// after an error, unless ctx has ended.
func (w world) begin(ctx context.Context, f chaosFault) (end func(context.Context) error, err error) {
	switch f.part {
	case shopPart:
		return w.shopFault(f)
	case redisPart:
		return w.servers.redisFault(ctx, f, w.sku)
	case dbPart:
		return w.servers.dbFault(ctx, f)
	}
	return w.linkFault(ctx, f)
}

func (w world) shopFault(f chaosFault) (end func(context.Context) error, err error) {
	victim := w.shops[f.victim]
	switch f.kind {
	case shopKill:
		victim.Kill()
		return w.restart(f.victim), nil
	case shopStop:
		return func(context.Context) error { return victim.Continue() }, victim.Pause()
	case shopRestart:
		victim.End(stopTimeout)
		return w.restart(f.victim), nil
	}
	return nil, fmt.Errorf("%s is not a fault of a shop", f.kind)
}

// restart returns a function that starts a shop. Like a process supervisor, it retries if
// the shop does not come up.
func (w world) restart(shop int) func(context.Context) error {
	return func(ctx context.Context) (err error) {
		for range 5 {
			if err = w.start(ctx, shop); err == nil || ctx.Err() != nil {
				return err
			}
			_ = guard.Sleep(ctx, 200*time.Millisecond)
		}
		return err
	}
}

// lossEvery is the interval at which replies are lost.
const lossEvery = 20 * time.Millisecond

func (w world) linkFault(ctx context.Context, f chaosFault) (end func(context.Context) error, err error) {
	shops, link := w.shops, toRedis
	if f.victim != everyShop {
		shops = shops[f.victim : f.victim+1]
	}
	if f.part == dbLink {
		link = toDatabase
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
	switch f.kind {
	case redisBlackHole, dbBlackHole:
		each((*fault.Relay).Hole)
	case redisDisconnected, dbDisconnected:
		each((*fault.Relay).Cut)
	case redisRepliesLate, dbRepliesLate:
		each(func(r *fault.Relay) { r.Late(f.delay) })
	case redisRepliesLost, dbRepliesLost:
		return repeat(ctx, lossEvery, func(context.Context) error {
			each((*fault.Relay).LoseReply)
			return nil
		})
	default:
		return nil, fmt.Errorf("%s is not a fault of the network", f.kind)
	}
	return restore, nil
}
