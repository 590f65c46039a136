package holdsale

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"oversell/internal/catalog"
	"oversell/internal/payment"
	"oversell/internal/proc"
)

// provided returns the faults of the payment provider from the beginning of a row on.
func (c Config) provided(condition catalog.Condition) payment.Faults {
	return c.always(c.under(condition))
}

// always adds the faults that a row has from its beginning to its end.
func (c Config) always(f payment.Faults) payment.Faults {
	if c.deaf {
		f.WebhookDropEvery = 1
	}
	return f
}

// under returns the faults of a condition. Webhooks come late enough that they do not settle a
// payment before the process does that was held up.
func (c Config) under(condition catalog.Condition) payment.Faults {
	switch condition {
	case catalog.Late:
		return payment.Faults{WebhookDelay: payment.Duration(2 * c.long()), WebhookTwice: true}
	case catalog.Pause, catalog.Partition:
		return payment.Faults{WebhookDelay: payment.Duration(2 * c.long())}
	case catalog.Crash:
		return payment.Faults{
			WebhookDelay: payment.Duration(c.TTL * 12 / 10), WebhookTwice: true,
			ReplyDelay: payment.Duration(c.TTL / 10), // so that holds expire while their payment is under way
		}
	}
	return payment.Faults{}
}

// How many payments are held up between their check and their write.
const (
	heldUp      = 4 // by each shop
	betweenHeld = 5 // payments that are not
)

// inject injects the faults of the condition until ctx ends. It returns the seams at which
// it did, or what shops were cut off from, in turn, and an error if there was none to inject a
// fault at.
func (r *row) inject(ctx context.Context) ([]string, error) {
	switch r.cond {
	case catalog.Late:
		return r.late(ctx)
	case catalog.Crash:
		return r.crash(ctx)
	case catalog.Pause:
		return r.pause(ctx)
	case catalog.Partition:
		return r.partition(ctx)
	case catalog.Failover:
		return r.failOver(ctx)
	}
	return nil, nil
}

// everywhere arms the seams of all shops.
func (r *row) everywhere(ctx context.Context, a arm) error {
	for _, p := range r.fleet.alive() {
		if err := p.arm(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

// late holds some payments up between their check and their write, for longer than their
// hold lives. Later the provider's replies are late too: when a capture is answered, the
// hold has expired.
func (r *row) late(ctx context.Context) ([]string, error) {
	if err := r.everywhere(ctx, arm{Seams: []Seam{BeforeClaim}, Delay: r.cfg.long(), Skip: 1, Every: betweenHeld, Most: heldUp}); err != nil {
		return nil, err
	}
	if proc.Sleep(ctx, r.spread/2) {
		f := r.cfg.provided(r.cond)
		f.ReplyDelay = payment.Duration(r.cfg.TTL * 7 / 10) // to the authorisation, and to the capture
		f.LoseReplyTo, f.LoseEvery = []string{payment.OpCapture}, 5
		if err := r.fleet.payments.SetFaults(ctx, f); err != nil && ctx.Err() == nil {
			return nil, err
		}
	}
	<-ctx.Done()
	for _, p := range r.fleet.alive() {
		if p.delayed.Load() {
			return []string{string(BeforeClaim)}, nil
		}
	}
	return nil, notInjected{BeforeClaim}
}

// notInjected means that no call came to these seams.
type notInjected []Seam

func (n notInjected) Error() string { return fmt.Sprintf("no call reached the seam %v", []Seam(n)) }

// crash kills a shop at each seam in turn, as soon as a call reaches one. A killed shop is
// replaced before the next one is killed.
func (r *row) crash(ctx context.Context) (met []string, err error) {
	missing := slices.Clone(r.cfg.seams(r.stage))
	if err := r.everywhere(ctx, r.killing(missing)); err != nil {
		return nil, err
	}
	for len(missing) > 0 {
		var a arrival
		select {
		case a = <-r.fleet.reached:
		case <-ctx.Done():
			return met, notInjected(missing)
		}
		i := slices.Index(missing, a.at)
		if i < 0 || a.shop.killed.Load() {
			if err := r.goOn(ctx, a.shop, missing); err != nil {
				return met, err
			}
			continue
		}
		missing = slices.Delete(missing, i, i+1)
		met = append(met, string(a.at))
		a.shop.kill()
		if err := r.replace(ctx, missing); err != nil {
			return met, err
		}
	}
	r.disarm(ctx)
	return met, nil
}

// goOn lets a call go on that waits at a seam where nothing is to happen any more.
func (r *row) goOn(ctx context.Context, p *process, missing []Seam) error {
	if p.killed.Load() {
		return nil
	}
	return errors.Join(p.arm(ctx, r.killing(missing)), p.Send(command{Resume: true}))
}

// replace starts a shop in the place of a killed one.
func (r *row) replace(ctx context.Context, missing []Seam) error {
	started, err := r.fleet.add(context.WithoutCancel(ctx)) // also when the load has ended: the next row needs it
	if err != nil {
		return err
	}
	return started.arm(context.WithoutCancel(ctx), r.killing(missing))
}

// killing arms seams for a kill. Whatever else the process is doing is cut in two as well,
// and a sound stage must bear that. For another one it would be left to chance: a unit that is
// lost elsewhere would hide one that is sold twice at the seam.
func (r *row) killing(at []Seam) arm {
	return arm{Seams: at, Most: 1, Alone: !r.stage.Sound()}
}

// pause stops a shop between the check and the write of a payment, for longer than its hold
// lives. The shop has no open transaction meanwhile: the fault is the late write, and not a
// lock that everybody else waits for.
func (r *row) pause(ctx context.Context) ([]string, error) {
	if err := r.everywhere(ctx, arm{Seams: []Seam{BeforeClaim}, Skip: 2, Most: 1, Quiet: true}); err != nil {
		return nil, err
	}
	a, err := r.victim(ctx, BeforeClaim)
	if err != nil {
		return nil, err
	}
	a.shop.paused.Store(true)
	if err := a.shop.Pause(); err != nil {
		return nil, fmt.Errorf("stopping a shop: %w", err)
	}
	r.pass(ctx, r.cfg.long())
	// The stopped process finds the command when it goes on.
	err = errors.Join(a.shop.Send(command{Resume: true}), a.shop.Continue())
	r.disarm(ctx)
	return []string{string(a.at)}, err
}

// victim waits for a call at a seam, and disarms the seams of the shops that it is not in.
func (r *row) victim(ctx context.Context, at Seam) (a arrival, err error) {
	select {
	case a = <-r.fleet.reached:
	case <-ctx.Done():
		return a, notInjected{at}
	}
	for _, other := range r.fleet.alive() {
		if other != a.shop {
			if err := other.arm(ctx, arm{}); err != nil {
				return a, err
			}
		}
	}
	return a, nil
}

// pass waits, and meanwhile lets calls of other shops go on that wait at a seam.
func (r *row) pass(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case a := <-r.fleet.reached:
			_ = a.shop.Send(command{Resume: true}) // if it has ended, the row fails
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// disarm disarms all seams, and lets calls go on that wait there, until ctx ends.
func (r *row) disarm(ctx context.Context) {
	for _, p := range r.fleet.alive() {
		_ = p.arm(ctx, arm{}) // a shop that has ended fails the row later
	}
	for {
		select {
		case a := <-r.fleet.reached:
			if !a.shop.killed.Load() {
				_ = a.shop.Send(command{Resume: true}) // likewise
			}
		case <-ctx.Done():
			return
		}
	}
}
