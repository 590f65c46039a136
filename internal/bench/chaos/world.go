package chaos

import (
	"context"
	"errors"
	"fmt"
	"time"

	"oversell/internal/backend"
	"oversell/internal/netfault"
)

// Shop is a shop in a process of its own. Start and the methods that strike it are
// called from one goroutine, URL from many.
type Shop interface {
	// URL is where it serves, or "" while it does not run.
	URL() string
	// Start starts it, and returns when it serves.
	Start(ctx context.Context) error
	// Kill ends it on the spot.
	Kill()
	// End tells it to end, and returns when it has.
	End()
	// Pause stops it, and Continue lets it go on.
	Pause() error
	Continue() error
	// Err is why it has ended, if it has and nobody ended it.
	Err() error
}

// Link is the network between one shop and its servers.
type Link struct {
	RedisURL, DBURL string // what the shop dials

	redis, db *netfault.Relay // db is nil where the database is a file
}

// Link makes the network for one shop. It must be closed in the end.
func (s *Servers) Link() (_ *Link, err error) {
	l := &Link{DBURL: s.DBURL}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close())
		}
	}()
	addr, err := backend.SingleAddr(s.RedisURL)
	if err != nil {
		return nil, err
	}
	if l.redis, err = netfault.Start(addr); err != nil {
		return nil, err
	}
	if l.RedisURL, err = backend.WithAddr(s.RedisURL, l.redis.Addr); err != nil {
		return nil, err
	}
	if s.db == nil {
		return l, nil
	}
	if l.db, err = netfault.Start(s.db.Addr); err != nil {
		return nil, err
	}
	l.DBURL, err = withDBAddr(s.DBURL, l.db.Addr)
	return l, err
}

// Close ends the network.
func (l *Link) Close() error {
	var errs []error
	for _, r := range []*netfault.Relay{l.redis, l.db} {
		if r != nil {
			errs = append(errs, r.Close())
		}
	}
	return errors.Join(errs...)
}

// world is all that faults strike.
type world struct {
	servers *Servers
	shops   []Shop
	links   []*Link
	sku     string
}

// begin does a fault, and returns what ends it. Both may have an error: the fault is to
// be ended all the same.
func (w *world) begin(ctx context.Context, f Fault) (end func(context.Context) error, err error) {
	t, known := traitOf(f.Kind)
	if !known {
		return nil, fmt.Errorf("%q is no fault", f.Kind)
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
	return nil, fmt.Errorf("%s is no fault of a shop", f.Kind)
}

// start returns a function that starts a shop. As whoever looks after processes does,
// it tries again when the shop does not come up.
func (w *world) start(victim Shop) func(context.Context) error {
	return func(ctx context.Context) (err error) {
		for range 5 {
			if err = victim.Start(ctx); err == nil || ctx.Err() != nil {
				return err
			}
			sleep(ctx, 200*time.Millisecond)
		}
		return err
	}
}

// lossEvery is how often a reply is lost, while replies are.
const lossEvery = 20 * time.Millisecond

func (w *world) linkFault(ctx context.Context, f Fault, p part) (end func(context.Context) error, err error) {
	links := w.links
	if f.Victim != all {
		links = links[f.Victim : f.Victim+1]
	}
	var struck []*netfault.Relay
	for _, l := range links {
		r := l.redis
		if p == dbLink {
			r = l.db
		}
		struck = append(struck, r)
	}
	each := func(do func(*netfault.Relay)) {
		for _, r := range struck {
			do(r)
		}
	}
	restore := func(context.Context) error {
		each((*netfault.Relay).Restore)
		return nil
	}
	switch f.Kind {
	case RedisBlackHole, DBBlackHole:
		each((*netfault.Relay).Hole)
	case RedisDisconnected, DBDisconnected:
		each((*netfault.Relay).Cut)
	case RedisRepliesLate, DBRepliesLate:
		each(func(r *netfault.Relay) { r.Late(f.Amount) })
	case RedisRepliesLost, DBRepliesLost:
		each((*netfault.Relay).LoseReply)
		return repeat(ctx, lossEvery, func(context.Context) error {
			each((*netfault.Relay).LoseReply)
			return nil
		}), nil
	default:
		return nil, fmt.Errorf("%s is no fault of the network", f.Kind)
	}
	return restore, nil
}

// sleep waits for d, or until ctx ends, and reports whether ctx has not ended.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
