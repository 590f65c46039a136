package holds

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"oversell/internal/guard"
	"oversell/internal/payment"
)

const (
	// maxSettled is the maximum number of payments in one round.
	maxSettled = 1_000
	// abreast is how many payments are settled at the same time.
	abreast = 4
	// looks is how many times the table is read within Config.Settle, or within maxSettlePause if
	// that is shorter.
	looks = 10
	// maxSettlePause is the longest pause between two tries to settle a payment.
	maxSettlePause = 10 * time.Minute
	// maxFailures is how many times the settlement of a payment may fail before the payment gets an
	// alarm, and no longer keeps its item from being deleted.
	maxFailures = 5
)

// errUnderWay means that a payment may still be captured or lead to an order, because its hold has
// not ended.
var errUnderWay = errors.New("the payment is under way")

// settleAll settles interrupted payments, again and again until ctx ends. Several shops may do so
// at the same time: only one of them takes each payment (see takeDue).
func (s *Service) settleAll(ctx context.Context) {
	pause := s.lookPause()
	var seen attendance
	for guard.Sleep(ctx, pause/2+rand.N(pause)) == nil {
		err := s.Settle(ctx)
		if errors.Is(err, errUnread) {
			seen = attendance{}
		} else if seen.record(time.Now(), maxSettlePause) >= abandoned {
			err = errors.Join(err, s.ForgetAbandoned(ctx))
		}
		if err != nil && ctx.Err() == nil {
			s.log.Warn("an interrupted payment cannot be settled now, and will be tried again", "error", err)
		}
	}
}

// attendance tracks for how long a process has read the table without a long gap.
type attendance struct{ since, last time.Time }

// record records that the table was read now. It returns for how long the table has been read
// without a gap longer than gap. It uses the wall clock, because the monotonic clock stops while
// the machine sleeps.
func (a *attendance) record(now time.Time, gap time.Duration) time.Duration {
	now = now.Round(0)
	if since := now.Sub(a.last); since > gap || since < 0 {
		a.since = now
	}
	a.last = now
	return now.Sub(a.since)
}

// lookPause returns the mean time between two reads of the table. It is much shorter than
// abandoned, even if Config.Settle is long: otherwise other shops would forget payments at a
// provider inside this shop.
func (s *Service) lookPause() time.Duration { return min(s.cfg.Settle, maxSettlePause) / looks }

// Settle settles payments that began longer than Config.Settle ago and were interrupted, because
// their process died or the provider did not answer: a captured payment leads to an order or is
// refunded, and one that was never captured is cancelled when its hold has ended. It needs no
// webhook. The Service calls it by itself, and several processes may do so at the same time.
//
// A payment that cannot be settled now is tried again later, after a pause that grows. A round ends
// after a while, and the next one begins with the least tried payments, so that many such payments
// do not delay the others.
func (s *Service) Settle(ctx context.Context) error {
	if s.cfg.Payments == nil {
		return ErrNoPayments
	}
	due, err := s.due(ctx, maxSettled)
	if err != nil {
		return err
	}
	var first error // the errors of the first payments that failed
	end := time.Now().Add(min(s.cfg.Settle, payTimeout) / 2)
	for some := range slices.Chunk(due, abreast) {
		errs := make([]error, len(some))
		var all sync.WaitGroup
		for i, b := range some {
			all.Go(func() { errs[i] = s.settleOne(ctx, b) })
		}
		all.Wait()
		failed := slices.DeleteFunc(errs, func(err error) bool { return err == nil })
		if first == nil {
			first = errors.Join(failed...)
		}
		if ctx.Err() != nil {
			return errors.Join(first, context.Cause(ctx))
		}
		if time.Now().After(end) || len(failed) == len(some) && !s.answers(ctx) {
			break
		}
	}
	return first
}

// answers reports whether the provider answers at all. If it does, payments that fail have other
// causes.
func (s *Service) answers(ctx context.Context) bool {
	_, err := s.cfg.Payments.Payment(ctx, "none")
	return !errors.Is(err, payment.ErrUnavailable)
}

// settleOne settles a payment unless another process does. It also returns nil if the payment is
// still under way.
func (s *Service) settleOne(ctx context.Context, b begunRow) error {
	mine, err := s.takeDue(ctx, b, s.settlePause(b.Tries))
	if err != nil || !mine {
		return err
	}
	b, found, err := s.begun(ctx, b.HoldID, b.Key) // it may have got an id since the round began
	if err != nil || !found {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, payTimeout)
	defer cancel()
	err = s.conclude(limited, b)
	switch {
	case errors.Is(err, errUnderWay), errors.Is(err, ErrRefunded):
		return nil
	case err != nil && ctx.Err() == nil:
		err = errors.Join(err, s.failed(ctx, b, err))
		fallthrough
	case err != nil:
		return fmt.Errorf("settling a payment for hold %s: %w", b.HoldID, err)
	}
	s.log.Info("a payment that was interrupted is settled", "hold", b.HoldID)
	return nil
}

// failed counts a failed settlement of a payment, and raises an alarm after too many. It does not
// increase RefundsFailed, because the provider may just not have answered.
func (s *Service) failed(ctx context.Context, b begunRow, cause error) error {
	_, err := s.exec(ctx,
		"UPDATE oversell_hold_payments SET times_unknown = times_unknown + 1 WHERE hold_id = ? AND idempotency_key = ?",
		b.HoldID, b.Key)
	if b.Failures+1 >= maxFailures {
		s.alarm(ctx, b, alarmUnsettled, "a payment cannot be settled", "error", cause)
		if errors.Is(cause, errNotRefunded) { // the provider may always answer this key with an error
			err = errors.Join(err, s.nextRefundKey(ctx, b))
		}
	}
	return err
}

// settlePause returns the pause after a try to settle a payment. It doubles each time.
func (s *Service) settlePause(tries int) time.Duration {
	pause := s.cfg.Settle
	for range tries {
		if pause *= 2; pause >= maxSettlePause {
			return maxSettlePause
		}
	}
	return pause
}

// conclude completes a payment in any state. It returns nil if the payment has led to an order or
// was not captured and never will be, ErrRefunded if the buyer was charged and got the money back,
// and errUnderWay if the hold of a payment that is not captured has not ended. After any other error
// the payment is not settled. It may be called any number of times, even by several processes and
// the buyer's own request at the same time.
func (s *Service) conclude(ctx context.Context, b begunRow) error {
	if err := s.checkLedger(b); err != nil {
		return err
	}
	stage, err := s.stageOf(b.HoldID)
	if err != nil {
		return err // it belongs to a shop with other stages
	}
	// The hold is read before the payment. If the hold has ended by now, a capture that comes
	// later is too late and is refunded.
	h, err := stage.Look(ctx, b.HoldID)
	over := errors.Is(err, ErrUnknownHold) || err == nil && h.Status != Held
	if err != nil && !over {
		return fmt.Errorf("looking up the hold: %w", err)
	}
	if b.PaymentID == "" && !over {
		return errUnderWay
	}
	h.ID, h.Token = b.HoldID, b.Token
	if b.Cancelling {
		return s.finishCancel(ctx, stage, h, b)
	}
	p, err := s.find(ctx, b)
	if err == nil && b.PaymentID == "" {
		if err := s.authorised(ctx, b, p.ID); err != nil { // a refund that fails is recorded under the id
			return err
		}
		b.PaymentID = p.ID
		p, err = s.lookUpPayment(ctx, b, p.ID) // the reply shows the state that the payment had when it was made
	}
	switch {
	case errors.Is(err, payment.ErrDeclined):
		return nil // authorise has deleted the row
	case errors.Is(err, payment.ErrUnavailable) && b.PaymentID == "" && b.Tries > 1:
		return s.concludeByReference(ctx, stage, h, b, err)
	case err != nil:
		return err
	}
	err = s.finish(ctx, stage, h, p, over)
	if err == nil || errors.Is(err, ErrRefunded) {
		s.settled(ctx, b, p.ID)
	}
	return err
}

// finish completes a payment of a hold. It returns the same errors as conclude.
func (s *Service) finish(ctx context.Context, stage Stage, h Hold, p payment.Payment, over bool) error {
	switch {
	case p.Status == payment.Captured:
		_, err := s.settle(ctx, stage, h, p)
		return err
	case p.Status == payment.Authorised && !over:
		return errUnderWay
	case p.Status == payment.Refunded && !over:
		// It was refunded outside the shop. Its record stays: without it, a repeated request would
		// get the provider's first replies, which do not show the refund, and then an order.
		return errUnderWay
	case p.Status == payment.Authorised:
		return s.refund(ctx, h.ID, p.ID)
	case p.Status == payment.Refunding:
		return errUnderWay
	}
	return nil
}

// concludeByReference concludes a payment without an id, if the provider keeps answering the key of
// its authorisation with an error. The hold has ended, so all payments for it are completed, under
// any key. If there is none, the buyer was never charged. A process that was paused before the
// authorisation writes the row again before its capture.
func (s *Service) concludeByReference(ctx context.Context, stage Stage, h Hold, b begunRow, cause error) error {
	found, err := s.cfg.Payments.Find(ctx, b.reference())
	if err != nil {
		return errors.Join(cause, err)
	}
	var refunded error
	for _, p := range found {
		switch err := s.finish(ctx, stage, h, p, true); {
		case errors.Is(err, ErrRefunded):
			refunded = err
		case err != nil:
			return err
		}
	}
	s.log.Warn("the provider does not answer a request for a payment, and has these for the hold",
		"hold", b.HoldID, "payments", len(found), "error", cause)
	s.settled(ctx, b, "")
	return refunded
}

// find returns a payment that has begun. If its id is on record, it is looked up: the provider may
// have forgotten the idempotency key, and would make a second payment. Otherwise a process that is
// slow or died may have authorised it. The same request with the same key finds that payment, or
// makes it.
func (s *Service) find(ctx context.Context, b begunRow) (payment.Payment, error) {
	if b.PaymentID == "" {
		return s.authorise(ctx, b)
	}
	return s.lookUpPayment(ctx, b, b.PaymentID)
}

// lookUpPayment returns the current state of a payment.
func (s *Service) lookUpPayment(ctx context.Context, b begunRow, paymentID string) (p payment.Payment, err error) {
	err = untilAnswered(ctx, func() error {
		p, err = s.cfg.Payments.Payment(ctx, paymentID)
		return err
	})
	if errors.Is(err, payment.ErrUnknownPayment) {
		s.alarm(ctx, b, alarmUnknown, "the provider does not know a payment that it has authorised")
	}
	return p, err
}
