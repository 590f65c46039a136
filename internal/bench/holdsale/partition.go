package holdsale

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"oversell/internal/backend"
	"oversell/internal/netfault"
)

// partner is what a shop is cut off from.
type partner string

// The partners.
const (
	fromDatabase partner = "database"
	fromRedis    partner = "redis"
	fromProvider partner = "provider" // of payments
)

// links are the relays between one shop and its partners.
type links map[partner]*netfault.Relay

// relay puts relays between a shop and its partners. A database that is a file, or that is
// reached in another way than by TCP, has none.
func relay(s setup) (_ setup, _ links, err error) {
	l := make(links)
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("relaying the connections of %s: %w", s.Name, err), l.close())
		}
	}()
	through := func(name partner, target string) (string, error) {
		r, err := netfault.Start(target)
		if err != nil {
			return "", err
		}
		l[name] = r
		return r.Addr, nil
	}
	addr, err := backend.SingleAddr(s.RedisURL)
	if err != nil {
		return s, nil, err
	}
	if addr, err = through(fromRedis, addr); err != nil {
		return s, nil, err
	}
	if s.RedisURL, err = backend.WithAddr(s.RedisURL, addr); err != nil {
		return s, nil, err
	}
	provider, err := url.Parse(s.Provider)
	if err != nil {
		return s, nil, err
	}
	if provider.Host, err = through(fromProvider, provider.Host); err != nil {
		return s, nil, err
	}
	s.Provider = provider.String()
	addr, err = backend.DatabaseAddr(s.DBURL)
	if errors.Is(err, backend.ErrNotRelayed) {
		return s, l, nil
	}
	if err != nil {
		return s, nil, err
	}
	if addr, err = through(fromDatabase, addr); err != nil {
		return s, nil, err
	}
	s.DBURL, err = backend.WithDatabaseAddr(s.DBURL, addr)
	return s, l, err
}

// close ends the relays.
func (l links) close() error {
	var errs []error
	for _, r := range l {
		errs = append(errs, r.Close())
	}
	return errors.Join(errs...)
}

// partition cuts a shop off from each of its partners in turn, for longer than a hold lives.
// What the shop sends meanwhile arrives at the end:
//
//   - from the database and from Redis, as a payment is about to write: its writes arrive when
//     the hold has expired;
//   - from the payment provider, as a payment is about to be captured: the buyer is charged for
//     a hold that has expired.
func (r *row) partition(ctx context.Context) (met []string, err error) {
	defer func() {
		if err == nil {
			r.disarm(ctx)
		}
	}()
	for _, cut := range []struct {
		from partner
		at   Seam
	}{{fromDatabase, BeforeClaim}, {fromRedis, BeforeClaim}, {fromProvider, beforeCapture}} {
		if !r.relayed(cut.from) {
			continue
		}
		if err := r.cutOff(ctx, cut.from, cut.at); err != nil {
			return met, fmt.Errorf("cutting a shop off from %s: %w", cut.from, err)
		}
		met = append(met, string(cut.from))
	}
	return met, nil
}

// relayed reports whether shops can be cut off from a partner.
func (r *row) relayed(from partner) bool {
	for _, p := range r.fleet.alive() {
		return p.links[from] != nil // all are alike
	}
	return false
}

// cutOff cuts off the shop of the first call that reaches a seam, and lets the call go on. The
// shop has no open transaction when that begins: the fault is the late write, and not a lock in
// the database that everybody else waits for.
func (r *row) cutOff(ctx context.Context, from partner, at Seam) error {
	if err := r.everywhere(ctx, arm{Seams: []Seam{at}, Skip: 1, Most: 1, Quiet: from == fromDatabase}); err != nil {
		return err
	}
	a, err := r.victim(ctx, at)
	if err != nil {
		return err
	}
	link := a.shop.links[from]
	link.Hole()
	defer link.Restore()
	if err := a.shop.Send(command{Resume: true}); err != nil {
		return err
	}
	r.pass(ctx, r.cfg.long())
	return nil
}
