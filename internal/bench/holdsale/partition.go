package holdsale

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"oversell/internal/backend"
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
func relay(s setup) (_ setup, l map[string]*fault.Relay, err error) {
	l = make(map[string]*fault.Relay)
	started := l
	defer func() {
		if err != nil {
			err = fmt.Errorf("relaying the connections of %s: %w", s.Name, err)
			for _, r := range started {
				err = errors.Join(err, r.Close())
			}
		}
	}()
	through := func(name, target string) (string, error) {
		r, err := fault.StartRelay(target)
		if err != nil {
			return "", err
		}
		started[name] = r
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
