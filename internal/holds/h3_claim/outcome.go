package hold

import (
	"context"
	"errors"
	"fmt"

	"oversell/internal/holds"
)

// errLost means that the hold had ended, or that the token was wrong, so that nothing was
// written.
var errLost = errors.New("the hold was not changed")

// find reads what never changes of a hold, and checks the token. What its status is now
// decides nothing: it may be another by the time of the UPDATE.
func (s *Stage) find(ctx context.Context, id string, token int64) (holds.Hold, error) {
	h, err := s.read(ctx, id)
	if err == nil && h.Token != token {
		err = holds.ErrToken
	}
	return h, err
}

// checkLeft saves a transaction for what is sold out.
func (s *Stage) checkLeft(ctx context.Context, r holds.Request) error {
	left, err := s.left(ctx, r.SKU, r.SaleID)
	if err == nil && left < r.Quantity {
		err = fmt.Errorf("%w: %d left", holds.ErrSoldOut, left)
	}
	return err
}

// notTaken answers a Take whose transaction returned err. The hold may be there all the
// same: from this request if the reply of the COMMIT was lost, or from another one with its
// key that was faster.
func (s *Stage) notTaken(ctx context.Context, r holds.Request, err error) (holds.Hold, error) {
	if errors.Is(err, errUnsure) {
		h, lookErr := s.settled(ctx, r.ID)
		if errors.Is(lookErr, holds.ErrUnknownHold) {
			lookErr = err
		}
		return h, lookErr
	}
	if h, found, lookErr := s.byKey(ctx, r); found || lookErr != nil {
		return h, lookErr
	}
	if errors.Is(err, holds.ErrSoldOut) {
		return holds.Hold{}, errors.Join(s.checkLeft(ctx, r), err)
	}
	return holds.Hold{}, err
}

// notClaimed answers a Claim whose transaction returned err. The order may be there all the
// same: from this call, or from an earlier one for the same payment.
func (s *Stage) notClaimed(ctx context.Context, h holds.Hold, err error) (holds.Order, error) {
	now, err := s.outcome(ctx, h, err)
	if now.Status == holds.Paid && now.PaymentID == h.PaymentID {
		return s.order(ctx, h.ID)
	}
	return holds.Order{}, err
}

// notReleased answers a Release whose transaction returned err.
func (s *Stage) notReleased(ctx context.Context, h holds.Hold, err error) error {
	now, outcome := s.outcome(ctx, h, err)
	if now.Status == holds.Released && errors.Is(err, errUnsure) {
		return nil
	}
	return outcome
}

// outcome looks up what became of a hold if err leaves that open. It returns the error for
// the caller too.
func (s *Stage) outcome(ctx context.Context, h holds.Hold, err error) (holds.Hold, error) {
	if !errors.Is(err, errUnsure) && !errors.Is(err, errLost) {
		return holds.Hold{}, err
	}
	now, lookErr := s.settled(ctx, h.ID)
	if lookErr == nil && now.Status == holds.Expired {
		now, lookErr = s.expire(ctx, now)
	}
	if lookErr != nil {
		return holds.Hold{}, errors.Join(err, lookErr)
	}
	if now.Status != holds.Held {
		err = holds.NotHeldError{Status: now.Status}
	}
	return now, err
}

// expire ends a hold that reads as expired, unless a sweep has done so. A read decides nothing:
// as long as the row is held, a claim that looked at the clock before the expiry may still win,
// and its buyer would get the order and the money.
func (s *Stage) expire(ctx context.Context, h holds.Hold) (holds.Hold, error) {
	if err := s.free(ctx, h, holds.Expired); err != nil && !errors.Is(err, errLost) {
		return holds.Hold{}, err
	}
	return s.settled(ctx, h.ID)
}
