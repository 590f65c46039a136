package holdsale

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"oversell/internal/bench/chaos"
	"oversell/internal/fault"
	"oversell/internal/fleet"
)

// What a shop is cut off from.
const (
	fromDatabase = "database"
	fromRedis    = "redis"
	fromProvider = "provider" // of payments
)

// relay puts relays between a shop and its partners. A database that is a file, or that is
// reached in another way than by TCP, has none.
func relay(s setup) (_ setup, links map[string]*fault.Relay, err error) {
	link, err := chaos.NewLink(s.RedisURL, s.DBURL)
	if err != nil {
		return s, nil, fmt.Errorf("relaying the connections of %s: %w", s.Name, err)
	}
	provider, err := url.Parse(s.Provider)
	if err != nil {
		return s, nil, errors.Join(err, link.Close())
	}
	toProvider, err := fault.StartRelay(provider.Host)
	if err != nil {
		return s, nil, errors.Join(fmt.Errorf("relaying the connections of %s: %w", s.Name, err), link.Close())
	}
	provider.Host = toProvider.Addr
	s.RedisURL, s.DBURL, s.Provider = link.RedisURL, link.DBURL, provider.String()
	links = map[string]*fault.Relay{fromRedis: link.Redis, fromProvider: toProvider}
	if link.DB != nil {
		links[fromDatabase] = link.DB
	}
	return s, links, nil
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
		from string
		at   fleet.Seam
	}{{fromDatabase, BeforeClaim}, {fromRedis, BeforeClaim}, {fromProvider, beforeCapture}} {
		if !r.relayed(cut.from) {
			continue
		}
		if err := r.cutOff(ctx, cut.from, cut.at); err != nil {
			return met, fmt.Errorf("cutting a shop off from %s: %w", cut.from, err)
		}
		met = append(met, cut.from)
	}
	return met, nil
}

// relayed reports whether shops can be cut off from a partner.
func (r *row) relayed(from string) bool {
	for _, m := range r.shops.Running() {
		return m.Links[from] != nil // all are alike
	}
	return false
}

// cutOff cuts off the shop of the first call that reaches a seam, and lets the call go on. The
// shop has no open transaction when that begins: the fault is the late write, and not a lock in
// the database that everybody else waits for.
func (r *row) cutOff(ctx context.Context, from string, at fleet.Seam) error {
	fault := fleet.Arm{At: []fleet.Seam{at}, Skip: 1}
	if from == fromDatabase {
		fault.Around = quiet
	}
	return r.meet(ctx, fault, func(m *fleet.Member) error { return m.CutOff(ctx, from, r.cfg.long()) })
}
