package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"oversell/internal/catalog"
	"oversell/internal/fleet"
	"oversell/internal/guard"
	"oversell/internal/payment"
)

// provided returns the faults of the payment provider at the beginning of a row. Webhooks come so
// late that a process that was held up goes on before they settle its payment.
func (c Config) provided(condition catalog.Condition) (f payment.Faults) {
	switch condition {
	case catalog.Late:
		f = payment.Faults{WebhookDelay: payment.Duration(2 * c.long()), WebhookTwice: true}
	case catalog.Pause, catalog.Partition:
		f.WebhookDelay = payment.Duration(2 * c.long())
	case catalog.Crash:
		f = payment.Faults{
			WebhookDelay: payment.Duration(c.TTL * 12 / 10), WebhookTwice: true,
			ReplyDelay: payment.Duration(c.TTL / 10), // so that holds expire while their payment is under way
		}
	}
	return f
}

// The number of payments that are held up between their check and their write.
const (
	heldUp      = 4 // maximum number in each shop
	betweenHeld = 5 // one in this many payments
)

// inject injects the faults of the condition, and returns when ctx ends. It returns, in order, the
// seams where it injected a fault, or the partners that it cut shops off from. It returns an error if
// a fault could not be injected.
func (r *holdRow) inject(ctx context.Context) (met []string, err error) {
	switch r.cond {
	case catalog.Late:
		met, err = r.late(ctx)
	case catalog.Crash:
		met, err = r.crash(ctx)
	case catalog.Pause:
		met, err = r.pause(ctx)
	case catalog.Partition:
		met, err = r.partition(ctx)
	case catalog.Failover:
		met, err = r.failOver(ctx)
	}
	r.disarm(ctx)
	return met, err
}

// late delays some payments between their check and their write, until their hold has expired.
// Halfway through the load it also makes the provider's replies late: when a capture is answered,
// the hold has expired.
func (r *holdRow) late(ctx context.Context) ([]string, error) {
	holdUp := fleet.Arm{
		At: []fleet.Seam{BeforeClaim}, Delay: r.cfg.long(), Skip: 1, Every: betweenHeld, Most: heldUp,
	}
	if err := r.shops.Arm(ctx, holdUp); err != nil {
		return nil, err
	}
	if guard.Sleep(ctx, r.arrival/2) == nil {
		f := r.cfg.provided(r.cond)
		f.ReplyDelay = payment.Duration(r.cfg.TTL * 7 / 10) // to the authorisation, and later to the capture
		f.LoseReplyTo, f.LoseEvery = []string{payment.OpCapture}, 5
		if err := r.provider.SetFaults(ctx, f); err != nil && ctx.Err() == nil {
			return nil, err
		}
	}
	<-ctx.Done()
	for _, m := range r.shops.Running() {
		if len(m.HeldUp) > 0 {
			return []string{string(BeforeClaim)}, nil
		}
	}
	return nil, notReached(BeforeClaim)
}

// notReached returns an error that wraps fleet.ErrNotReached and names the seams.
func notReached(at ...fleet.Seam) error { return fmt.Errorf("%w %v", fleet.ErrNotReached, at) }

// crash kills a shop at each seam in turn, as soon as a call reaches it. A killed shop is replaced
// before the next one is killed.
func (r *holdRow) crash(ctx context.Context) (met []string, err error) {
	missing := slices.Clone(r.cfg.holdSeams(r.stage))
	if err := r.shops.Arm(ctx, r.killing(missing)); err != nil {
		return nil, err
	}
	for len(missing) > 0 {
		a, err := r.shops.Next(ctx)
		if err != nil {
			return met, notReached(missing...)
		}
		i := slices.Index(missing, a.At)
		switch {
		case a.Member.Killed.Load():
			continue
		case i < 0: // a shop was killed at this seam already
			if err := errors.Join(a.Member.Arm(ctx, r.killing(missing)), a.Member.Resume()); err != nil {
				return met, err
			}
			continue
		}
		missing = slices.Delete(missing, i, i+1)
		met = append(met, string(a.At))
		a.Member.Kill()
		// A new shop is started even if the load has ended: the next row needs it.
		started, err := r.shops.Add(context.WithoutCancel(ctx))
		if err == nil {
			err = started.Arm(context.WithoutCancel(ctx), r.killing(missing))
		}
		if err != nil {
			return met, err
		}
	}
	return met, nil
}

// killing returns the Arm for kills at seams. A kill also interrupts the process's other calls,
// which a sound stage must survive. In other stages an interrupted call might lose a unit, and so
// hide a unit that is sold twice at the seam. So no other call may move units during the kill.
func (r *holdRow) killing(at []fleet.Seam) fleet.Arm {
	if r.stage.Sound() {
		return fleet.Arm{At: at}
	}
	return fleet.Arm{At: at, Around: alone}
}

// pause stops a shop between the check and the write of a payment, until the hold has expired. The
// shop has no open transaction while it is stopped: the fault is the late write, not a lock in the
// database that all others wait for.
func (r *holdRow) pause(ctx context.Context) ([]string, error) {
	err := r.meet(ctx, fleet.Arm{At: []fleet.Seam{BeforeClaim}, Skip: 2, Around: quiet}, func(m *fleet.Member) error {
		if err := m.Pause(); err != nil {
			return fmt.Errorf("stopping a shop: %w", err)
		}
		_ = guard.Sleep(ctx, r.cfg.long())
		// The stopped process reads the command to resume once it runs again.
		return errors.Join(m.Resume(), m.Continue())
	})
	if err != nil {
		return nil, err
	}
	return []string{string(BeforeClaim)}, nil
}

// meet arms seams, and calls fault with the shop of the first call that reaches one.
func (r *holdRow) meet(ctx context.Context, a fleet.Arm, fault func(m *fleet.Member) error) error {
	if err := r.shops.Arm(ctx, a); err != nil {
		return err
	}
	err := r.shops.Catch(ctx, fault)
	if errors.Is(err, fleet.ErrNotReached) {
		return notReached(a.At...)
	}
	return err
}

// disarm disarms all seams, and resumes calls that wait at them, until ctx ends.
func (r *holdRow) disarm(ctx context.Context) {
	_ = r.shops.Arm(ctx, fleet.Arm{}) // a shop that has ended fails the row later
	r.shops.LetGo(ctx)
}

// partition cuts a shop off from each of its partners in turn, until a hold has expired. What the
// shop sends in the meantime arrives when the link is restored:
//
//   - from the database and from Redis, as a payment is about to write: its writes arrive when
//     the hold has expired;
//   - from the payment provider, as a payment is about to be captured: the buyer is charged for
//     a hold that has expired.
//
// A shop that is cut off from the database has no open transaction: the fault is the late write, not
// a lock in the database that all others wait for.
func (r *holdRow) partition(ctx context.Context) (met []string, err error) {
	for _, cut := range []struct {
		from   string
		at     fleet.Seam
		around string
	}{{toDatabase, BeforeClaim, quiet}, {toRedis, BeforeClaim, ""}, {toProvider, beforeCapture, ""}} {
		if m := r.shops.Survivor(); m == nil || m.Links[cut.from] == nil { // all shops have the same links
			continue
		}
		err := r.meet(ctx, fleet.Arm{At: []fleet.Seam{cut.at}, Skip: 1, Around: cut.around},
			func(m *fleet.Member) error {
				return m.CutOff(cut.from, func() { _ = guard.Sleep(ctx, r.cfg.long()) })
			})
		if err != nil {
			return met, fmt.Errorf("cutting a shop off from %s: %w", cut.from, err)
		}
		met = append(met, cut.from)
	}
	return met, nil
}

// failoverSpread is the shortest time over which buyers arrive in a row with a failover: some
// before it, and most after it.
const failoverSpread = 6 * time.Second

// failOver kills the primary when a third of the buyers have come. A failover that has begun is
// completed even if the load is over: the row is audited on the new primary.
func (r *holdRow) failOver(ctx context.Context) ([]string, error) {
	if guard.Sleep(ctx, r.arrival/3) != nil {
		return nil, context.Cause(ctx)
	}
	if err := r.cfg.Failovers.Failover(context.WithoutCancel(ctx)); err != nil {
		return nil, err
	}
	return []string{toRedis}, nil
}
