package chaos

import (
	"context"
	"errors"
	"fmt"
	"time"

	"oversell/internal/backend"
	"oversell/internal/fault"
	"oversell/internal/guard"
)

// Shop is a shop in a separate process. URL may be called concurrently; the other methods
// are called from one goroutine.
type Shop interface {
	// URL is where it serves, or "" while it does not run.
	URL() string
	// Start starts it, and returns when it serves requests.
	Start(ctx context.Context) error
	// Kill kills it.
	Kill()
	// End shuts it down, and returns when it has ended.
	End()
	// Pause stops it, and Continue continues it.
	Pause() error
	Continue() error
	// Err is the error with which it ended by itself, if it did.
	Err() error
}

// Link is the network between one shop and its servers.
type Link struct {
	RedisURL, DBURL string // what the shop dials

	Redis, DB *fault.Relay // DB is nil where the database is not reached by TCP
}

// NewLink makes the network for one shop to the servers at the URLs. Call Close at the end.
func NewLink(redisURL, dbURL string) (_ *Link, err error) {
	l := new(Link)
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close())
		}
	}()
	if l.Redis, l.RedisURL, err = StartRedisRelay(redisURL); err != nil {
		return nil, err
	}
	l.DB, l.DBURL, err = relay(dbURL, backend.DatabaseAddr, backend.WithDatabaseAddr)
	if errors.Is(err, backend.ErrNotRelayed) {
		l.DBURL, err = dbURL, nil
	}
	return l, err
}

// StartRedisRelay starts a relay to the Redis at a URL, and returns the URL through it.
func StartRedisRelay(url string) (r *fault.Relay, through string, err error) {
	return relay(url, backend.SingleAddr, backend.WithAddr)
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

// Close ends the network.
func (l *Link) Close() error {
	var errs []error
	for _, r := range []*fault.Relay{l.Redis, l.DB} {
		if r != nil {
			errs = append(errs, r.Close())
		}
	}
	return errors.Join(errs...)
}

// world is everything that faults are injected into.
type world struct {
	servers *Servers
	shops   []Shop
	links   []*Link
	sku     string
}

// begin injects a fault, and returns a function that ends it, which must be called even
// after an error.
func (w *world) begin(ctx context.Context, f Fault) (end func(context.Context) error, err error) {
	t, known := traitOf(f.Kind)
	if !known {
		return nil, fmt.Errorf("%q is not a fault", f.Kind)
	}
	switch t.part {
	case shop:
		return w.shopFault(ctx, f)
	case redisServer:
		return w.servers.redisFault(ctx, f, w.sku)
	case dbServer:
		return w.servers.dbFault(ctx, f)
	}
	return w.linkFault(ctx, f, t.part)
}

func (w *world) shopFault(ctx context.Context, f Fault) (end func(context.Context) error, err error) {
	victim := w.shops[f.Victim]
	switch f.Kind {
	case ShopKill:
		victim.Kill()
		return w.start(victim), nil
	case ShopStop:
		return func(context.Context) error { return victim.Continue() }, victim.Pause()
	case ShopRestart:
		victim.End()
		return w.start(victim), nil
	}
	return nil, fmt.Errorf("%s is not a fault of a shop", f.Kind)
}

// start returns a function that starts a shop. Like a process supervisor, it retries if
// the shop does not come up.
func (w *world) start(victim Shop) func(context.Context) error {
	return func(ctx context.Context) (err error) {
		for range 5 {
			if err = victim.Start(ctx); err == nil || ctx.Err() != nil {
				return err
			}
			_ = guard.Sleep(ctx, 200*time.Millisecond)
		}
		return err
	}
}

// lossEvery is the interval at which replies are lost.
const lossEvery = 20 * time.Millisecond

func (w *world) linkFault(ctx context.Context, f Fault, p part) (end func(context.Context) error, err error) {
	links := w.links
	if f.Victim != all {
		links = links[f.Victim : f.Victim+1]
	}
	var targets []*fault.Relay
	for _, l := range links {
		r := l.Redis
		if p == dbLink {
			r = l.DB
		}
		targets = append(targets, r)
	}
	each := func(do func(*fault.Relay)) {
		for _, r := range targets {
			do(r)
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
